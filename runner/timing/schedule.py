"""A campaign's `schedule`: two moments and a weekly window."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from runner.timing.window import DAYS, WHOLE_WEEK, Span, WeeklyWindow, make_window, parse_clock
from runner.timing.zone import NameProblem, check_zone, load_zone

if TYPE_CHECKING:
    from collections.abc import Mapping

TimezoneUnknown = Literal["refuse", "campaign"]
"""Rule for people whose time zone is unknown: `policy.timezone_unknown`."""
NoRule = Literal["refuse", "schedule"]
"""The treatment of people of places whose legal hours are not known: `policy.no_rule`."""
Purpose = Literal["survey", "marketing", "service"]
"""The purpose of texts: `policy.purpose`. To sell, `marketing`; about something that they have ordered
or use, `service`."""

_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?")
_TOO_FAR = 9990  # A calendar looks a year ahead, and must not pass the last year of `datetime`.
_ALL_DAY: Span = WHOLE_WEEK.days[0][0]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times at which a campaign may send: from `not_before` to before `expires`, in UTC, if given.

    The window is in each recipient's local time.
    """

    not_before: datetime | None = None
    expires: datetime | None = None
    timezone: str | None = None
    window: WeeklyWindow = WHOLE_WEEK

    def is_always_open(self) -> bool:
        """Return whether it never keeps anybody waiting."""
        return self.not_before is None and self.expires is None and self.window.is_whole_week()


@dataclass(frozen=True, slots=True)
class ScheduleProblem:
    """The problem of a key of a `schedule`; the reason is a sentence without a full stop."""

    key: str
    reason: str
    hint: str


def read_schedule(written: Mapping[str, object]) -> Schedule | tuple[ScheduleProblem, ...]:
    """Read a `schedule` mapping of texts, or return all its problems.

    A local time that clocks skip is refused. Of one that they repeat, `not_before` is the second and
    `expires` the first, to avoid doubtful sends.
    """
    problems: list[ScheduleProblem] = []
    zone = _read_zone(written.get("timezone"), problems)
    moments = {
        key: _read_moment(key, written[key], zone, problems)
        for key in ("not_before", "expires")
        if key in written
    }
    if moments and "timezone" not in written:
        problems.append(
            ScheduleProblem(
                next(iter(moments)),
                "it does not say in which time zone",
                "add `timezone`, such as America/New_York",
            )
        )
    span = _read_span(written.get("send_between"), problems)
    days = _read_days(written.get("days"), problems)
    not_before, expires = moments.get("not_before"), moments.get("expires")
    if not_before and expires and expires <= not_before:
        problems.append(
            ScheduleProblem(
                "expires", "it is not after `not_before`", "nobody would be texted: move one of them"
            )
        )
    if problems:
        return tuple(problems)
    return Schedule(not_before, expires, zone, make_window(span, days))


def _read_zone(written: object, problems: list[ScheduleProblem]) -> str | None:
    if written is None:
        return None
    zone = check_zone(str(written))
    if isinstance(zone, NameProblem):
        problems.append(ScheduleProblem("timezone", zone.reason, zone.hint))
        return None
    return zone


def _read_moment(
    key: str, written: object, zone: str | None, problems: list[ScheduleProblem]
) -> datetime | None:
    try:
        local = datetime.fromisoformat(str(written)) if _LOCAL_TIME.fullmatch(str(written)) else None
    except ValueError:
        local = None
    if local is None:
        problems.append(
            ScheduleProblem(
                key, "it is no local date and time", "write it as in 2026-12-01T09:00, without an offset"
            )
        )
        return None
    if local.year >= _TOO_FAR:
        problems.append(ScheduleProblem(key, "it is too far away", f"write a year before {_TOO_FAR}"))
        return None
    if zone is None:
        return None
    moment = local.replace(tzinfo=load_zone(zone), fold=1 if key == "not_before" else 0).astimezone(UTC)
    if moment.astimezone(load_zone(zone)).replace(tzinfo=None) != local:
        problems.append(
            ScheduleProblem(
                key, f"clocks skip this time in {zone} that day", "write an hour earlier or later"
            )
        )
        return None
    return moment


def _read_span(written: object, problems: list[ScheduleProblem]) -> Span:
    if written is None:
        return _ALL_DAY
    ends = [parse_clock(str(end)) for end in written] if isinstance(written, list | tuple) else []
    match ends:
        case [int(start), int(end)] if start < end:
            return start, end
        case [int(), int()]:
            # Night hours are far more often a slip than intended.
            problem = (
                "it does not end after it starts",
                "no window goes past midnight: write the earlier time first",
            )
        case _:
            problem = ("it is no pair of times of day", 'write it as in ["09:00", "20:00"]')
    problems.append(ScheduleProblem("send_between", *problem))
    return _ALL_DAY


def _read_days(written: object, problems: list[ScheduleProblem]) -> tuple[int, ...]:
    if written is None:
        return tuple(range(len(DAYS)))
    named = [str(day) for day in written] if isinstance(written, list | tuple) else []
    if not named:
        problems.append(ScheduleProblem("days", "there is no day in it", f"list some of {', '.join(DAYS)}"))
    for name in named:
        if name not in DAYS:
            close = difflib.get_close_matches(name.casefold()[:3], DAYS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"the days are {', '.join(DAYS)}"
            problems.append(ScheduleProblem("days", f"there is no day {name}", hint))
    return tuple(DAYS.index(name) for name in named if name in DAYS)
