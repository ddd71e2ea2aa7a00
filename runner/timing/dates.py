"""Dates in cells of the audience, and when a message that goes by one may be sent.

A cell without an offset is the time on the clocks of its person. That is more than one moment where the
number may be in several time zones, and where clocks repeat an hour or skip it. `before` counts from the
earliest of them and `after` from the latest, so that nothing is late, or early.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from runner.source.diagnostic import CellProblem
from runner.timing.decision import TIMEZONE_UNKNOWN, Defer, Reason, Refuse, SendNow
from runner.timing.zone import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.timing.decision import Decision, Timekeeper
    from runner.timing.schedule import DateRule

_LAST_HOURS = timedelta(hours=2)
_UTC = ("UTC",)
_FIRST_YEAR, _LAST_YEAR = 1900, 9989
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?: ?(?:Z|[+-]\d\d(?::?\d\d)?))?)?",
    re.ASCII | re.IGNORECASE,
)
_NUMBERS = re.compile(
    r"(\d{1,4})[./ -](\d{1,2})[./ -](\d{1,4})(?:,?[T ]+(\d{1,2})[:.](\d\d)(?::\d\d)?(?: ?([AP])\.?M\.?)?)?",
    re.ASCII | re.IGNORECASE,
)
_HINT = (
    "write year, month and day, and the time, as in 2026-12-24T10:00; leave the cell blank if there is none"
)


@dataclass(frozen=True, slots=True)
class CellTime:
    """A time in a cell, to the minute: UTC if the cell has an offset, else on the clocks of its person."""

    time: datetime

    @property
    def canonical(self) -> str:
        """The same text for each way to write the time."""
        written = self.time.replace(tzinfo=None).isoformat(timespec="minutes")
        return written if self.time.tzinfo is None else f"{written}Z"

    def list_forms(self, zones: Iterable[str]) -> tuple[str, ...]:
        """Return its canonical text, and what that is with an offset, or without, in some time zones."""
        if self.time.tzinfo is None:
            others = (CellTime(moment) for zone in zones for moment in self.find_moments(zone))
        else:
            others = (CellTime(self.time.astimezone(load_zone(zone)).replace(tzinfo=None)) for zone in zones)
        return tuple(dict.fromkeys((self.canonical, *(one.canonical for one in others))))

    def find_moments(self, zone: str) -> tuple[datetime, datetime]:
        """Return the first and the last moment (UTC) that it may be in a time zone."""
        if self.time.tzinfo is not None:
            return self.time, self.time
        clock = load_zone(zone)
        found = [self.time.replace(tzinfo=clock, fold=fold).astimezone(UTC) for fold in (0, 1)]
        return min(found), max(found)


@lru_cache(maxsize=1 << 14)
def read_time(written: str) -> CellTime | CellProblem:
    """Return the time in a cell: ISO 8601, a date alone is the start of that day; or the problem of it."""
    text = written.strip()
    if _ISO.fullmatch(text):
        with suppress(ValueError):
            time = datetime.fromisoformat(
                text.upper().replace(" +", "+").replace(" -", "-").replace(" Z", "Z")
            )
            if not _FIRST_YEAR <= time.year <= _LAST_YEAR:
                return CellProblem(f"the year {time.year} stands for no date", "leave the cell blank")
            time = time.replace(second=0, microsecond=0)
            return CellTime(time if time.tzinfo is None else time.astimezone(UTC))
        return CellProblem("there is no such day or time", _HINT)
    readings = tuple(_list_readings(text))
    if len(readings) > 1:
        shown = " and as ".join(readings)
        return CellProblem(f"it can be read as {shown}", f"write {' or '.join(readings)}")
    return CellProblem("it is no ISO 8601 date", f"write {readings[0]}" if readings else _HINT)


def _list_readings(text: str) -> Iterator[str]:
    """Yield the dates that a text in another form may be, in ISO 8601."""
    match = _NUMBERS.fullmatch(text)
    if match is None:
        return
    one, month, other = int(match[1]), int(match[2]), int(match[3])
    if len(match[1]) > 2:  # noqa: PLR2004  the digits of a day
        orders = [(one, month, other)]
    else:
        year = other if len(match[3]) > 2 else 2000 + other  # noqa: PLR2004
        orders = [(year, month, one), (year, one, month)]
    hour, minute = int(match[4] or 0), int(match[5] or 0)
    if match[6]:
        hour = hour % 12 + (12 if match[6] in "Pp" else 0)
    for order in dict.fromkeys(orders):
        with suppress(ValueError):
            found = datetime(*order, hour, minute)  # noqa: DTZ001  on their own clocks
            yield found.isoformat(timespec="minutes") if match[4] else found.date().isoformat()


_MISSED = Refuse("missed", "its time is over", "correct the cell if the date has moved")
_SKIPPED = Refuse(
    "missed",
    "its moment is outside the hours, and `outside_hours: skip` leaves it out",
    "`outside_hours: earlier` sends it in the last open hours before",
)
_EARLY = Reason("date")
_SEVERAL_ZONES = "their number may be in several time zones: {} of the moments in their cell counts"
_CLOCKS_CHANGE = "clocks skip or repeat the hour in their cell: {} of the two moments counts"


@dataclass(frozen=True, slots=True)
class DatedText:
    """A text to a recipient (see `Timekeeper.decide`) that goes by the date in their cell."""

    timekeeper: Timekeeper
    rule: DateRule
    time: CellTime
    phone: str
    zone: str | None
    region: str | None

    def decide(self, now: datetime) -> Decision:
        """Decide on the text at a moment."""
        zones = self._find_zones()
        if not zones:
            return TIMEZONE_UNKNOWN
        spans = [self.time.find_moments(name) for name in zones]
        due, end = self.rule.bound(moment for span in spans for moment in span)
        soonest = max(now, due)
        going = self.timekeeper.decide(self.phone, self.zone, soonest, self.region) if now < end else _MISSED
        if isinstance(going, Refuse) and going.kind != "expired":
            return going
        remarks = tuple(_explain(self.rule, spans))
        hours = self._find_hours(due)
        if hours is not None and self.rule.outside_hours == "skip":
            return _SKIPPED
        if hours and now < hours[1]:
            is_open = now >= hours[0]
            return SendNow(hours[1], remarks) if is_open else Defer(hours[0], (_EARLY,), zones, remarks)
        if isinstance(going, SendNow) and now < due:
            return Defer(due, (_EARLY,), zones, (*going.remarks, *remarks))
        return _bound(going, (_EARLY,) if now < due else (), end, remarks)

    def find_earliest(self) -> datetime | None:
        """Return the moment before which it does not go by the date; None if the time zone is unknown."""
        zones = self._find_zones()
        if not zones:
            return None
        due, _ = self.rule.bound(moment for name in zones for moment in self.time.find_moments(name))
        hours = self._find_hours(due)
        return hours[0] if hours and self.rule.outside_hours == "earlier" else due

    def _find_zones(self) -> tuple[str, ...]:
        """Return the time zones that it goes by; none if they are not known, and the cell has no offset."""
        zones = self.timekeeper.find_clocks(self.phone, self.zone, self.region)
        return zones or (() if self.time.time.tzinfo is None else _UTC)

    def _find_hours(self, due: datetime) -> tuple[datetime, datetime] | tuple[()] | None:
        """Return the last open hours before the moment of a text, perhaps none; None if it may go then."""
        if self.rule.before is None:
            return None
        return self.timekeeper.find_hours(self.phone, self.zone, due, self.region, _LAST_HOURS)


def _bound(going: Decision, early: tuple[Reason, ...], end: datetime, remarks: tuple[str, ...]) -> Decision:
    """Return a decision on the hours at the due moment, or now, as one on the date."""
    if isinstance(going, SendNow):
        return SendNow(min(going.until, end), (*going.remarks, *remarks))
    if isinstance(going, Refuse):
        return going
    if going.until >= end:
        return _MISSED
    return Defer(going.until, (*early, *going.reasons), going.zones, (*going.remarks, *remarks))


def _explain(rule: DateRule, spans: list[tuple[datetime, datetime]]) -> Iterator[str]:
    """Yield why a cell is several moments, and which of them counts."""
    is_before = rule.before is not None
    if len(set(spans)) > 1:
        yield _SEVERAL_ZONES.format("the earliest" if is_before else "the latest")
    if any(first != last for first, last in spans):
        yield _CLOCKS_CHANGE.format("the earlier" if is_before else "the later")
