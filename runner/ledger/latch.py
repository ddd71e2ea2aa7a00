"""What says that a campaign is taken: a file that the kernel locks, or an advisory lock of PostgreSQL."""

from __future__ import annotations

import contextlib
import fcntl
import os
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import func, select

from runner.errors import LedgerError

if TYPE_CHECKING:
    from pathlib import Path

    from runner.ledger.database import Ledger


class Latch(Protocol):
    """A lock that the death of its holder frees.

    Attributes:
        advice: what to check after it was lost.
    """

    advice: str

    def try_take(self) -> bool:
        """Take it, and return whether that went; it doesn't wait.

        Raises:
            LedgerError: it cannot be taken by anybody.
        """

    def is_held(self) -> bool:
        """Return whether this process has it, and has had it since it took it."""

    def release(self) -> None:
        """Let others have it, if this process does."""


class _FileLatch:
    """A file that the kernel locks for this process. It is never removed: others may have it open."""

    advice = "check that the ledger is there and was not moved"

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor: int | None = None

    def try_take(self) -> bool:
        while not self.is_held():
            self.release()
            try:
                self._descriptor = _lock_private_file(self._file)
            except BlockingIOError:
                return False
            except OSError as error:
                raise LedgerError(
                    f"the lock {self._file} cannot be taken: {error.strerror}",
                    hint="check that this user may write there, and that its file system can lock files",
                ) from None
        return True

    def is_held(self) -> bool:
        # With the file removed, the next run makes another one and locks that.
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


class _ServerLatch:
    """An advisory lock of a PostgreSQL session: the server releases it when the connection ends."""

    advice = "check the server, and that no connection pooler stands before it that keeps no sessions"

    def __init__(self, ledger: Ledger, number: int) -> None:
        self._ledger = ledger
        self._number = number
        self._session: int | None = None

    def try_take(self) -> bool:
        query = select(func.pg_try_advisory_lock(self._number), func.pg_backend_pid())
        with self._ledger.standing() as connection:
            is_taken, session = connection.execute(query).one()
        self._session = session if is_taken else None
        return self._session is not None

    def is_held(self) -> bool:
        try:
            with self._ledger.standing() as connection:
                # Another session: the one that held the lock has ended.
                return connection.execute(select(func.pg_backend_pid())).scalar() == self._session
        except LedgerError:
            return False

    def release(self) -> None:
        # The end of the connection would do, but the run may go on with other campaigns.
        if self._session is not None and self.is_held():
            with contextlib.suppress(LedgerError), self._ledger.standing() as connection:
                connection.execute(select(func.pg_advisory_unlock(self._number)))


def make_latch(ledger: Ledger, target: str, campaign: str) -> Latch:
    """Return the latch of a campaign on a target, not taken yet."""
    if ledger.file is None:
        return _ServerLatch(ledger, int.from_bytes(_digest("server", target, campaign), signed=True))
    file = ledger.file.resolve()
    return _FileLatch(file.parent / "locks" / f"{_digest(file.name, target, campaign).hex()}.lock")


def _lock_private_file(file: Path) -> int:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _digest(*parts: str) -> bytes:
    return blake2b("\0".join(parts).encode(), digest_size=8, person=b"runner lock").digest()
