"""Whether a recipient is texted now, later, or not at all, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from runner.timing.opening import Calendar, LocalWindow
from runner.timing.place import find_places
from runner.timing.zone import find_prefix, zones_of_prefix
from runner.timing.zone_data import load_zone, open_zone_data

if TYPE_CHECKING:
    from runner.timing.histogram import Due
    from runner.timing.law import LawBook, LegalWindow, Method
    from runner.timing.schedule import Schedule, TimezoneUnknown

RefusalKind = Literal["expired", "timezone_unknown", "never_open"]

_FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps a text back for now.

    Attributes:
        kind: `not_before` and `send_between` (with `days`) are the campaign's, `law` is not.
        zone: the time zone in which the hours are closed; None for `not_before`.
        local: what a clock there shows; None for `not_before`.
        citation: the law that closes them; None for the campaign's own hours.
    """

    kind: Literal["not_before", "send_between", "law"]
    zone: str | None = None
    local: datetime | None = None
    citation: str | None = None

    @property
    def rule(self) -> str:
        """What is closed, in words that are the same for everybody whom it holds back."""
        if self.kind == "not_before":
            return "`not_before` is still to come"
        if self.citation is not None:
            return f"outside the legal hours of their place: {self.citation}"
        return "outside `send_between` and `days` on their own clocks"

    def __str__(self) -> str:
        if self.zone is None or self.local is None:
            return "`not_before` is still to come"
        hours = f"legal hours ({self.citation})" if self.citation else "`send_between` and `days`"
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
    """What decides over everybody in the same place: time zones, rules, and when all are open."""

    zones: tuple[str, ...]
    rules: tuple[LegalWindow, ...]
    calendar: Calendar


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
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        timezone_unknown: TimezoneUnknown = "refuse",
        law: LawBook | None = None,
        method: Method = "SMS",
    ) -> None:
        self._schedule = schedule
        self._fallback = schedule.timezone if timezone_unknown == "campaign" else None
        self._law = law
        self._method = method
        self._localities: dict[tuple[tuple[str, ...], tuple[LegalWindow, ...]], _Locality] = {}
        self._decided: dict[tuple[str, str, str | None], tuple[datetime, datetime, Decision]] = {}

    def decide(self, phone: str, zone: str | None, moment: datetime) -> Decision:
        """Decide for one recipient.

        Args:
            phone: E.164, allocated.
            zone: the recipient's own time zone, an IANA name that `check_zone` returned; None to go by
                the number.
            moment: now; any aware time.

        Returns:
            Send now, wait, or never. What kept somebody waiting is told as it was when first asked.
        """
        # All that is known of a number: its time zones, and the area code whose law holds. The second is
        # mostly part of the first, but they are two data files, and need not know the same codes.
        key = (find_prefix(phone), phone[1:5], zone)
        known = self._decided.get(key)
        if known is not None and known[0] <= moment < known[1]:
            return known[2]
        decision = self._decide_anew(phone, zone, moment)
        stays = decision.until if isinstance(decision, SendNow | Defer) else _FOR_EVER
        # In UTC: two times of one zone would be compared by their walls.
        self._decided[key] = (moment.astimezone(UTC), stays, decision)
        return decision

    def _decide_anew(self, phone: str, zone: str | None, moment: datetime) -> Decision:
        locality = self._locate(phone, zone)
        if locality is None:
            return _UNKNOWN
        earliest = moment.astimezone(UTC)
        if self._schedule.not_before is not None:
            earliest = max(earliest, self._schedule.not_before)
        opening = locality.calendar.find_opening(earliest)
        if opening is None and len(locality.zones) > 1:
            return _NEVER if self._fallback is None else self._decide_anew(phone, self._fallback, moment)
        if opening is None:
            return _NEVER_HERE
        expires = self._schedule.expires or _FOR_EVER
        due = max(opening[0], earliest)
        if due >= expires:
            return _EXPIRED
        if due > moment:
            reasons = tuple(self._explain(locality, moment))
            return Defer(due, reasons, locality.zones, _find_differences(locality.zones, due))
        return SendNow(min(opening[1], expires), _find_differences(locality.zones, moment))

    def _locate(self, phone: str, zone: str | None) -> _Locality | None:
        zones = (zone,) if zone is not None else zones_of_prefix(find_prefix(phone))
        if not zones and self._fallback is not None:
            zones = (self._fallback,)
        if not zones and self._law is None and self._schedule.window.is_whole_week():
            # Where every hour will do, whose clock shows it makes no difference.
            zones = (self._schedule.timezone or "UTC",)
        if not zones:
            return None
        rules = self._law.rules_of(find_places(phone), self._method) if self._law is not None else ()
        known = self._localities.get((zones, rules))
        if known is None:
            windows = dict.fromkeys((self._schedule.window, *(rule.window for rule in rules)))
            local = tuple(LocalWindow(window, name) for window in windows for name in zones)
            known = self._localities[zones, rules] = _Locality(zones, rules, Calendar(local))
        return known

    def _explain(self, locality: _Locality, moment: datetime) -> list[Reason]:
        found: list[Reason] = []
        if self._schedule.not_before is not None and moment < self._schedule.not_before:
            found.append(Reason("not_before"))
        windows = [(self._schedule.window, None), *((rule.window, rule.citation) for rule in locality.rules)]
        for window, citation in windows:
            for zone in locality.zones:
                local = moment.astimezone(load_zone(zone))
                if not window.contains(local):
                    found.append(Reason("law" if citation else "send_between", zone, local, citation))
                    break  # one of the zones is reason enough
        return found


def _find_differences(zones: tuple[str, ...], moment: datetime) -> tuple[str, ...]:
    data = open_zone_data()
    return tuple(filter(None, (data.describe_difference(zone, moment) for zone in zones)))
