"""One run at a time for each campaign on a target (design: delivery, step 6).

What says "taken" is freed by the death of its holder, whatever it died of: a file lock that the
kernel keeps, or an advisory lock of a PostgreSQL session. Beside it the table `locks` says who the
holder is, and numbers the holders: a run that has lost its lock without noticing finds in the very
transaction that would record its next intents that its term is over, and sends nothing more.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select, update

from runner.errors import LedgerError, RunLockedError
from runner.ledger.database import insert_into
from runner.ledger.latch import make_latch
from runner.ledger.lease_wait import LiveLeases, wait_for_leases
from runner.ledger.tables import locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from runner.ledger.database import Ledger
    from runner.ledger.latch import Latch

_POLL_S = 0.25
_POLLS_FOR_HOLDER = 8

_TRUSTED_S = 1.0
"""How long a look at the lock is good for: next to nothing beside the window in which another run settles."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who runs a campaign.

    Attributes:
        host: the machine's name.
        process: the number of its process there.
        run_url: of the CI job; None if it isn't one.
        since: when it took the lock; UTC, ISO 8601.
    """

    host: str
    process: int
    run_url: str | None
    since: str

    def describe(self) -> str:
        """Return who it is in words, as in `process 7 on ci-3 (https://…) since 2026-11-20T12:00:00Z`."""
        run = f" ({self.run_url})" if self.run_url else ""
        return f"process {self.process} on {self.host}{run} since {self.since}"


def find_run_url(environment: Mapping[str, str]) -> str | None:
    """Return the address of the CI job that this process belongs to; None if it belongs to none.

    Known are GitHub Actions (`GITHUB_SERVER_URL`, `GITHUB_REPOSITORY`, `GITHUB_RUN_ID`) and GitLab
    (`CI_JOB_URL`).
    """
    parts = [environment.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    if all(parts):
        server, repository, run = parts
        return f"{server}/{repository}/actions/runs/{run}"
    return environment.get("CI_JOB_URL") or None


@dataclass(frozen=True, slots=True)
class _Hold:
    """One name of a campaign, held by this run.

    Attributes:
        name: the name.
        latch: what the death of this process frees.
        term: the number of this run among the holders.
    """

    name: str
    latch: Latch
    term: int


class CampaignLock:
    """The lock of one campaign under each of its names, held by this run. `hold_campaign_lock` makes it.

    Args:
        target: the target's name.
        holds: one for each name.
    """

    def __init__(self, target: str, holds: Sequence[_Hold]) -> None:
        self._target = target
        self._holds = tuple(holds)
        self._turn = threading.Lock()
        self._seen_at = read_clock()

    @property
    def terms(self) -> dict[str, int]:
        """The number of this run among the holders, by the names that it holds."""
        return {hold.name: hold.term for hold in self._holds}

    def require_held(self, connection: Connection) -> None:
        """Make sure that no other run can have begun. To be called by each transaction that records intents.

        Args:
            connection: of that transaction. Until it ends no other run gets the lock.

        Raises:
            RunLockedError: another run has got the lock.
            LedgerError: the lock was lost, and another run could get it.
        """
        for hold in self._holds:
            self._require_term(connection, hold)
        self.require_latched()

    def require_seen(self) -> None:
        """Make sure that the lock was still held a moment ago: from any thread, before each request.

        Between an intent and its request there can be a pause that the service asks for, or a machine
        that sleeps.

        Raises:
            LedgerError: the lock was lost.
        """
        if read_clock() - self._seen_at < _TRUSTED_S:
            return
        with self._turn:
            if read_clock() - self._seen_at >= _TRUSTED_S:
                self.require_latched()

    def require_latched(self) -> None:
        """Make sure that the lock is held now.

        Raises:
            LedgerError: the lock was lost.
        """
        seen_at = read_clock()
        for hold in self._holds:
            if not hold.latch.is_held():
                raise LedgerError(
                    f"{self._describe_loss(hold)}; nothing more is sent",
                    hint=f"{hold.latch.advice}, then run the same command again",
                )
        self._seen_at = seen_at

    def _require_term(self, connection: Connection, hold: _Hold) -> None:
        term, holder = _read_holder(connection, self._target, hold.name, is_kept=True)
        if term != hold.term:
            raise RunLockedError(
                f"{self._describe_loss(hold)} to {_describe(holder)}; nothing more is sent",
                hint="let the other run end, then run the same command again",
            )

    def _describe_loss(self, hold: _Hold) -> str:
        return f"this run has lost the lock of {hold.name} on {self._target}"


def read_clock() -> float:
    """Return seconds on a clock that nobody sets, and that counts the machine's sleep if there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class _Patience:
    """For how long to wait for another run.

    Attributes:
        deadline: until when, on `clock`.
        clock: returns seconds.
        sleep: waits for so many seconds.
    """

    deadline: float
    clock: Callable[[], float]
    sleep: Callable[[float], object]


@contextmanager
def hold_campaign_lock(
    ledger: Ledger,
    target: str,
    names: Iterable[str],
    holder: LockHolder,
    *,
    timeout_s: float = 0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
    tell: Callable[[LiveLeases], object] = lambda _leases: None,
) -> Iterator[CampaignLock]:
    """Hold the lock of a campaign on a target while the block lasts.

    Args:
        ledger: open, with its tables.
        target: the target's name.
        names: the campaign's name and those that it had before (`Identity.names`): a run from an old
            checkout knows it under one of these.
        holder: who is going to hold it.
        timeout_s: for how long to wait for other runs, in seconds.
        clock: returns seconds; must not be one that can be set.
        sleep: waits for so many seconds; may raise to give up.
        tell: is told that tasks of an earlier run on a cluster may still send, and are waited for.

    Raises:
        RunLockedError: another run still holds it.
        LedgerError: the ledger cannot be used.
    """
    patience = _Patience(clock() + timeout_s, clock, sleep)
    with ExitStack() as stack:
        # Always in one order: two runs that each have what the other wants would wait in vain.
        holds = [
            stack.enter_context(_hold_name(ledger, target, name, holder, patience))
            for name in sorted(set(names))
        ]
        wait_for_leases(ledger, target, [hold.name for hold in holds], sleep, tell)
        yield CampaignLock(target, holds)


@contextmanager
def _hold_name(
    ledger: Ledger, target: str, name: str, holder: LockHolder, patience: _Patience
) -> Iterator[_Hold]:
    latch = make_latch(ledger, target, name)
    try:
        while not latch.try_take():
            left_s = patience.deadline - patience.clock()
            if left_s <= 0:
                raise _locked(ledger, target, name, patience.sleep)
            patience.sleep(min(_POLL_S, left_s))
        with ledger.writing() as connection:
            term = _enter_holder(connection, target, name, holder)
        try:
            yield _Hold(name, latch, term)
        finally:
            _leave(ledger, target, name, term)
    finally:
        latch.release()


def _enter_holder(connection: Connection, target: str, campaign: str, holder: LockHolder) -> int:
    values = {"target": target, "campaign": campaign, **asdict(holder)}
    statement = insert_into(connection, locks).values(term=1, **values)
    entered = statement.on_conflict_do_update(
        index_elements=[locks.c.target, locks.c.campaign],
        set_={"term": locks.c.term + 1, **asdict(holder)},
    )
    term: int = connection.execute(entered.returning(locks.c.term)).scalar_one()
    return term


def _leave(ledger: Ledger, target: str, campaign: str, term: int) -> None:
    nobody = dict.fromkeys(("host", "process", "run_url", "since"))
    is_own = (locks.c.target == target) & (locks.c.campaign == campaign) & (locks.c.term == term)
    # Only for who meets the next holder before that has entered itself: it is not told of this one.
    with suppress(LedgerError), ledger.writing() as connection:
        connection.execute(update(locks).where(is_own).values(nobody))


def _read_holder(
    connection: Connection, target: str, campaign: str, *, is_kept: bool
) -> tuple[int, LockHolder | None]:
    query = select(locks.c.term, locks.c.host, locks.c.process, locks.c.run_url, locks.c.since).where(
        locks.c.target == target, locks.c.campaign == campaign
    )
    # Kept: the next holder waits until this transaction has ended, and sees what it did.
    row = connection.execute(query.with_for_update(read=True) if is_kept else query).first()
    if row is None:
        return 0, None
    holder = LockHolder(row.host, row.process, row.run_url, row.since) if row.since else None
    return row.term, holder


def _locked(ledger: Ledger, target: str, campaign: str, sleep: Callable[[float], object]) -> RunLockedError:
    # Who has just taken the lock enters itself in a moment.
    for _ in range(_POLLS_FOR_HOLDER):
        with ledger.reading() as connection:
            _, holder = _read_holder(connection, target, campaign, is_kept=False)
        if holder is not None:
            break
        sleep(_POLL_S)
    return RunLockedError(
        f"{campaign} on {target} is being sent by {_describe(holder)}",
        hint="wait until that run has ended, or have this one wait with --lock-timeout",
    )


def _describe(holder: LockHolder | None) -> str:
    return f"another run: {holder.describe()}" if holder else "another run"
