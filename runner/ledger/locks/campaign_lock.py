"""One run at a time for each campaign on a target.

Locks that end with their holder: a locked file, or a PostgreSQL advisory lock. The table `locks` names and
numbers the holders, so that a run finds in the transaction of its next intents that its term is over.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, func, select

from runner.errors import LedgerError, RunLockedError
from runner.ledger.database import insert_into
from runner.ledger.tables import locks
from runner.wording import show_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from sqlalchemy import Select

    from runner.ledger.database import Ledger


_POLL_S = 0.25
_TRUSTED_S = 1.0
"""The validity of a check of the lock, in seconds: far less than the window for settling by another run."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The run that holds a campaign: its machine and process, its CI job's URL if any, and since when."""

    host: str
    process: int
    run_url: str | None
    since: str

    def describe(self) -> str:
        """Return the holder in words, as in `process 7 on ci-3 (https://…) since 2026-11-20 12:00 UTC`."""
        run = f" ({self.run_url})" if self.run_url else ""
        return f"process {self.process} on {self.host}{run} since {show_time(self.since)}"


def find_run_url(environment: Mapping[str, str]) -> str | None:
    """Return the URL of the CI job that this process belongs to, or None.

    Known are GitHub Actions (`GITHUB_SERVER_URL`, `GITHUB_REPOSITORY`, `GITHUB_RUN_ID`) and GitLab
    (`CI_JOB_URL`).
    """
    parts = [environment.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    if all(parts):
        server, repository, run = parts
        return f"{server}/{repository}/actions/runs/{run}"
    return environment.get("CI_JOB_URL") or None


@dataclass
class CampaignLock:
    """The lock of one campaign: a process lock and a term under each of its names.

    Without names it is of a run that cannot have rivals. `require_other`, which is cheap and thread-safe,
    raises if something else is lost that must be held, too.
    """

    target: str = ""
    process_locks: Mapping[str, _FileLock | _ServerLock] = field(default_factory=dict)
    terms: Mapping[str, int] = field(default_factory=dict)
    require_other: Callable[[], None] = field(default=lambda: None, kw_only=True)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)
    _seen_at: float = field(default=float("-inf"), init=False)

    def require_held(self, connection: Connection) -> None:
        """Ensure that no other run can have begun; for each transaction that records intents.

        Until the transaction ends no other run gets the lock.

        Raises:
            RunLockedError: another run has got the lock.
        """
        for name, term in self.terms.items():
            present, holder = _read_holder(connection, self.target, name, _KEPT_HOLDER)
            if present != term:
                raise RunLockedError(
                    f"{self._describe_loss(name)} to {holder}; nothing more is sent",
                    hint="let the other run end, then run the same command again",
                )
        self.require_held_now()
        self.require_other()

    def require_seen(self) -> None:
        """Ensure that the lock was held a moment ago; for each request, from any thread.

        The service may ask for a pause between an intent and its request, or the machine may sleep.
        """
        if read_clock() - self._seen_at >= _TRUSTED_S:
            with self._turn:
                if read_clock() - self._seen_at >= _TRUSTED_S:
                    self.require_held_now()
        self.require_other()

    def require_held_now(self) -> None:
        """Ensure that the lock is held now."""
        seen_at = read_clock()
        for name, process_lock in self.process_locks.items():
            if not process_lock.is_held():
                raise LedgerError(
                    f"{self._describe_loss(name)}; nothing more is sent",
                    hint=f"{process_lock.advice}, then run the same command again",
                )
        self._seen_at = seen_at

    def _describe_loss(self, name: str) -> str:
        return f"this run has lost the lock of {name} on {self.target}"


def read_clock() -> float:
    """Return seconds on a clock that cannot be set, and that counts the machine's sleep where possible."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


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
) -> Iterator[CampaignLock]:
    """Hold the lock of a campaign on a target during the block.

    `names` includes former ones (`Identity.names`), which an old checkout may use. `clock` must not be one
    that can be set; `sleep` may raise to give up.

    Raises:
        RunLockedError: another run still holds it after `timeout_s` seconds.
    """
    deadline = clock() + timeout_s
    # In a fixed order, or two runs could wait for each other.
    process_locks = {name: _make_process_lock(ledger, target, name) for name in sorted(set(names))}
    terms = {}
    try:
        for name, process_lock in process_locks.items():
            while not process_lock.try_take():
                left_s = deadline - clock()
                if left_s <= 0:
                    raise _locked(ledger, target, name)
                sleep(min(_POLL_S, left_s))
            with ledger.writing() as connection:
                terms[name] = _enter_holder(connection, target, name, holder)
        yield CampaignLock(target, process_locks, terms)
    finally:
        for process_lock in process_locks.values():
            process_lock.release()


def _enter_holder(connection: Connection, target: str, campaign: str, holder: LockHolder) -> int:
    statement = insert_into(connection, locks).values(
        target=target, campaign=campaign, term=1, **asdict(holder)
    )
    entered = statement.on_conflict_do_update(
        index_elements=[locks.c.target, locks.c.campaign], set_={"term": locks.c.term + 1, **asdict(holder)}
    )
    term: int = connection.execute(entered.returning(locks.c.term)).scalar_one()
    return term


# Built once: a send reads it for each of its groups.
_HOLDER = select(locks.c.term, locks.c.host, locks.c.process, locks.c.run_url, locks.c.since).where(
    locks.c.target == bindparam("b_target"), locks.c.campaign == bindparam("b_campaign")
)
# The next holder waits for the end of the transaction.
_KEPT_HOLDER = _HOLDER.with_for_update(read=True)


def _read_holder(
    connection: Connection, target: str, campaign: str, query: Select[Any] = _HOLDER
) -> tuple[int, str]:
    """Return the term of a campaign's last holder, and the holder in words."""
    row = connection.execute(query, {"b_target": target, "b_campaign": campaign}).first()
    if row is None:
        return 0, "another run"
    return row.term, f"another run: {LockHolder(*row[1:]).describe()}"


def _locked(ledger: Ledger, target: str, campaign: str) -> RunLockedError:
    # A new holder is entered in a moment.
    time.sleep(_POLL_S)
    with ledger.reading() as connection:
        _, holder = _read_holder(connection, target, campaign)
    return RunLockedError(
        f"{campaign} on {target} is being sent by {holder}",
        hint="wait until that run has ended, or have this one wait with --lock-timeout",
    )


class _FileLock:
    """A file that the kernel locks for this process. It is never removed: others may have it open."""

    advice = "check that the ledger is there and was not moved"

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor: int | None = None

    def try_take(self) -> bool:
        while not self.is_held():
            self.release()
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._descriptor = os.open(self._file, os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.release()
                return False
            except OSError as error:
                raise LedgerError(
                    f"the lock {self._file} cannot be taken: {error.strerror}",
                    hint="check that this user may write there, and that its file system can lock files",
                ) from None
        return True

    def is_held(self) -> bool:
        # If the file was removed, the next run locks a new one.
        try:
            return self._descriptor is not None and os.path.samestat(
                os.fstat(self._descriptor), self._file.stat()
            )
        except FileNotFoundError:
            return False

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class _ServerLock:
    """An advisory lock of a PostgreSQL session: the server releases it when the connection ends."""

    advice = "check the server, and that no connection pooler stands before it that keeps no sessions"

    def __init__(self, ledger: Ledger, number: int) -> None:
        self._ledger = ledger
        self._number = number
        self._session: int | None = None

    def try_take(self) -> bool:
        query = select(func.pg_try_advisory_lock(self._number), func.pg_backend_pid())
        with self._ledger.autocommit() as connection:
            is_taken, session = connection.execute(query).one()
        self._session = session if is_taken else None
        return self._session is not None

    def is_held(self) -> bool:
        try:
            with self._ledger.autocommit() as connection:
                # Another session: the one that held the lock has ended.
                return connection.execute(select(func.pg_backend_pid())).scalar() == self._session
        except LedgerError:
            return False

    def release(self) -> None:
        # Closing the connection would suffice, but the run may continue with other campaigns.
        if self._session is not None and self.is_held():
            with suppress(LedgerError), self._ledger.autocommit() as connection:
                connection.execute(select(func.pg_advisory_unlock(self._number)))


def _make_process_lock(ledger: Ledger, target: str, campaign: str) -> _FileLock | _ServerLock:
    if ledger.file is None:
        return _ServerLock(ledger, int.from_bytes(_digest("server", target, campaign), signed=True))
    file = ledger.file.resolve()
    return _FileLock(file.parent / "locks" / f"{_digest(file.name, target, campaign).hex()}.lock")


def _digest(*parts: str) -> bytes:
    return blake2b("\0".join(parts).encode(), digest_size=8, person=b"runner lock").digest()
