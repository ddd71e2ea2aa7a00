"""Limits on the messages to one person: the campaign's frequency cap, and laws of their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.plan.decisions import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.audience.audience import Recipient
    from runner.plan.plan_context import PlanContext
    from runner.timing.decision import Timekeeper
    from runner.timing.legal_hours import LegalRule
    from runner.timing.schedule import FrequencyCap

_SILENCE = "no reminder: by the law of their place, no reply counts as opting out"


class PersonalLimits:
    """The limits of a campaign's plan.

    Args:
        cap: the campaign's own.
        timekeepers: of the ways people are reached, with the laws.
        context: the plan's context.
    """

    def __init__(
        self, cap: FrequencyCap | None, timekeepers: Iterable[Timekeeper], context: PlanContext
    ) -> None:
        self._own = () if cap is None else (cap,)
        self._timekeepers = [one for one in timekeepers if one.has_limits]
        self._context = context
        self._may_limit: dict[tuple[str, str | None], bool] = {}
        self.exist = bool(self._own or self._timekeepers)
        """Whether anybody may have a limit."""

    def _find_laws(self, recipient: Recipient) -> list[LegalRule]:
        """Return the laws that limit more than the hours of a person's texts."""
        now = self._context.now
        if not self._timekeepers or now is None:
            return []
        phone, zone, region = recipient.phone, recipient.timezone, recipient.region
        # The places, and so most people who have no such law, are told by little.
        place = phone[1:5], region
        may_limit = self._may_limit.get(place)
        if may_limit is None:
            may_limit = any(one.may_limit(phone, region) for one in self._timekeepers)
            self._may_limit[place] = may_limit
        if not may_limit:
            return []
        return [law for one in self._timekeepers for law in one.find_limits(phone, zone, region, now)]

    def heed_silence(self, index: int, recipient: Recipient) -> Decision | None:
        """Return the decision against a reminder, by its place, where no reply counts as opting out."""
        law = next((one for one in self._find_laws(recipient) if one.no_reply_opts_out), None)
        if law is None:
            return None
        return Decision(index, "not_qualified", reasons=(f"{_SILENCE}: {law.citation}",))

    def list_caps(self, recipient: Recipient) -> tuple[FrequencyCap, ...]:
        """Return the most messages to a person, by the campaign and by law."""
        laws = self._find_laws(recipient)
        legal = dict.fromkeys(one.caps for one in laws if one.caps is not None)
        return (*self._own, *legal) if laws else self._own

    def keep_caps(self, found: list[Decision], recipient: Recipient) -> list[Decision]:
        """Return the decisions with messages beyond a cap deferred; those first in the campaign go first."""
        caps, sent, kept = self.list_caps(recipient), 0, list[Decision]()
        if not caps or not any(one.counts for one in found):
            return found
        left = {one: one.messages - self._context.count_recent(recipient.phone, one.within) for one in caps}
        by_law = tuple(one for one in caps if one.citation)
        for decision in found:
            spent = next((one for one in caps if left[one] <= sent), None) if decision.counts else None
            kept.append(decision.hold("capped", *spent.reasons) if spent else decision)
            if kept[-1].counts:
                kept[-1] = kept[-1]._replace(caps=by_law)
                sent += 1
        return kept
