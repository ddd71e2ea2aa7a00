"""The service's clock, its notation of times and durations (`90s`, `1h30m`, `2d`), and record ids."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import uuid4

from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.store import open_store, read_setting, write_setting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.sandbox.store import Store


_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|[smhdw])", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?", re.ASCII)
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_BACKWARDS = "the clock moves forward only; `reset` sets it to this machine's time"
_OFFSET = "clock_offset_s"
_FURTHEST = timedelta(days=3660)
# Includes moments that appear nowhere else: ends of expired sessions, and starts of launches to people who
# opted out.
_SELECT_LATEST = """
SELECT max(at) FROM (
    SELECT max(started) AS at FROM launch UNION ALL SELECT max(updated) FROM session
    UNION ALL SELECT max(at) FROM transcript
)
"""


def parse_duration(written: str) -> timedelta:
    """Return a duration: numbers, each with its unit (ms, s, m, h, d, w), added up.

    Raises:
        ValueError: it is malformed or cannot be counted; the message says so.
    """
    text = written.strip().lower()
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{written!r} is no length of time: write it as in 90s, 1h30m, 2d or 1w")
    parts = _PART.findall(text)
    try:
        return sum((timedelta(**{_UNITS[unit]: float(number)}) for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f"{written!r} is too long") from None


def read_move(written: str, now: datetime) -> datetime:
    """Return the moment to which the clock is moved.

    Args:
        written: a duration (`2d`, `+1h30m`), a date, perhaps with a time (`2026-12-01`, `2026-12-01T09:00`),
            or the next time of day (`09:00`); in UTC unless the time has a zone.
        now: the clock's present time.

    Raises:
        SandboxError: it is none of these, or lies in the past.
    """
    text = written.strip()
    try:
        if _MOMENT.fullmatch(text):
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        elif match := _TIME_OF_DAY.fullmatch(text):
            moment = now.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
            moment += timedelta(days=moment <= now)
        else:
            moment = now + parse_duration(text.removeprefix("+").removeprefix("-"))
    except (ValueError, OverflowError) as error:
        forms = "+2d, 2026-12-01, 2026-12-01T09:00, 09:00, next or reset"
        raise SandboxError(
            f"the clock cannot be moved to {written!r}: say it as in {forms} ({error})"
        ) from None
    if text.startswith("-") or moment < now:
        raise SandboxError(_BACKWARDS)
    return moment


def format_duration(length: timedelta) -> str:
    """Return a duration in days, hours, minutes and seconds: `2d3h`, `0s`."""
    written, left = "", length.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        count, left = divmod(left, size)
        written += f"{count:.0f}{unit}" if count else ""
    return f"{written}{left:g}s" if left or not written else written


def read_clock() -> datetime:
    """Return the present time of this machine, in UTC."""
    return datetime.now(UTC)


def read_offset(path: Path) -> timedelta:
    """Return the offset of a service database's clock from the machine's.

    Raises:
        SandboxError: the file is no database of the service.
    """
    with closing(open_store(path)) as store:
        return Clock(store).offset()


class Clock:
    """The service's time: this machine's plus the store's offset, the same in every process.

    Within a write transaction, it agrees with the order of the writes. `system` returns the machine's present
    time, with its time zone.
    """

    def __init__(self, store: Store, system: Callable[[], datetime] = read_clock) -> None:
        self._store = store
        self._system = system

    def now(self) -> datetime:
        """Return the service's present time, in UTC."""
        return self._system() + self.offset()

    def offset(self) -> timedelta:
        """Return the offset of the clock from the machine's."""
        return timedelta(seconds=float(read_setting(self._store.connection, _OFFSET) or 0))

    def advance(self, length: timedelta) -> datetime:
        """Move the clock forward and return the new time.

        Args:
            length: not negative, since records are listed in the order of their creation.

        Raises:
            SandboxError: the clock would be more than ten years ahead.
        """
        with self._store.write():
            before = self.offset()
            if length > _FURTHEST - before:
                raise SandboxError(
                    f"the clock cannot go to {self._system() + before + length:%Y-%m-%d}: ten years ahead of "
                    "this machine's time are the most"
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
        """Set the clock to the machine's time, and return it.

        Raises:
            SandboxError: there are later records, which new ones would precede.
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
        write_setting(self._store.connection, _OFFSET, repr(offset.total_seconds()))


@lru_cache(maxsize=4)  # one transaction writes the same moment several times
def format_time(moment: datetime) -> str:
    """Return an aware time as in records: ISO 8601, microseconds, UTC without a zone suffix."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")


def parse_time(written: str) -> datetime:
    """Return the time that `format_time` wrote."""
    return datetime.fromisoformat(written).replace(tzinfo=UTC)


def make_guid() -> str:
    """Return a new identifier in the dashed hexadecimal style of the service, in lower case."""
    return str(uuid4())
