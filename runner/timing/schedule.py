"""A campaign's `schedule`, two moments and a weekly window, and the rules of messages by a date (`when`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from runner.source.diagnostic import CellProblem
from runner.source.quantity import write_duration
from runner.timing.window import DAYS, WHOLE_WEEK, WeeklyWindow, make_window, parse_clock
from runner.timing.zone import check_zone, load_zone
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TimezoneUnknown = Literal["refuse", "campaign"]
"""Rule for people whose time zone is unknown: `policy.timezone_unknown`."""
NoRule = Literal["refuse", "schedule"]
"""The treatment of people of places whose legal hours are not known: `policy.no_rule`."""
Purpose = Literal["survey", "marketing", "service"]
"""The purpose of texts: `policy.purpose`. To sell, `marketing`; about something that they have ordered
or use, `service`."""

OutsideHours = Literal["earlier", "skip"]
"""What becomes of a text `before` a date whose moment is outside the hours: `when.outside_hours`."""
DEFAULT_WITHIN = timedelta(days=7)

_TOO_FAR = 9990  # A calendar looks a year ahead, and must not pass the last year of `datetime`.


@dataclass(frozen=True, slots=True)
class FrequencyCap:
    """The maximum `messages` (a survey is one) to a person `within` the time before now, on a target.

    `citation` is the law that says so; empty for the campaign's own.
    """

    messages: int
    within: timedelta
    citation: str = ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it holds somebody back, in words; nothing for the campaign's own."""
        most = f"{count_words(self.messages, 'message')} within {write_duration(self.within)}"
        return (f"the law of their place allows {most}: {self.citation}",) if self.citation else ()


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
class DateRule:
    """When a message goes, by the date in a cell: a time `before` it, or `after` it.

    `within` bounds how late a text `after` a date may go.
    """

    before: timedelta | None = None
    after: timedelta | None = None
    outside_hours: OutsideHours = "earlier"
    within: timedelta = DEFAULT_WITHIN

    def bound(self, moments: Iterable[datetime]) -> tuple[datetime, datetime]:
        """Return when a text is due, and when it is too late for it; `moments` are those of the date."""
        if self.before is not None:
            date = min(moments)
            return date - self.before, date
        due = max(moments) + (self.after or timedelta())
        return due, due + self.within


@dataclass(frozen=True, slots=True)
class ScheduleProblem:
    """The problem of a key of a `schedule`; the reason is a sentence without a full stop."""

    key: str
    reason: str
    hint: str


def read_schedule(written: Mapping[str, Any]) -> Schedule | tuple[ScheduleProblem, ...]:
    """Read a `schedule` mapping that fits the campaign's schema, or return all its problems.

    A local time that clocks skip is refused. Of one that they repeat, `not_before` is the second and
    `expires` the first, to avoid doubtful sends.
    """
    problems: list[ScheduleProblem] = []
    zone = check_zone(written["timezone"]) if "timezone" in written else None
    if isinstance(zone, CellProblem):
        problems.append(ScheduleProblem("timezone", zone.reason, zone.hint))
        zone = None
    moments: dict[str, datetime | None] = {}
    for key in ("not_before", "expires"):
        found = _read_moment(key, written[key], zone) if key in written else None
        problems += [found] if isinstance(found, ScheduleProblem) else []
        moments[key] = None if isinstance(found, ScheduleProblem) else found
    start, end = (parse_clock(each) or 0 for each in written.get("send_between", ("00:00", "24:00")))
    if start >= end:
        # Night hours are far more often a slip than intended.
        hint = "no window goes past midnight: write the earlier time first"
        problems.append(ScheduleProblem("send_between", "it does not end after it starts", hint))
    not_before, expires = moments["not_before"], moments["expires"]
    if not_before and expires and expires <= not_before:
        hint = "nobody would be texted: move one of them"
        problems.append(ScheduleProblem("expires", "it is not after `not_before`", hint))
    days = map(DAYS.index, written.get("days", DAYS))
    return tuple(problems) or Schedule(not_before, expires, zone, make_window((start, end), days))


def _read_moment(key: str, written: str, zone: str | None) -> datetime | ScheduleProblem | None:
    try:
        local = datetime.fromisoformat(written)
    except ValueError:
        hint = "write it as in 2026-12-01T09:00, without an offset"
        return ScheduleProblem(key, "it is no local date and time", hint)
    if local.year >= _TOO_FAR:
        return ScheduleProblem(key, "it is too far away", f"write a year before {_TOO_FAR}")
    if zone is None:
        return None
    moment = local.replace(tzinfo=load_zone(zone), fold=1 if key == "not_before" else 0).astimezone(UTC)
    if moment.astimezone(load_zone(zone)).replace(tzinfo=None) != local:
        words = f"clocks skip this time in {zone} that day"
        return ScheduleProblem(key, words, "write an hour earlier or later")
    return moment
