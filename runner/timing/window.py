"""Weekly sending windows in local wall time, without public holidays, and when several are open at once.

Clocks skip and repeat hours, so wall time cannot be calculated with. Windows are therefore laid on the time
line between two changes of a zone's clocks; everything else works on intervals of seconds since 1970.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from runner.timing.zone import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class HolidayList:
    """The public holidays of an ISO 3166 country, or of one of its states.

    `categories` are the library's kinds of days, such as `public` and `government`.
    """

    country: str
    state: str | None = None
    categories: tuple[str, ...] = ("public",)

    def find(self, day: date) -> str | None:
        """Return a holiday's English name; None for other days."""
        return _read_year(self, day.year).get(day)


@cache
def _read_year(days: HolidayList, year: int) -> Mapping[date, str]:
    # Imported here: it takes 0.15 s, and few campaigns meet a law with holidays.
    from holidays import country_holidays  # noqa: PLC0415

    return country_holidays(
        days.country,
        subdiv=days.state,
        years=year,
        expand=False,
        language="en_US",
        categories=days.categories,
    )


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Days of the week as campaigns write them, at the places that `datetime.weekday` gives them."""

MINUTES_A_DAY = 24 * 60
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00")

Span = tuple[int, int]
"""Minutes since midnight: open from the first, closed from the second on."""
Openings = tuple[tuple[int, int], ...]
"""Intervals of seconds since 1970-01-01T00:00Z, in order, disjoint; open from the first, closed from the
second on."""
_DAY = 86_400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_SAMPLE = _DAY // 4  # no zone has changed its clocks twice within six hours
_SOON = 8 * _DAY
_HORIZON = 371 * _DAY
"""Limit of the search for an opening: 53 weeks, after which windows and the rules of clocks repeat."""
_ZONES_KEPT = 4096


@dataclass(frozen=True, slots=True)
class WeeklyWindow:
    """The hours of a week in which sending is allowed, in local wall time.

    `days` has Monday's spans first. A day's spans are in order, do not touch and do not cross midnight; a
    closed day has none.
    """

    days: tuple[tuple[Span, ...], ...]

    def is_whole_week(self) -> bool:
        """Return whether it is always open."""
        return all(spans == ((0, MINUTES_A_DAY),) for spans in self.days)

    def name_keys(self) -> str:
        """Return the keys of `schedule` that make such a window, in words."""
        has_hours = any(spans and spans != ((0, MINUTES_A_DAY),) for spans in self.days)
        has_days = not all(self.days)
        return " and ".join(["`send_between`"] * has_hours + ["`days`"] * has_days)

    def describe(self) -> str:
        """Return the week's hours with equal days together: `mon-fri 09:00-20:00, sat 10:00-17:00`."""
        parts: list[tuple[int, int, str]] = []
        for day, spans in enumerate(self.days):
            hours = " ".join(f"{format_clock(start)}-{format_clock(end)}" for start, end in spans)
            hours = "all day" if spans == ((0, MINUTES_A_DAY),) else hours
            if parts and parts[-1][2] == hours and parts[-1][1] == day - 1:
                parts[-1] = (parts[-1][0], day, hours)
            elif hours:
                parts.append((day, day, hours))
        return ", ".join(
            f"{DAYS[first] if first == last else f'{DAYS[first]}-{DAYS[last]}'} {hours}"
            for first, last, hours in parts
        )


WHOLE_WEEK = WeeklyWindow((((0, MINUTES_A_DAY),),) * len(DAYS))


def parse_clock(text: str) -> int | None:
    """Return a time of day, `00:00` to `24:00`, in minutes since midnight; None if malformed."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    return MINUTES_A_DAY if match[1] is None else int(match[1]) * 60 + int(match[2])


def format_clock(minute: int) -> str:
    """Return minutes since midnight as a time of day."""
    return f"{minute // 60:02d}:{minute % 60:02d}"


def make_window(span: Span, days: Iterable[int]) -> WeeklyWindow:
    """Return a window of the same hours, in minutes since midnight, on some days (Monday is 0)."""
    chosen = frozenset(days)
    return WeeklyWindow(tuple((span,) if day in chosen else () for day in range(len(DAYS))))


@dataclass(frozen=True, slots=True)
class LocalWindow:
    """A weekly window on the clocks of one time zone (an IANA name), closed on holidays if given.

    On days before `since` or after `until` it is not in force, and so open.
    """

    window: WeeklyWindow
    zone: str
    holidays: HolidayList | None = None
    since: date | None = None
    until: date | None = None

    def is_in_force(self, day: date) -> bool:
        """Return whether it is in force on a day."""
        return (self.since or day) <= day <= (self.until or day)

    def is_open(self, moment: datetime) -> bool:
        """Return whether it is open at an aware time."""
        local = moment.astimezone(load_zone(self.zone))
        minute = local.hour * 60 + local.minute
        return any(start <= minute < end for start, end in self.list_spans(local.date()))

    def list_spans(self, day: date) -> tuple[Span, ...]:
        """Return a day's open hours."""
        if not self.is_in_force(day):
            return WHOLE_WEEK.days[0]
        return () if self.find_holiday(day) is not None else self.window.days[day.weekday()]

    def find_holiday(self, day: date) -> str | None:
        """Return the name of a holiday; None for other days."""
        return self.holidays.find(day) if self.holidays is not None else None


@dataclass(slots=True)
class Calendar:
    """The times at which several local windows are all open; results are kept."""

    windows: tuple[LocalWindow, ...]
    _openings: Openings = field(default=(), init=False)
    _start: int = field(default=0, init=False)
    _end: int = field(default=0, init=False)

    def find_opening(self, moment: datetime) -> tuple[datetime, datetime] | None:
        """Return the interval (UTC) open at a moment or opening next, in parts of eight days."""
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

    def find_last(self, moment: datetime) -> tuple[datetime, datetime] | None:
        """Return the last interval (UTC) that opens at or before a moment, and not eight days before it."""
        second = int(moment.timestamp() // 1)
        start = second - second % _DAY - _SOON
        found = [one for one in self._list_openings(start, _SOON + 2 * _DAY) if one[0] <= second]
        if not found:
            return None
        return datetime.fromtimestamp(found[-1][0], UTC), datetime.fromtimestamp(found[-1][1], UTC)

    def _work_out(self, start: int, length: int) -> None:
        self._start, self._end = start, start + length
        self._openings = self._list_openings(start, length)

    def _list_openings(self, start: int, length: int) -> Openings:
        found: Openings = ((start, start + length),)
        for local in self.windows:
            # An empty intersection stays empty, as for toll-free numbers in office hours.
            if found and (local.holidays is not None or not local.window.is_whole_week()):
                found = intersect(found, find_openings(local, start, start + length))
        return found


@lru_cache(maxsize=_ZONES_KEPT)
def find_openings(local: LocalWindow, start: int, end: int) -> Openings:
    """Return a local window's openings, in seconds since 1970; `end` is excluded."""
    found: list[tuple[int, int]] = []
    for since, until, offset in _find_offsets(local.zone, start, end):
        for day in range((since + offset) // _DAY, (until - 1 + offset) // _DAY + 1):
            midnight = day * _DAY - offset
            for first, last in local.list_spans(date.fromordinal(_EPOCH_DAY + day)):
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
    """Split a stretch of time at the changes of a zone's clocks: (from, until, seconds ahead of UTC)."""
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
    # Not `utcoffset()`: a clock that is frozen for a test loses `fold`.
    wall = datetime.fromtimestamp(second, load_zone(zone)).replace(tzinfo=UTC)
    return int(wall.timestamp()) - second
