"""The campaign's lock: one run at a time, even if its holder dies (docs/delivery.md)."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from runner.errors import LedgerError, RunLockedError
from runner.ledger.database import Ledger
from runner.ledger.locks.campaign_lock import LockHolder, find_run_url, hold_campaign_lock
from runner.ledger.tables import locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.ledger.locks.campaign_lock import CampaignLock
    from tests.postgres import PostgresServer

RUN_URL = "https://git.example.com/acme/surveys/actions/runs/7"
FIRST = LockHolder("ci-1", 41, RUN_URL, "2026-11-20T12:00:00.000000Z")
SECOND = LockHolder("ci-2", 42, None, "2026-11-20T12:00:05.000000Z")
HELD = (
    f"pulse on live is being sent by another run: process 41 on ci-1 ({RUN_URL}) since 2026-11-20 12:00 UTC"
)
WAIT = "wait until that run has ended, or have this one wait with --lock-timeout"
HOLD_FOR_EVER = """
import sys, time
from runner.ledger.database import Ledger
from runner.ledger.locks.campaign_lock import LockHolder, hold_campaign_lock
with Ledger(sys.argv[1]) as ledger:
    ledger.prepare()
    with hold_campaign_lock(ledger, "live", ["pulse"], LockHolder("elsewhere", 1, None, "now")):
        print("held", flush=True)
        time.sleep(600)
"""


@pytest.fixture
def other(ledger: Ledger, ledger_url: str) -> Iterator[Ledger]:
    """The same ledger, as another run has it open."""
    assert ledger is not None
    with Ledger(ledger_url) as opened:
        yield opened


class Clock:
    """Seconds that pass while somebody sleeps, and what happens meanwhile."""

    def __init__(self, *, then: Callable[[], None] | None = None, at: float = 0) -> None:
        self.now = 1000.0
        self._then = then
        self._at = 1000.0 + at

    def read(self) -> float:
        """Return the seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds > 0
        self.now += seconds
        if self._then is not None and self.now >= self._at:
            self._then()
            self._then = None


@contextmanager
def running_holder(url: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD_FOR_EVER, url],
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def require(lock: CampaignLock, ledger: Ledger) -> None:
    with ledger.writing() as connection:
        lock.require_held(connection)


def require_free(ledger: Ledger, name: str) -> None:
    with hold_campaign_lock(ledger, "live", [name], FIRST) as lock:
        require(lock, ledger)


def refuse(ledger: Ledger, holder: LockHolder = SECOND) -> RunLockedError:
    with pytest.raises(RunLockedError) as caught, hold_campaign_lock(ledger, "live", ["pulse"], holder):
        pass
    return caught.value


def test_one_run_at_a_time(ledger: Ledger, other: Ledger) -> None:
    """Another is told who it is and since when; afterwards it gets it, whatever the first one's end and clock."""
    with suppress(RuntimeError), hold_campaign_lock(ledger, "live", ["pulse"], FIRST) as lock:
        require(lock, ledger)
        error = refuse(other)
        assert (error.message, error.hint, error.exit_code) == (HELD, WAIT, 6)
        require(lock, ledger)
        raise RuntimeError
    with hold_campaign_lock(ledger, "live", ["pulse"], replace(FIRST, since="2099-01-01T00:00:00Z")):
        assert "since 2099" in refuse(other).message
    with hold_campaign_lock(other, "live", ["pulse"], SECOND) as lock:
        require(lock, other)
        assert "process 42 on ci-2 since" in refuse(ledger, FIRST).message


def test_waiting_ends_when_the_other_run_does(ledger: Ledger, other: Ledger) -> None:
    """With a timeout, a run waits for the other one and goes on when that has ended."""
    with ExitStack() as stack:
        stack.enter_context(hold_campaign_lock(ledger, "live", ["pulse"], FIRST))
        clock = Clock(then=stack.close, at=20)
        with hold_campaign_lock(
            other, "live", ["pulse"], SECOND, timeout_s=30, clock=clock.read, sleep=clock.sleep
        ) as lock:
            assert 20 <= clock.now - 1000 < 21
            require(lock, other)


def test_waiting_ends_at_its_timeout(ledger: Ledger, other: Ledger) -> None:
    """A run waits as long as it was told to, and not longer."""
    clock = Clock()
    with (
        hold_campaign_lock(ledger, "live", ["pulse"], FIRST),
        pytest.raises(RunLockedError) as caught,
        hold_campaign_lock(
            other, "live", ["pulse"], SECOND, timeout_s=30.1, clock=clock.read, sleep=clock.sleep
        ),
    ):
        pass
    assert clock.now == pytest.approx(1030.1)
    assert caught.value.message == HELD


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        (["heartbeat", "pulse"], ["pulse"], "pulse"),
        (["pulse"], ["heartbeat", "pulse"], "pulse"),
        (["beat", "heartbeat", "pulse"], ["heartbeat", "pulse"], "heartbeat"),
    ],
)
def test_a_renamed_campaign_is_the_same_one(
    ledger: Ledger, other: Ledger, first: list[str], second: list[str], taken: str
) -> None:
    """A run under the new name and one from an old checkout, under an old name, exclude each other."""
    with hold_campaign_lock(ledger, "live", first, FIRST) as lock:
        with pytest.raises(RunLockedError) as caught, hold_campaign_lock(other, "live", second, SECOND):
            pass
        assert caught.value.message == HELD.replace("pulse", taken)
        require(lock, ledger)
        # The names that it got before are free again.
        for free in {*second} - {*first}:
            require_free(other, free)
    with hold_campaign_lock(other, "live", second, SECOND) as lock:
        require(lock, other)


def test_names_are_taken_in_one_order(ledger: Ledger, other: Ledger) -> None:
    """Renamed there and back, two runs have their names in opposite orders; neither waits holding one."""
    with hold_campaign_lock(ledger, "live", ["beat"], FIRST):
        clock = Clock(then=lambda: require_free(ledger, "pulse"), at=1)
        with (
            pytest.raises(RunLockedError),
            hold_campaign_lock(
                other, "live", ["pulse", "beat"], SECOND, timeout_s=2, clock=clock.read, sleep=clock.sleep
            ),
        ):
            pass
    assert clock.now == pytest.approx(1002)


@pytest.mark.slow
def test_a_killed_holder_holds_nothing(ledger_url: str) -> None:
    """The death of the process frees the lock, and nobody has to clear anything away."""
    with running_holder(ledger_url) as process, Ledger(ledger_url) as ledger:
        assert "process 1 on elsewhere since now" in refuse(ledger).message
        process.send_signal(signal.SIGKILL)
        process.wait()
        # A server notices the end of a connection a moment after it.
        with hold_campaign_lock(ledger, "live", ["pulse"], SECOND, timeout_s=100) as lock:
            require(lock, ledger)


@pytest.mark.parametrize("name", ["heartbeat", "pulse"])
def test_a_run_that_lost_its_lock_to_another_records_nothing(
    ledger: Ledger, other: Ledger, name: str
) -> None:
    """The transaction that would record intents finds that another run has one of its names, and fails."""
    with hold_campaign_lock(ledger, "live", ["heartbeat", "pulse"], FIRST) as lock:
        with other.writing() as connection:
            another = {"host": "ci-9", "process": 9, "run_url": None, "since": "now"}
            taken = update(locks).where(locks.c.campaign == name)
            connection.execute(taken.values(term=locks.c.term + 1, **another))
        with pytest.raises(RunLockedError) as caught:
            require(lock, ledger)
    assert caught.value.message == (
        f"this run has lost the lock of {name} on live to another run: process 9 on ci-9 since now; "
        "nothing more is sent"
    )
    assert caught.value.hint == "let the other run end, then run the same command again"


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_lock_file_that_was_removed_is_noticed(
    sqlite_ledger: Ledger, sqlite_file: Path, *, is_made_again: bool
) -> None:
    """Whoever clears the state folder during a run opens the door to another: the run stops."""
    with hold_campaign_lock(sqlite_ledger, "live", ["pulse"], FIRST) as lock:
        (file,) = (sqlite_file.parent / "locks").iterdir()
        shutil.rmtree(file.parent)
        if is_made_again:
            file.parent.mkdir()
            file.touch()
        with pytest.raises(LedgerError) as caught:
            require(lock, sqlite_ledger)
    assert caught.value.message == "this run has lost the lock of pulse on live; nothing more is sent"
    assert caught.value.hint == (
        "check that the ledger is there and was not moved, then run the same command again"
    )


def test_a_lost_connection_loses_every_lock_of_it(postgres: PostgresServer) -> None:
    """When the server ends the session, each of its locks counts as lost, although the ledger still answers."""
    database = postgres.create_database()
    with Ledger(postgres.url(database)) as ledger:
        ledger.prepare()
        with (
            hold_campaign_lock(ledger, "live", ["pulse"], FIRST) as pulse,
            hold_campaign_lock(ledger, "live", ["nudge"], FIRST) as nudge,
        ):
            require(pulse, ledger)
            postgres.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'",
                database=database,
            )
            for lock in (pulse, nudge, pulse):
                with pytest.raises(LedgerError) as caught:
                    require(lock, ledger)
                assert "; nothing more is sent" in caught.value.message
        # A server gives a session's locks back a moment after it has told of its end.
        with hold_campaign_lock(ledger, "live", ["pulse"], SECOND, timeout_s=100) as lock:
            require(lock, ledger)


def test_a_new_holder_waits_for_a_transaction_of_the_last(postgres: PostgresServer) -> None:
    """Intents that are being committed by a run that has just lost its lock are seen by the next run."""
    url = postgres.url(postgres.create_database())
    with Ledger(url) as ledger, Ledger(url) as other:
        ledger.prepare()
        with hold_campaign_lock(ledger, "live", ["pulse"], FIRST) as lock, ledger.writing() as connection:
            lock.require_held(connection)
            with pytest.raises(LedgerError) as caught, other.writing() as impatient:
                impatient.exec_driver_sql("SET LOCAL lock_timeout = '50ms'; UPDATE locks SET term = term + 1")
    assert "canceling statement due to lock timeout" in caught.value.message


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"CI_JOB_URL": ""}, None),
        ({"CI_JOB_URL": "https://gitlab.example.com/jobs/1"}, "https://gitlab.example.com/jobs/1"),
        ({"GITHUB_REPOSITORY": "acme/surveys", "GITHUB_RUN_ID": "7"}, None),
        (
            {
                "GITHUB_SERVER_URL": "https://git.example.com",
                "GITHUB_REPOSITORY": "acme/surveys",
                "GITHUB_RUN_ID": "7",
            },
            RUN_URL,
        ),
    ],
)
def test_a_ci_job_is_named_by_its_address(environment: dict[str, str], expected: str | None) -> None:
    """The holder's page in CI is where one sees how far it has come."""
    assert find_run_url(environment) == expected
