"""The service's own time, times as it writes them, and the identifiers of its records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import uuid4

from runner.sandbox.durations import format_duration
from runner.sandbox.errors import SandboxError
from runner.sandbox.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.sandbox.store import Store

BACKWARDS = "the clock moves forward alone; `reset` sets it to this machine's time"
_OFFSET = "clock_offset_s"
_FURTHEST = timedelta(days=3660)
# What a session that expires leaves is its end alone, and a launch to those who have opted out its start.
_SELECT_LATEST = """
SELECT max(at) FROM (
    SELECT max(started) AS at FROM launch UNION ALL SELECT max(updated) FROM session
    UNION ALL SELECT max(at) FROM transcript
)
"""


def read_clock() -> datetime:
    """Give the present moment of this machine, in UTC."""
    return datetime.now(UTC)


def read_offset(path: Path) -> timedelta:
    """Tell how far the clock of a service's database is ahead of the machine's.

    Raises:
        SandboxError: the file is none.
    """
    store = open_store(path)
    try:
        return Clock(store).offset()
    finally:
        store.close()


class Clock:
    """The service's time: this machine's, moved by what the store says, so that every process agrees.

    Asked inside a write transaction, it agrees with the order of the writes.

    Args:
        store: keeps how far the clock is moved.
        system: gives the machine's present moment, with its time zone.
    """

    def __init__(self, store: Store, system: Callable[[], datetime] = read_clock) -> None:
        self._store = store
        self._system = system

    def now(self) -> datetime:
        """Give the service's present moment, in UTC."""
        return self._system() + self.offset()

    def offset(self) -> timedelta:
        """Tell how far the clock is ahead of the machine's."""
        row = self._store.connection.execute(
            "SELECT value FROM setting WHERE name = ?", (_OFFSET,)
        ).fetchone()
        return timedelta(seconds=float(row[0])) if row else timedelta()

    def advance(self, length: timedelta) -> datetime:
        """Move the clock forward and give the service's new present moment.

        Raises:
            SandboxError: `length` is negative, since records are listed in the order of their creation; or
                the clock would be more than ten years ahead.
        """
        if length < timedelta():
            raise SandboxError(BACKWARDS)
        with self._store.write():
            before = self.offset()
            if length > _FURTHEST - before:
                raise SandboxError(
                    f"the clock is {format_duration(before)} ahead of this machine's; ten years are the most"
                )
            self._write_offset(before + length)
        return self.now()

    def reach(self, moment: datetime) -> None:
        """Move the clock forward to a moment, unless it is there or beyond."""
        with self._store.write():
            ahead = moment - self._system()
            if ahead > self.offset():
                self._write_offset(ahead)

    def reset(self) -> datetime:
        """Set the clock to the machine's time, and give that.

        Raises:
            SandboxError: there are records from later than that; new ones would precede them.
        """
        with self._store.write() as connection:
            (latest,) = connection.execute(_SELECT_LATEST).fetchone()
            if latest is not None and parse_time(latest) > self._system():
                raise SandboxError(
                    f"there are records of {latest[:19].replace('T', ' ')} UTC, which is later than this "
                    "machine's time, and new ones must not precede them; `runner sandbox reset` removes "
                    "all records and sets the clock, too"
                )
            connection.execute("DELETE FROM setting WHERE name = ?", (_OFFSET,))
        return self.now()

    def _write_offset(self, offset: timedelta) -> None:
        self._store.connection.execute(
            "INSERT INTO setting (name, value) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (_OFFSET, repr(offset.total_seconds())),
        )


@lru_cache(maxsize=4)  # one transaction writes the same moment several times
def format_time(moment: datetime) -> str:
    """Write a moment as records show it: ISO 8601, microseconds, UTC without a zone suffix (section 2).

    Args:
        moment: with its time zone.
    """
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")


def parse_time(written: str) -> datetime:
    """Read back what `format_time` wrote."""
    return datetime.fromisoformat(written).replace(tzinfo=UTC)


def make_guid() -> str:
    """Make up an identifier in the dashed hexadecimal style of section 2, in lower case."""
    return str(uuid4())
