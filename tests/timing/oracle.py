"""A second opinion on when people may be texted, worked out minute by minute and without the runner's code.

A window is a row of bytes, one a minute of the week. Laid over a stretch of time, with a zone's clocks read from
the shipped database, it says of each minute whether it is open; a text may leave in a minute in which the
rows of all windows and zones do. This is slow, and has no case for changes of clocks, midnights or weeks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from holidays import country_holidays

import runner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RUNNER = Path(runner.__file__).parent
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY = 24 * 60
WEEK = 7 * DAY
ALWAYS = b"\1" * WEEK
NEVER_CLOSED: frozenset[int] = frozenset()
LONG_AGO, LONG_HENCE = -100_000, 100_000
MINUTE = timedelta(minutes=1)
BEGIN, END = datetime(2025, 12, 1, tzinfo=UTC), datetime(2029, 3, 1, tzinfo=UTC)
"""All that is asked about lies between, with the 53 weeks after it."""
SOON, HORIZON = 9 * DAY, 53 * WEEK
STEP = DAY // 4
"""Clocks are looked at so often, and minute by minute where they have changed."""


class Hours(NamedTuple):
    """Hours of a week.

    Attributes:
        week: its minutes.
        closed: days since `BEGIN` on which they are closed.
        begins: the first such day on which they count; before, everything is open, even on days in `closed`.
        ends: the day from which on they do not count any more.
        zone: whose clocks they go by; None for the recipient's.
    """

    week: bytes
    closed: frozenset[int] = NEVER_CLOSED
    begins: int = LONG_AGO
    ends: int = LONG_HENCE
    zone: str | None = None


@dataclass(frozen=True)
class Person:
    """A number, and what a person who looks it up finds out about it.

    Attributes:
        phone: E.164.
        zones: zones whose clocks are all that the number may be on.
        places: ISO 3166 codes whose law may hold.
    """

    phone: str
    zones: tuple[str, ...]
    places: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A text to decide about.

    Attributes:
        schedule: as the campaign's file has it.
        policy: `quiet_hours`, `timezone_unknown`, `no_rule` and `purpose`.
        method: `SMS` or `VOICE`.
        person: the recipient.
        own_zone: the zone that the audience gives for them.
        moment: now.
    """

    schedule: Mapping[str, Any]
    policy: Mapping[str, str]
    method: str
    person: Person
    own_zone: str | None
    moment: datetime


@dataclass(frozen=True)
class Verdict:
    """The decision about a text.

    Attributes:
        word: `now`, `later`, or why it is never sent: `expired`, `timezone_unknown`, `no_rule`, `never_open`.
        due: the first moment at which it may leave, for `later`.
        closed: what keeps it back at the moment, for `later`: `not_before`, `send_between`, `law`.
        zones: those whose clocks were asked.
    """

    word: str
    due: datetime | None = None
    closed: frozenset[str] = frozenset()
    zones: tuple[str, ...] = ()


@dataclass
class Clock:
    """A zone's clocks, as pieces of time in which they run as long as UTC's.

    Attributes:
        pieces: for each, its first minute since `BEGIN`, and how many minutes clocks are ahead of UTC.
    """

    name: str
    pieces: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        path = resources.files("tzdata") / "zoneinfo"
        with path.joinpath(*self.name.split("/")).open("rb") as data:
            self._zone = ZoneInfo.from_file(data, key=self.name)
        before = self.ahead(0)
        self.pieces = [(0, before)]
        for minute in range(STEP, count_minutes(END), STEP):
            ahead = self.ahead(minute)
            if ahead != before:
                first = next(m for m in range(minute - STEP, minute + 1) if self.ahead(m) != before)
                self.pieces.append((first, ahead))
                before = ahead

    def ahead(self, minute: int) -> int:
        offset = (BEGIN + minute * MINUTE).astimezone(self._zone).utcoffset()
        assert offset is not None
        assert offset % MINUTE == timedelta()
        return offset // MINUTE

    def lay(self, hours: Hours, start: int, end: int) -> bytes:
        """Return whether hours are open, for each minute of a stretch."""
        week, closed, begins, stops, _ = hours
        rows = []
        ends = [*(first for first, _ in self.pieces[1:]), end]
        for (first, ahead), last in zip(self.pieces, ends, strict=True):
            since, until = max(first, start), min(last, end)
            if since < until:
                # 2025-12-01 was a Monday.
                place = (since + ahead) % WEEK
                row = bytearray((week * ((until - since) // WEEK + 2))[place : place + until - since])
                for day in closed:
                    shut, over = (max(0, day * DAY + part * DAY - ahead - since) for part in (0, 1))
                    row[shut:over] = bytes(len(row[shut:over]))
                for first_day, last_day in ((LONG_AGO, begins), (stops, LONG_HENCE)):
                    open_at, over = (max(0, day * DAY - ahead - since) for day in (first_day, last_day))
                    row[open_at:over] = b"\1" * len(row[open_at:over])
                rows.append(bytes(row))
        return b"".join(rows)

    def changes(self) -> list[tuple[datetime, int]]:
        """Return the moments at which clocks change, and by how many minutes."""
        pairs = zip(self.pieces, self.pieces[1:], strict=False)
        return [(BEGIN + first * MINUTE, ahead - before) for (_, before), (first, ahead) in pairs]

    def find(self, written: str) -> list[datetime]:
        """Return the moments at which clocks show a local time: none, one or two."""
        local = datetime.fromisoformat(written).replace(tzinfo=UTC)
        found = {local - ahead * MINUTE for _, ahead in self.pieces}
        shown = [moment for moment in found if moment.astimezone(self._zone).replace(tzinfo=UTC) == local]
        return sorted(shown)


@cache
def open_clock(zone: str) -> Clock:
    return Clock(zone)


def count_minutes(moment: datetime) -> int:
    """Return in which minute since `BEGIN` a moment lies."""
    return (moment - BEGIN) // MINUTE


def make_week(hours: Iterable[tuple[int, str, str]]) -> bytes:
    """Return the minutes of a week: each item is a day, when it opens and when it closes."""
    week = bytearray(WEEK)
    for day, opens, closes in hours:
        first, last = read_clock(opens), read_clock(closes)
        week[day * DAY + first : day * DAY + last] = b"\1" * (last - first)
    return bytes(week)


def read_clock(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])


@cache
def read_law() -> tuple[tuple[frozenset[str], frozenset[str], frozenset[str], Hours], ...]:
    """Return the rules of the shipped file: places, the methods they are about, purposes, and the hours."""
    document = json.loads((RUNNER / "timing/legal_hours.json").read_text(encoding="utf-8"))
    rules = []
    for rule in document["rules"]:
        hours = []
        for days, spans in rule["hours"].items():
            first, last = days.split("-") if "-" in days else (days, days)
            for day in range(DAYS.index(first), DAYS.index(last) + 1):
                hours += [(day, *span.split("-")) for span in spans]
        closed = NEVER_CLOSED
        if "holidays" in rule:
            named = rule["holidays"]
            dates = country_holidays(
                named["country"],
                subdiv=named.get("state"),
                years=range(BEGIN.year, END.year + 3),
                categories=tuple(named["categories"]),
            )
            closed = frozenset((date - BEGIN.date()).days for date in dates)
        begins, ends = (count_days(rule.get(key)) for key in ("from", "until"))
        methods = {"SMS": rule["texts"], "VOICE": rule["calls"]}
        rules.append(
            (
                frozenset(rule["places"]),
                frozenset(method for method, coverage in methods.items() if coverage != "excluded"),
                frozenset(rule["purposes"]),
                Hours(
                    make_week(hours),
                    closed,
                    LONG_AGO if begins is None else begins,
                    LONG_HENCE if ends is None else ends + 1,
                    rule.get("zone"),
                ),
            )
        )
    return tuple(rules)


def count_days(written: str | None) -> int | None:
    """Return a day as one since `BEGIN`."""
    return None if written is None else (date.fromisoformat(written) - BEGIN.date()).days


def is_in_force(rule: Hours, zones: Iterable[str], moment: datetime) -> bool:
    """Return whether a rule counts at a moment in one of the zones, or in its own."""
    clocks = [open_clock(zone) for zone in ([rule.zone] if rule.zone else zones)]
    minute = count_minutes(moment)
    return any(rule.begins <= (minute + clock.ahead(minute)) // DAY < rule.ends for clock in clocks)


def find_rules(case: Case, purpose: str | None) -> list[Hours]:
    """Return the legal hours of a case's places, for one purpose or for any."""
    if case.policy.get("quiet_hours") != "legal":
        return []
    around = {place.split("-")[0] for place in case.person.places} | set(case.person.places)
    return [
        hours
        for held, methods, purposes, hours in read_law()
        if held & around and case.method in methods and (purpose is None or purpose in purposes)
    ]


def is_refused(schedule: Mapping[str, Any]) -> bool:
    """Return whether a schedule that fits the schema is refused: it has no sense, or means no moment."""
    opens, closes = schedule.get("send_between", ("00:00", "24:00"))
    if read_clock(opens) >= read_clock(closes):
        return True
    keys = [key for key in ("not_before", "expires") if key in schedule]
    found = [open_clock(schedule["timezone"]).find(schedule[key]) for key in keys]
    if not all(found):
        return True
    return len(keys) == 2 and found[1][0] <= found[0][-1]


def decide(case: Case) -> Verdict:
    """Say what becomes of a text; the schedule has to be one that is not refused."""
    schedule = case.schedule
    opens, closes = schedule.get("send_between", ("00:00", "24:00"))
    own = Hours(make_week((DAYS.index(day), opens, closes) for day in schedule.get("days", DAYS)))
    law = find_rules(case, case.policy.get("purpose", "survey"))
    home: str = schedule.get("timezone", "")
    may_fall_back = case.policy.get("timezone_unknown") == "campaign" and home != ""
    zones = (case.own_zone,) if case.own_zone else case.person.zones
    if not zones and may_fall_back:
        zones = (home,)
    if not zones and case.policy.get("quiet_hours") != "legal" and own[0] == ALWAYS:
        zones = ("Etc/UTC",)
    if not zones:
        return Verdict("timezone_unknown")
    earliest = case.moment
    if "not_before" in schedule:
        # Where a time comes twice, the later one is safe to start from, and the earlier one to end at.
        earliest = max(earliest, open_clock(home).find(schedule["not_before"])[-1])
    must_be_known = case.policy.get("quiet_hours") == "legal" and case.policy.get("no_rule") != "schedule"
    if must_be_known and not any(is_in_force(rule, zones, earliest) for rule in find_rules(case, None)):
        return Verdict("no_rule")
    due = find_open([own, *law], zones, earliest)
    if due is None and len(zones) > 1 and may_fall_back:
        zones = (home,)
        due = find_open([own, *law], zones, earliest)
    if due is None:
        return Verdict("never_open")
    if "expires" in schedule and due >= open_clock(home).find(schedule["expires"])[0]:
        return Verdict("expired")
    if due == case.moment:
        return Verdict("now", zones=zones)
    reasons = {
        "not_before": case.moment < earliest,
        "send_between": not is_open([own], zones, case.moment),
        "law": not is_open(law, zones, case.moment),
    }
    return Verdict("later", due, frozenset(name for name, holds in reasons.items() if holds), zones)


def find_open(hours: list[Hours], zones: Iterable[str], moment: datetime) -> datetime | None:
    """Return the first moment from one on at which all windows are open in all zones; None in 53 weeks."""
    start = count_minutes(moment)
    for length in (SOON, HORIZON):
        place = lay_all(hours, zones, start, start + length).find(b"\1")
        if place >= 0:
            return moment if place == 0 else BEGIN + (start + place) * MINUTE
    return None


def is_open(hours: list[Hours], zones: Iterable[str], moment: datetime) -> bool:
    return all(lay_all(hours, zones, count_minutes(moment), count_minutes(moment) + 1))


def lay_all(hours: list[Hours], zones: Iterable[str], start: int, end: int) -> bytes:
    """Return for each minute whether all windows are open in all zones."""
    simple = [one for one in hours if one[2:] == (LONG_AGO, LONG_HENCE, None)]
    week = unite(ALWAYS, (one.week for one in simple))
    whole = Hours(week, NEVER_CLOSED.union(*(one.closed for one in simple)))
    laid = [whole, *(one for one in hours if one not in simple)]
    pairs = [(one, zone) for one in laid for zone in ([one.zone] if one.zone else zones)]
    return unite(b"\1" * (end - start), (open_clock(zone).lay(one, start, end) for one, zone in pairs))


def unite(first: bytes, others: Iterable[bytes]) -> bytes:
    """Return the minutes that are open in all of these rows."""
    found = int.from_bytes(first)
    for other in others:
        found &= int.from_bytes(other)
        if not found:
            break
    return found.to_bytes(len(first))


def stays_open(case: Case, zones: Iterable[str], until: datetime) -> bool:
    """Return whether a text may leave at all times from the case's moment on, up to another moment."""
    schedule = case.schedule
    opens, closes = schedule.get("send_between", ("00:00", "24:00"))
    own = Hours(make_week((DAYS.index(day), opens, closes) for day in schedule.get("days", DAYS)))
    law = find_rules(case, case.policy.get("purpose", "survey"))
    last = until - timedelta(microseconds=1)
    if "expires" in schedule and last >= open_clock(schedule["timezone"]).find(schedule["expires"])[0]:
        return False
    return all(lay_all([own, *law], zones, count_minutes(case.moment), count_minutes(last) + 1))
