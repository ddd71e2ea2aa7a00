"""Whether a recipient is texted now, later, or not at all, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from runner.timing.opening import Calendar, LocalWindow
from runner.timing.place import locate
from runner.timing.zone import find_prefix
from runner.timing.zone_data import load_zone, open_zone_data

if TYPE_CHECKING:
    from runner.timing.histogram import Due
    from runner.timing.law import LawBook, LegalWindow, Method
    from runner.timing.public_holidays import HolidayList
    from runner.timing.schedule import NoRule, Purpose, Schedule, TimezoneUnknown
    from runner.timing.window import WeeklyWindow

RefusalKind = Literal["expired", "timezone_unknown", "never_open", "no_rule"]

_FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps a text back for now.

    Attributes:
        kind: `not_before` and `send_between` (with `days`) are the campaign's, `law` is not.
        zone: the time zone in which the hours are closed; None for `not_before`.
        local: what a clock there shows; None for `not_before`.
        citation: the law that closes them; None for the campaign's own hours.
        holiday: of a law, the public holiday that closes them; None if it is the hour or the weekday.
    """

    kind: Literal["not_before", "send_between", "law"]
    zone: str | None = None
    local: datetime | None = None
    citation: str | None = None
    holiday: str | None = None

    @property
    def rule(self) -> str:
        """What is closed, in words that are the same for everybody whom it holds back."""
        if self.kind == "not_before":
            return "`not_before` is still to come"
        if self.holiday is not None:
            return f"a public holiday of their place ({self.holiday}): {self.citation}"
        if self.citation is not None:
            return f"outside the legal hours of their place: {self.citation}"
        return "outside `send_between` and `days` on their own clocks"

    def __str__(self) -> str:
        if self.zone is None or self.local is None:
            return "`not_before` is still to come"
        hours = f"legal hours ({self.citation})" if self.citation else "`send_between` and `days`"
        if self.holiday is not None:
            return f"it is {self.local:%a %H:%M} in {self.zone}, {self.holiday}: closed by {self.citation}"
        return f"it is {self.local:%a %H:%M} in {self.zone}, outside {hours}"


@dataclass(frozen=True, slots=True)
class SendNow:
    """The text may leave.

    Attributes:
        until: from this moment on, in UTC, it has to be asked again.
        remarks: what should make one think about it, in words.
    """

    until: datetime
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Defer:
    """The text has to wait.

    Attributes:
        until: when it may leave, in UTC.
        reasons: all that is closed now.
        zones: the recipient's candidate time zones.
        remarks: what should make one think about it, in words.
    """

    until: datetime
    reasons: tuple[Reason, ...]
    zones: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    @property
    def due(self) -> Due:
        """When it may leave, and the candidate zone on whose clocks people are told so."""
        return self.until, self.zones[0]


@dataclass(frozen=True, slots=True)
class Refuse:
    """The text may never leave.

    Attributes:
        kind: what stands against it.
        reason: completes "nothing is sent: ".
        hint: what to do about it.
    """

    kind: RefusalKind
    reason: str
    hint: str


Decision = SendNow | Defer | Refuse

_EXPIRED = Refuse(
    "expired",
    "the campaign's `expires` comes before the next moment at which it may be sent",
    "move `expires`, or start earlier",
)
_UNKNOWN = Refuse(
    "timezone_unknown",
    "the number does not tell its time zone",
    "give one in a `timezone_column`, or set `timezone_unknown: campaign` in `policy`",
)
_BY_SCHEDULE = "`no_rule: schedule` in `policy` would go by `schedule` alone"
_NEVER = Refuse(
    "never_open",
    "the number may be in several time zones, and their sending hours have no moment in common",
    "give one in a `timezone_column`, widen `send_between`, or set `timezone_unknown: campaign` in `policy`",
)
_NEVER_HERE = Refuse(
    "never_open",
    "the campaign's and the legal sending hours have no moment in common",
    "widen `send_between` or `days`",
)


@dataclass(frozen=True, slots=True)
class _Locality:
    """What decides over everybody in the same place: time zones, rules, and when all are open.

    Attributes:
        unknown: the places, in words, if no law of any of them is known.
    """

    zones: tuple[str, ...]
    rules: tuple[LegalWindow, ...]
    calendar: Calendar
    unknown: str | None = None


class Timekeeper:
    """Decides when a campaign's recipients are texted.

    A recipient whose zone nobody gives is texted when it is allowed in every zone the number may be in.
    Everything that people with one prefix and zone share is worked out once.

    Args:
        schedule: the campaign's.
        timezone_unknown: what happens to people whose zone cannot be told, or whose candidate zones
            have no allowed moment in common.
        law: the legal hours to keep; None for none.
        method: how people are reached.
        purpose: for what.
        no_rule: what happens to people of places that the law book has no rule of.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        timezone_unknown: TimezoneUnknown = "refuse",
        law: LawBook | None = None,
        method: Method = "SMS",
        purpose: Purpose = "survey",
        no_rule: NoRule = "refuse",
    ) -> None:
        self._schedule = schedule
        self._fallback = schedule.timezone if timezone_unknown == "campaign" else None
        self._law = law
        self._method = method
        self._purpose = purpose
        self._no_rule = no_rule
        self._localities: dict[tuple[tuple[str, ...], tuple[str, ...]], _Locality] = {}
        self._decided: dict[tuple[str, str, str | None, str | None], tuple[datetime, datetime, Decision]] = {}

    def decide(self, phone: str, zone: str | None, moment: datetime, region: str | None = None) -> Decision:
        """Decide for one recipient.

        Args:
            phone: E.164, allocated.
            zone: the recipient's own time zone, an IANA name that `check_zone` returned; None to go by
                the region, or else the number.
            moment: now; any aware time.
            region: where the recipient is by law, as `check_region` returned it; None to go by the number.

        Returns:
            Send now, wait, or never. What kept somebody waiting is told as it was when first asked.
        """
        # All that is known of a number: its time zones, and the area code whose law holds. The second is
        # mostly part of the first, but they are two data files, and need not know the same codes.
        key = (find_prefix(phone), phone[1:5], zone, region)
        known = self._decided.get(key)
        if known is not None and known[0] <= moment < known[1]:
            return known[2]
        decision = self._decide_anew(phone, zone, moment, region)
        stays = decision.until if isinstance(decision, SendNow | Defer) else _FOR_EVER
        # In UTC: two times of one zone would be compared by their walls.
        self._decided[key] = (moment.astimezone(UTC), stays, decision)
        return decision

    def find_zones(self, phone: str, zone: str | None, region: str | None) -> tuple[str, ...]:
        """Return the time zones in which a recipient is held to be; none if nothing is known.

        Args:
            phone: E.164, allocated.
            zone: as for `decide`.
            region: as for `decide`.
        """
        locality = self._locate(phone, zone, region)
        return () if isinstance(locality, Refuse) else locality.zones

    def _decide_anew(self, phone: str, zone: str | None, moment: datetime, region: str | None) -> Decision:
        locality = self._locate(phone, zone, region)
        if isinstance(locality, Refuse):
            return locality
        earliest = moment.astimezone(UTC)
        if self._schedule.not_before is not None:
            earliest = max(earliest, self._schedule.not_before)
        opening = locality.calendar.find_opening(earliest)
        if opening is None and len(locality.zones) > 1:
            fallback = self._fallback
            return _NEVER if fallback is None else self._decide_anew(phone, fallback, moment, region)
        if opening is None:
            return _NEVER_HERE
        expires = self._schedule.expires or _FOR_EVER
        due = max(opening[0], earliest)
        if due >= expires:
            return _EXPIRED
        if due > moment:
            reasons = tuple(self._explain(locality, moment))
            return Defer(due, reasons, locality.zones, _find_remarks(locality, due))
        return SendNow(min(opening[1], expires), _find_remarks(locality, moment))

    def _locate(self, phone: str, zone: str | None, region: str | None) -> _Locality | Refuse:
        zones, places = locate(phone, zone, region)
        if not zones and self._fallback is not None:
            zones = (self._fallback,)
        if not zones and self._law is None and self._schedule.window.is_whole_week():
            # Where every hour will do, whose clock shows it makes no difference.
            zones = (self._schedule.timezone or "UTC",)
        if not zones:
            return _UNKNOWN
        if self._law is None:
            places = ()
        known = self._localities.get((zones, places))
        if known is None:
            known = self._localities[zones, places] = self._make_locality(zones, places)
        if known.unknown is not None and self._no_rule == "refuse":
            return Refuse("no_rule", f"no rule known for {known.unknown}", _BY_SCHEDULE)
        return known

    def _make_locality(self, zones: tuple[str, ...], places: tuple[str, ...]) -> _Locality:
        law = self._law
        rules = () if law is None else law.rules_of(places, self._method, self._purpose)
        hours = dict.fromkeys(
            [(self._schedule.window, None), *((rule.window, rule.holidays) for rule in rules)]
        )
        windows = tuple(LocalWindow(window, name, days) for window, days in hours for name in zones)
        unknown = None
        if law is not None and not law.knows_any(places, self._method):
            unknown = " or ".join(places) if places else "numbers of no country"
        return _Locality(zones, rules, Calendar(windows), unknown)

    def _explain(self, locality: _Locality, moment: datetime) -> list[Reason]:
        found: list[Reason] = []
        if self._schedule.not_before is not None and moment < self._schedule.not_before:
            found.append(Reason("not_before"))
        closed = _find_closed(self._schedule.window, None, locality.zones, moment)
        found += [Reason("send_between", *closed[:2])] if closed else []
        for rule in locality.rules:
            closed = _find_closed(rule.window, rule.holidays, locality.zones, moment)
            if closed:
                zone, local, holiday = closed
                found.append(Reason("law", zone, local, rule.citation, holiday))
        return found


def _find_closed(
    window: WeeklyWindow, holidays: HolidayList | None, zones: tuple[str, ...], moment: datetime
) -> tuple[str, datetime, str | None] | None:
    """Return the first zone in which a window is closed, its clock, and the holiday that it is there.

    One of the zones is reason enough.
    """
    for zone in zones:
        hours = LocalWindow(window, zone, holidays)
        if not hours.is_open(moment):
            local = moment.astimezone(load_zone(zone))
            return zone, local, hours.find_holiday(local.date())
    return None


def _find_remarks(locality: _Locality, moment: datetime) -> tuple[str, ...]:
    data = open_zone_data()
    found = [data.describe_difference(zone, moment) for zone in locality.zones]
    if locality.unknown is not None:
        found.append(f"no rule known for {locality.unknown}: `schedule` alone says when")
    return tuple(filter(None, found))
