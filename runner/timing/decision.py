"""The decision to text a recipient now, later or never, with its reasons, and the hours of later ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from runner.document import Part
from runner.timing.legal_hours import list_whereabouts, locate
from runner.timing.window import Calendar, LocalWindow
from runner.timing.zone import find_prefix, load_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runner.timing.legal_hours import LawBook, LegalRule, Method
    from runner.timing.schedule import NoRule, Purpose, Schedule, TimezoneUnknown


Due = tuple["datetime", str]
"""The moment somebody is due (any aware time), and the IANA name of the zone of their clocks."""


class DueHour(Part, frozen=True):
    """The people due in one hour of one local day.

    Attributes:
        day: the day, in their time zone.
        hour: the hour, from 0 to 23.
        recipients: how many recipients.
    """

    day: date
    hour: int
    recipients: int


def count_due(due: Iterable[Due] | Mapping[Due, int]) -> tuple[DueHour, ...]:
    """Count people, given one by one or by due moment, by their local hour, the earliest first."""
    shared: Counter[Due] = Counter(due)
    hours: Counter[tuple[date, int]] = Counter()
    for (moment, zone), recipients in shared.items():
        local = moment.astimezone(load_zone(zone))
        hours[local.date(), local.hour] += recipients
    return tuple(DueHour(day, hour, recipients) for (day, hour), recipients in sorted(hours.items()))


RefusalKind = Literal["expired", "timezone_unknown", "never_open", "no_rule", "missed"]

_DAY = timedelta(days=1)
_LOOK_AHEAD = timedelta(days=30)
"""How long before a change of law plans name it, where the campaign has no `expires`."""
_FOR_EVER = datetime.max.replace(tzinfo=UTC)
_BY_SCHEDULE = "`no_rule: schedule` in `policy` would go by `schedule` alone"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason that delays a text.

    Attributes:
        kind: `law`, or the campaign's `not_before`, `send_between` (with `days`) or `date` (`when`).
        citation: the law; None for the campaign's own hours.
        holiday: the public holiday that closes a law's hours, if it is one.
        keys: the keys of the campaign's own hours, in words; empty for a law.
    """

    kind: Literal["not_before", "send_between", "law", "date"]
    citation: str | None = None
    holiday: str | None = None
    keys: str = ""

    @property
    def rule(self) -> str:
        """The closed hours in words, the same for all recipients that wait for them."""
        if self.kind == "not_before":
            return "`not_before` is still to come"
        if self.kind == "date":
            return "the moment that `when` says is still to come"
        if self.holiday is not None:
            return f"a public holiday of their place ({self.holiday}): {self.citation}"
        if self.citation is not None:
            return f"outside the legal hours of their place: {self.citation}"
        return f"outside {self.keys} on their own clocks"


@dataclass(frozen=True, slots=True)
class SendNow:
    """A text that may leave until a moment, in UTC, at which the decision must be made again."""

    until: datetime
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Defer:
    """A text that has to wait until a moment, in UTC, for `reasons` in the candidate `zones`."""

    until: datetime
    reasons: tuple[Reason, ...]
    zones: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    @property
    def due(self) -> Due:
        """The moment when it may leave, and the candidate zone in whose local time it is shown."""
        return self.until, self.zones[0]


@dataclass(frozen=True, slots=True)
class Refuse:
    """A text that may never leave; the reason completes "nothing is sent: "."""

    kind: RefusalKind
    reason: str
    hint: str


Decision = SendNow | Defer | Refuse

_EXPIRED = Refuse(
    "expired",
    "the campaign's `expires` comes before the next moment at which it may be sent",
    "move `expires`, or start earlier",
)
TIMEZONE_UNKNOWN = Refuse(
    "timezone_unknown",
    "the number does not tell its time zone",
    "give one in a `timezone_column`, or set `timezone_unknown: campaign` in `policy`",
)
_NEVER = Refuse(
    "never_open",
    "the number may be in several time zones, and their sending hours have no moment in common",
    "give one in a `timezone_column`, widen `send_between`, or set `timezone_unknown: campaign` in `policy`",
)
_NEVER_IN_BOTH = Refuse(
    "never_open",
    "the sending hours of the place that is given and of the number's have no moment in common, and "
    "targets.yaml requires both",
    "correct the person's time zone or region",
)
_NEVER_HERE = Refuse(
    "never_open",
    "the campaign's and the legal sending hours have no moment in common",
    "widen `send_between` or `days`",
)


@dataclass(frozen=True, slots=True)
class _Locality:
    """Time zones, rules and open hours of one place, or of the given and the number's together.

    Attributes:
        zones: all zones whose hours are kept.
        rules: all laws that are kept.
        about: the rules for any purpose, by the places in words; empty if no law is kept.
        never: the refusal of people there if the hours have no moment in common.
    """

    zones: tuple[str, ...]
    rules: tuple[LegalRule, ...]
    calendar: Calendar
    about: dict[str, tuple[LegalRule, ...]]
    never: Refuse

    def find_unknown(self, moment: datetime) -> str | None:
        """Return the place, in words, for which no rule is in force at a moment, for any purpose, if any."""
        return next(
            (
                name
                for name, rules in self.about.items()
                if not any(rule.is_in_force(moment, self.zones) for rule in rules)
            ),
            None,
        )

    def list_changes(self, start: date, end: date) -> Iterator[str]:
        """Yield what changes in its rules after the day `start`, up to the day `end`."""
        for rule in self.rules:
            places = ", ".join(rule.places)
            if rule.since is not None and start < rule.since <= end:
                hours = rule.window.describe()
                yield f"on {rule.since} the legal hours in {places} change to {hours}: {rule.citation}"
            last = rule.until
            if last is not None and start <= last < end and not self._is_replaced(rule, last + _DAY):
                yield f"on {last + _DAY} legal hours in {places} end: {rule.citation}"

    def _is_replaced(self, rule: LegalRule, day: date) -> bool:
        return any(one.since == day and not set(one.places).isdisjoint(rule.places) for one in self.rules)


_Key = tuple[str, str, str | None, str | None]


def _make_key(phone: str, zone: str | None, region: str | None) -> _Key:
    """Return what decisions depend on: a number's time zones, its area code, and what is given.

    The zones' prefix mostly contains the area code, but the two data files need not know the same codes.
    """
    return find_prefix(phone), phone[1:5], zone, region


def _name(places: tuple[str, ...]) -> str:
    return " or ".join(places) if places else "numbers of no country"


class Timekeeper:
    """Decisions on a campaign's recipients, computed once for each number prefix and zone.

    A recipient without a given zone is texted when it is allowed in every zone the number may be in.

    Args:
        schedule: the campaign's.
        timezone_unknown: the rule for people whose zone is unknown, or whose candidate zones have no allowed
            moment in common.
        law: the legal hours to keep, if any.
        method: the way people are reached.
        purpose: the purpose of the texts.
        no_rule: the rule for places without legal hours.
        keeps_number: whether a given zone or region gets nobody around the hours and laws of their number:
            both hold, unless the given one is among the number's.

    Attributes:
        has_limits: whether a law limits more than hours (see `find_limits`).
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
        keeps_number: bool = False,
    ) -> None:
        self._schedule = schedule
        self._fallback = schedule.timezone if timezone_unknown == "campaign" else None
        self._law = law
        self._method = method
        self._purpose = purpose
        self._no_rule = no_rule
        self._keeps_number = keeps_number
        self.has_limits = any(
            rule.has_limits and rule.holds_for(method, purpose) for rule in (law.rules if law else ())
        )
        self._limits: dict[_Key, tuple[LegalRule, ...]] = {}
        self._localities: dict[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], _Locality] = {}
        self._decided: dict[_Key, tuple[datetime, datetime, Decision]] = {}

    def decide(self, phone: str, zone: str | None, moment: datetime, region: str | None = None) -> Decision:
        """Decide for one recipient. Reasons to wait are those of the first decision for the place.

        Args:
            phone: E.164, allocated.
            zone: the recipient's own time zone, from `check_zone`; None to use the region, or else the
                number.
            moment: now; any aware time.
            region: the recipient's legal region, from `check_region`; None to use the number.
        """
        key = _make_key(phone, zone, region)
        known = self._decided.get(key)
        if known is not None and known[0] <= moment < known[1]:
            return known[2]
        decision = self._decide_anew(phone, zone, moment, region)
        stays = decision.until if isinstance(decision, SendNow | Defer) else _FOR_EVER
        # In UTC: Python compares two times of one zone by their wall time.
        self._decided[key] = (moment.astimezone(UTC), stays, decision)
        return decision

    def find_limits(
        self, phone: str, zone: str | None, region: str | None, moment: datetime
    ) -> tuple[LegalRule, ...]:
        """Return the rules in force that limit more than a recipient's hours (see `decide`).

        They are worked out once for a place: `moment` has to be the same for all.
        """
        key = _make_key(phone, zone, region)
        if key not in self._limits:
            found = self._locate(phone, zone, region)
            rules, zones = ((), ()) if isinstance(found, Refuse) else (found.rules, found.zones)
            limits = (rule for rule in rules if rule.has_limits and rule.is_in_force(moment, zones))
            self._limits[key] = tuple(limits)
        return self._limits[key]

    def may_limit(self, phone: str, region: str | None) -> bool:
        """Return whether a law of a person's places limits more than hours, on any day: few do.

        Of the phone only the country code, and the area code in North America, matter.
        """
        law = self._law
        found = list_whereabouts(phone, None, region, keeps_number=self._keeps_number)
        places = [one for each in found for one in each.places]
        rules = () if law is None else law.rules_of(places, self._method, self._purpose)
        return any(rule.has_limits for rule in rules)

    def find_zones(self, phone: str, zone: str | None, region: str | None) -> tuple[str, ...]:
        """Return a recipient's candidate time zones; none if nothing is known (see `decide`)."""
        locality = self._locate(phone, zone, region)
        return () if isinstance(locality, Refuse) else locality.zones

    def find_clocks(self, phone: str, zone: str | None, region: str | None) -> tuple[str, ...]:
        """Return the time zones whose clocks a recipient may live by; none if nothing is known."""
        return locate(phone, zone, region)[0] or ((self._fallback,) if self._fallback is not None else ())

    def find_hours(
        self, phone: str, zone: str | None, moment: datetime, region: str | None, length: timedelta
    ) -> tuple[datetime, datetime] | tuple[()] | None:
        """Return the last open hours before a moment, up to a length; perhaps none. None if it is open then.

        They are in UTC, and none if the last ones opened more than eight days before.
        """
        locality = self._locate(phone, zone, region)
        hours = None if isinstance(locality, Refuse) else locality.calendar.find_last(moment)
        if hours is None:
            return ()
        if moment < hours[1]:
            return None
        start = max(hours[0], hours[1] - length, self._schedule.not_before or hours[0])
        end = min(hours[1], self._schedule.expires or hours[1])
        return (start, end) if start < end else ()

    def _decide_anew(self, phone: str, zone: str | None, moment: datetime, region: str | None) -> Decision:
        locality = self._locate(phone, zone, region)
        if isinstance(locality, Refuse):
            return locality
        found = self._decide_there(locality, moment)
        if found is _NEVER and self._fallback is not None:
            return self._decide_anew(phone, self._fallback, moment, region)
        return found

    def _decide_there(self, locality: _Locality, moment: datetime) -> Decision:
        earliest = max(moment.astimezone(UTC), self._schedule.not_before or moment)
        place = locality.find_unknown(earliest)
        unknown = "" if place is None else f"no rule known for {place}"
        if unknown and self._no_rule == "refuse":
            return Refuse("no_rule", unknown, _BY_SCHEDULE)
        opening = locality.calendar.find_opening(earliest)
        if opening is None:
            return locality.never
        expires = self._schedule.expires or _FOR_EVER
        due = max(opening[0], earliest)
        if due >= expires:
            return _EXPIRED
        by_schedule = (f"{unknown}: `schedule` alone says when",) if unknown else ()
        remarks = *by_schedule, *self._list_changes(locality, moment, due)
        if due > moment:
            return Defer(due, tuple(self._explain(locality, moment)), locality.zones, remarks)
        return SendNow(min(opening[1], expires), remarks)

    def _list_changes(self, locality: _Locality, moment: datetime, due: datetime) -> Iterator[str]:
        """Return the changes of rules up to the campaign's end, or for some time if it has none."""
        end = self._schedule.expires or due + _LOOK_AHEAD
        zone = load_zone(locality.zones[0])
        return locality.list_changes(moment.astimezone(zone).date(), end.astimezone(zone).date())

    def _locate(self, phone: str, zone: str | None, region: str | None) -> _Locality | Refuse:
        found = list_whereabouts(phone, zone, region, keeps_number=self._keeps_number)
        zones = tuple(dict.fromkeys(one for each in found for one in each.zones))
        if not zones and self._fallback is not None:
            zones = (self._fallback,)
        if not zones and self._law is None and self._schedule.window.is_whole_week():
            # If every hour is open, the zone makes no difference.
            zones = (self._schedule.timezone or "UTC",)
        if not zones:
            return TIMEZONE_UNKNOWN
        key = zones, tuple(each.places for each in found)
        if key not in self._localities:
            self._localities[key] = self._make_locality(*key)
        return self._localities[key]

    def _make_locality(self, zones: tuple[str, ...], places: tuple[tuple[str, ...], ...]) -> _Locality:
        law = self._law
        about = {} if law is None else {_name(each): law.rules_of(each, self._method) for each in places}
        legal = (rule for rules in about.values() for rule in rules)
        rules = tuple(dict.fromkeys(one for one in legal if one.holds_for(self._method, self._purpose)))
        own = tuple(LocalWindow(self._schedule.window, zone) for zone in zones)
        every = dict.fromkeys([*own, *(one for rule in rules for one in rule.lay(zones))])
        never = _NEVER_IN_BOTH if len(places) > 1 else _NEVER if len(zones) > 1 else _NEVER_HERE
        return _Locality(zones, rules, Calendar(tuple(every)), about, never)

    def _explain(self, locality: _Locality, moment: datetime) -> list[Reason]:
        found: list[Reason] = []
        if self._schedule.not_before is not None and moment < self._schedule.not_before:
            found.append(Reason("not_before"))
        window = self._schedule.window
        if any(not LocalWindow(window, zone).is_open(moment) for zone in locality.zones):
            found.append(Reason("send_between", keys=window.name_keys()))
        for rule in locality.rules:
            closed = next((one for one in rule.lay(locality.zones) if not one.is_open(moment)), None)
            if closed is not None:
                holiday = closed.find_holiday(moment.astimezone(load_zone(closed.zone)).date())
                found.append(Reason("law", rule.citation, holiday))
        return found
