"""Documents of plans, with what their experiments can find, and the notes that are shown with them."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from itertools import combinations
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from runner.audience.phone import mask_phone
from runner.document import UNSET, build
from runner.ledger.model import format_moment
from runner.plan.digest import plan_digest
from runner.plan.documents import (
    CountedReason,
    FindableDifference,
    ListedDefault,
    PlanDocument,
    PlannedCampaign,
    PlannedMessage,
    ShownLaunch,
)
from runner.source.json_schema import write_flow
from runner.timing.decision import count_due
from runner.workflow.campaigns import show_path
from runner.workflow.plans.saved import describe_campaign, name_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from runner.campaign.message_model import Message
    from runner.plan.model import CampaignPlan, MessagePlan
    from runner.workflow.plans.planning import PlanResult


CARRIER_WORDS = ("STOP", "STOPALL", "UNSUBSCRIBE", "OPTOUT", "CANCEL", "END", "QUIT", "REVOKE")
"""Replies that opt out at the carriers (CTIA Messaging Principles and Best Practices 2023, 5.1.3)."""
_SHOWN = 5
POWER = 0.8
BASELINE = 0.5
"""The response that is assumed: near this one a difference takes the most people to show."""
_PLACES = 10_000
"""Differences are looked for in steps of one of these parts."""


def describe_plans(planned: Iterable[PlanResult], *, now: str) -> PlanDocument:
    """Return the document of plans, with the digests that `apply --plan` compares."""
    items = list(planned)
    described = [describe_campaign(item) for item in items]
    return PlanDocument(
        now=now,
        plan_digest=plan_digest(described),
        notes=tuple(list_notes(items)),
        campaigns=tuple(_describe_campaign(item, one) for item, one in zip(items, described, strict=True)),
    )


def show_launches(document: PlanDocument, planned: Sequence[PlanResult]) -> PlanDocument:
    """Return the document of `planned` with each launch, for display only."""
    campaigns = [
        campaign.replace(launches=tuple(_list_launches(item)))
        for campaign, item in zip(document.campaigns, planned, strict=True)
    ]
    return document.replace(campaigns=tuple(campaigns))


def _describe_campaign(item: PlanResult, described: Mapping[str, Any]) -> PlannedCampaign:
    plan = item.plan
    return build(
        PlannedCampaign,
        plan,
        name=plan.campaign.name,
        file=show_path(plan.campaign.file),
        destination=described["destination"],
        digests=described["digests"],
        key_fingerprint=name_key(item),
        unread_replies=plan.unread if plan.waiting_for_replies else None,
        people=plan.recipients_to_send,
        people_later=plan.recipients_later,
        messages=tuple(_describe_message(message, list_findable(plan, message)) for message in plan.messages),
        cost=UNSET if plan.cost is None else plan.cost.document(),
        defaults=tuple(
            ListedDefault(one.key, one.value, show_path(one.position.file), one.position.line)
            for one in plan.campaign.rules.defaults
        )
        or UNSET,
        approval=UNSET,
        launches=UNSET,
    )


def _describe_message(message: MessagePlan, findable: Iterable[FindableDifference]) -> PlannedMessage:
    return build(
        PlannedMessage,
        message,
        next_due=format_moment(message.next_due) if message.next_due is not None else None,
        due=count_due(message.due),
        reasons=tuple(CountedReason(*one) for one in sorted(message.reasons.items())),
        findable=tuple(findable),
        languages=message.languages or UNSET,
    )


def _list_launches(item: PlanResult) -> Iterator[ShownLaunch]:
    for one in item.iterate_launches():
        phones = tuple(map(mask_phone, one.phones))
        yield ShownLaunch(one.message.id, one.arm, one.payload.digest, one.payload.definition, phones)


def list_notes(planned: Sequence[PlanResult]) -> list[str]:
    """Return notes that are shown once for all plans, of a sentence or two each."""
    notes = list_defaults(planned)
    if any(_find_messages(planned, lambda one: one.text is not None and one.method == "SMS")):
        words = f"{', '.join(CARRIER_WORDS[:-1])} and {CARRIER_WORDS[-1]}"
        notes.append(
            "Replies to a plain text, or after a survey's end, reach the service and the carriers alone. "
            f"They act on {words}, as the whole reply, and on no other words. "
            "`replies: recorded` makes replies to a text results, so that `runner reconcile` finds opt-outs."
        )
    recorded = list(_find_messages(planned, lambda message: message.replies == "recorded"))
    if recorded:
        more = f" and {len(recorded) - _SHOWN:,} more" if len(recorded) > _SHOWN else ""
        notes.append(
            f"Sent as an open question, since replies are recorded: {', '.join(recorded[:_SHOWN])}{more}. "
            "The session stays open until it is answered or expires: until then other messages to the same "
            "people wait (`open_session` in `policy`)."
        )
    return notes


def list_defaults(planned: Iterable[PlanResult]) -> list[str]:
    """Return a sentence for each set of defaults that campaigns take from targets.yaml."""
    found: dict[tuple[str, str], list[str]] = {}
    for item in planned:
        taken: dict[str, list[str]] = {}
        for one in item.campaign.rules.defaults:
            value = one.value if isinstance(one.value, str) else write_flow(one.value)
            said = f"`{one.key}: {value}`"
            taken.setdefault(show_path(one.position.file), []).append(said)
        for file, values in taken.items():
            found.setdefault((file, ", ".join(values)), []).append(item.campaign.name)
    return [
        f"Taken from `defaults` in {file} by {', '.join(names)}: {values}."
        for (file, values), names in found.items()
    ]


def _find_messages(planned: Sequence[PlanResult], is_meant: Callable[[Message], bool]) -> Iterator[str]:
    """Yield the full names of selected messages that are sent now or later."""
    for item in planned:
        pending = {message.id for message in item.plan.messages if message.pending}
        for message in item.campaign.messages:
            ways = item.campaign.list_arms(message.id).values() or (message,)
            if message.id in pending and any(map(is_meant, ways)):
                yield f"{item.campaign.name}/{message.id}"


def list_findable(plan: CampaignPlan, message: MessagePlan) -> list[FindableDifference]:
    """Return what each pair of arms of a message can show; nothing for one without arms or questions.

    Its people are all who have it, get it now, or may later, split by the arms' weights. As in
    `runner.report.comparison.compare_arms`, each of m pairs is tested at 5/m %, and arms of fewer than 30
    people show nothing. Where there is a verdict at every look, the last one counts.
    """
    variants = plan.campaign.variants
    asks = any(one.questions for one in plan.campaign.list_arms(message.id).values())
    if variants is None or variants.of != message.id or not asks:
        return []
    # Imported here: few campaigns have arms, and every plan would start later.
    from runner.report.comparison import LEAST_PEOPLE, SIGNIFICANCE, always_valid_reach

    weights = {arm.id: arm.weight for arm in variants.arms if arm.weight > 0}
    sizes = {arm: round(message.reach * weight / sum(weights.values())) for arm, weight in weights.items()}
    pairs = list(combinations(sizes, 2))
    error = SIGNIFICANCE / max(len(pairs), 1)
    fixed = NormalDist().inv_cdf(1 - error / 2)
    analysis = variants.analysis
    at_every_look = analysis is None or not (analysis.at or analysis.per_arm)
    found = []
    for before, arm in pairs:
        people, against = sizes[arm], sizes[before]

        def find_reach(rate: float, people: int = people, against: int = against) -> float:
            successes = int(rate * (people + against))
            return always_valid_reach(people, against, successes, error) if at_every_look else fixed

        difference = None
        if min(people, against) >= LEAST_PEOPLE:
            difference = find_difference(people, against, find_reach, is_exact=not at_every_look)
        found.append(FindableDifference(arm, before, people, against, difference))
    return found


def find_difference(
    people: int, against: int, find_reach: Callable[[float], float], *, is_exact: bool = True
) -> Fraction | None:
    """Return the smallest difference that a test shows in 80 of 100 experiments; None if it shows none.

    It is the smallest d with d ≥ z √(p̄(1 - p̄)(1/n + 1/m)) + 0.84162… √(q(1 - q)/n + p(1 - p)/m) + (1/n +
    1/m)/2, rounded up to four decimal places, where m people answer with p = ½ and n others with q = p + d;
    p̄ is the rate of both together, and z, which `find_reach` returns for it, is the reach of the test.
    Source: J. L. Fleiss, B. Levin, M. C. Paik, "Statistical Methods for Rates and Proportions", 3rd edition,
    2003, chapter 4, solved for the difference. The last term, the correction for continuity, is that of
    Fisher's exact test, and left out of a test that is not exact: J. L. Fleiss, A. Tytun, H. K. Ury, "A
    simple approximation for calculating sample sizes for comparing independent proportions", Biometrics 36
    (1980), 343-346.
    """
    power, each = NormalDist().inv_cdf(POWER), 1 / people + 1 / against

    def is_shown(difference: float) -> bool:
        rate = BASELINE + difference
        both = (people * rate + against * BASELINE) / (people + against)
        apart = sqrt(rate * (1 - rate) / people + BASELINE * (1 - BASELINE) / against)
        reach = find_reach(both) * sqrt(both * (1 - both) * each)
        return difference >= reach + power * apart + each / 2 * is_exact

    steps = range(int((1 - BASELINE) * _PLACES) + 1)
    found = bisect_left(steps, 1, key=lambda step: int(is_shown(step / _PLACES)))
    return Fraction(found, _PLACES) if found in steps else None
