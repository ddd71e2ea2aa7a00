"""Weekly windows on the time line: in which seconds they are open in a zone, and in all of several.

Wall time is not a number to calculate with: clocks skip hours and repeat them. Between two changes of
a zone's clocks it is, so a window is laid on the time line piece by piece, and everything after that
(several zones, several windows, the first opening) is intervals of seconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from runner.timing.zone_data import load_zone

if TYPE_CHECKING:
    from runner.timing.public_holidays import HolidayList
    from runner.timing.window import WeeklyWindow

Openings = tuple[tuple[int, int], ...]
"""Intervals of seconds since 1970-01-01T00:00Z, in order, disjoint; open from the first, closed from the
second on."""

_DAY = 86_400
_EPOCH_WEEKDAY = 3  # 1970-01-01 was a Thursday
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_SAMPLE = _DAY // 4  # no zone has changed its clocks twice in six hours
_SOON = 8 * _DAY
_HORIZON = 371 * _DAY
"""How far an opening is looked for: 53 weeks, after which windows and the rules of clocks repeat."""

_ZONES_KEPT = 4096


@dataclass(frozen=True, slots=True)
class LocalWindow:
    """A weekly window on the clocks of one time zone (an IANA name), closed on holidays if it has any."""

    window: WeeklyWindow
    zone: str
    holidays: HolidayList | None = None

    def is_open(self, moment: datetime) -> bool:
        """Return whether it is open at a moment (any aware time)."""
        local = moment.astimezone(load_zone(self.zone))
        return self.window.contains(local) and self.find_holiday(local.date()) is None

    def find_holiday(self, day: date) -> str | None:
        """Return the name of the holiday that a day is; None if it is none."""
        return self.holidays.find(day) if self.holidays is not None else None


@dataclass(slots=True)
class Calendar:
    """When all of several local windows are open at once.

    It keeps what it has worked out, so asking again costs next to nothing while time moves on.

    Args:
        windows: those that have to be open.
    """

    windows: tuple[LocalWindow, ...]
    _openings: Openings = field(default=(), init=False)
    _start: int = field(default=0, init=False)
    _end: int = field(default=0, init=False)

    def is_open(self, moment: datetime) -> bool:
        """Return whether all windows are open at a moment (any aware time)."""
        return all(window.is_open(moment) for window in self.windows)

    def next_open(self, moment: datetime) -> datetime | None:
        """Return the first second from a moment on at which all windows are open, in UTC.

        Args:
            moment: any aware time; itself, if all are open then.

        Returns:
            None if they never are: not in the 53 weeks that follow, and years are alike.
        """
        opening = self.find_opening(moment)
        if opening is None:
            return None
        return max(opening[0], moment.astimezone(UTC))

    def find_opening(self, moment: datetime) -> tuple[datetime, datetime] | None:
        """Return the interval, in UTC, that is open at a moment or opens first after it.

        It is closed from its second time on; its start may lie before the moment. An interval that
        lasts longer than eight days is given in parts.
        """
        second = int(moment.timestamp() // 1)
        if not self._start <= second < self._end:
            self._work_out(second - second % _DAY, _SOON)
        found = self._first_after(second)
        if found is None and self._end - second <= _HORIZON - _DAY:
            self._work_out(second - second % _DAY, _HORIZON)
            found = self._first_after(second)
        return found

    def _first_after(self, second: int) -> tuple[datetime, datetime] | None:
        for start, end in self._openings:
            if end > second:
                return datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)
        return None

    def _work_out(self, start: int, length: int) -> None:
        self._start, self._end = start, start + length
        self._openings = ((start, start + length),)
        for local in self.windows:
            # Where nothing is left, as for toll-free numbers by office hours, no other window brings it back.
            if self._openings and (local.holidays is not None or not local.window.is_whole_week()):
                end = start + length
                opened = find_openings(local.window, local.zone, start, end, local.holidays)
                self._openings = intersect(self._openings, opened)


@lru_cache(maxsize=_ZONES_KEPT)
def find_openings(
    window: WeeklyWindow, zone: str, start: int, end: int, holidays: HolidayList | None = None
) -> Openings:
    """Lay a weekly window on the time line.

    Args:
        window: the hours of the week.
        zone: the IANA name of the time zone on whose clocks they are read.
        start: seconds since 1970.
        end: seconds since 1970; nothing from there on is given.
        holidays: days on which it is closed; None for none.
    """
    found: list[tuple[int, int]] = []
    for since, until, offset in _find_offsets(zone, start, end):
        for day in range((since + offset) // _DAY, (until - 1 + offset) // _DAY + 1):
            midnight = day * _DAY - offset
            if holidays is not None and holidays.find(date.fromordinal(_EPOCH_DAY + day)) is not None:
                continue
            for first, last in window.days[(day + _EPOCH_WEEKDAY) % 7]:
                opens, closes = max(midnight + first * 60, since), min(midnight + last * 60, until)
                if opens >= closes:
                    continue
                if found and found[-1][1] == opens:
                    opens = found.pop()[0]
                found.append((opens, closes))
    return tuple(found)


def intersect(one: Openings, other: Openings) -> Openings:
    """Return the seconds that are in both."""
    found: list[tuple[int, int]] = []
    here = there = 0
    while here < len(one) and there < len(other):
        start, end = max(one[here][0], other[there][0]), min(one[here][1], other[there][1])
        if start < end:
            found.append((start, end))
        if one[here][1] <= other[there][1]:
            here += 1
        else:
            there += 1
    return tuple(found)


@lru_cache(maxsize=_ZONES_KEPT)
def _find_offsets(zone: str, start: int, end: int) -> tuple[tuple[int, int, int], ...]:
    """Cut a stretch of time where a zone's clocks change: (from, until, seconds ahead of UTC)."""
    pieces: list[tuple[int, int, int]] = []
    since, offset = start, _offset_at(zone, start)
    for sample in [*range(start + _SAMPLE, end, _SAMPLE), end - 1]:
        if _offset_at(zone, sample) != offset:
            before, after = sample - _SAMPLE, sample
            while after - before > 1:
                middle = (before + after) // 2
                if _offset_at(zone, middle) == offset:
                    before = middle
                else:
                    after = middle
            pieces.append((since, after, offset))
            since, offset = after, _offset_at(zone, sample)
    return (*pieces, (since, end, offset))


def _offset_at(zone: str, second: int) -> int:
    # Not `utcoffset()`: a clock that is frozen for a test forgets which of two equal wall times it shows.
    wall = datetime.fromtimestamp(second, load_zone(zone)).replace(tzinfo=UTC)
    return int(wall.timestamp()) - second
