"""Counts what a pass over an audience, or over a part of it, gives; parts add up to the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.plan.grouping import LaunchSizes, group_of
from runner.plan.limits import find_refusals
from runner.plan.model import CampaignPlan, Span
from runner.plan.outlook import find_waits
from runner.plan.shard import DeliveryDigest, digest_terms, join_digests
from runner.plan.tally import MessageTally
from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from runner.campaign.audience import AudienceTally
    from runner.campaign.model import Campaign
    from runner.plan.passage import Assigned
    from runner.plan.track import Track


@dataclass(slots=True)
class PlanCounts:
    """What was counted. It can be pickled, and names nobody.

    Attributes:
        messages: of each message, in the order of the tracks.
        launches: sends that each message takes.
        people: who get at least one message now.
        later: who get nothing now, and may get something later.
        sure: of these, who get something for sure.
        digests: of who gets what, by shard.
        terms: of who gets it in which arm and until when, by shard; where that was counted.
    """

    messages: list[MessageTally]
    launches: list[int]
    people: int = 0
    later: int = 0
    sure: int = 0
    digests: dict[int, bytes] = field(default_factory=dict)
    terms: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def start(cls, messages: int) -> PlanCounts:
        """Return the counts of nobody."""
        return cls([MessageTally() for _ in range(messages)], [0] * messages)

    def merge(self, other: PlanCounts) -> None:
        """Add the counts of other people, of other shards."""
        for own, one in zip(self.messages, other.messages, strict=True):
            own.merge(one)
        self.launches = [own + one for own, one in zip(self.launches, other.launches, strict=True)]
        self.people += other.people
        self.later += other.later
        self.sure += other.sure
        self.digests |= other.digests
        self.terms |= other.terms


def count_assignments(
    assigned: Iterable[Assigned],
    sizes: Sequence[LaunchSizes],
    per_send: int,
    terms: DeliveryDigest | None = None,
) -> PlanCounts:
    """Return what a pass gives.

    Args:
        assigned: the pass.
        sizes: of each message; receive how many share its launches.
        per_send: the most recipients of a launch.
        terms: receives in which arm everyone gets what, and until when.
    """
    counts = PlanCounts.start(len(sizes))
    digest = DeliveryDigest()
    add_delivery = digest.add
    adders = [(tally.add, size.add) for tally, size in zip(counts.messages, sizes, strict=True)]
    people = 0
    for recipient, assignments in assigned:
        gets_something = comes_later = is_sure = False
        for assignment in assignments:
            index = assignment.message
            add, add_group = adders[index]
            if add(assignment):
                comes_later = True
                is_sure = is_sure or assignment.is_sure
            payload = assignment.payload
            if payload is not None:
                gets_something = True
                add_delivery(recipient.phone, index, payload.digest)
                add_group(group_of(payload, assignment.arm, assignment.until))
                if terms is not None:
                    terms.add(recipient.phone, index, digest_terms(assignment.arm, assignment.until))
        if gets_something:
            people += 1
        elif comes_later:
            counts.later += 1
            counts.sure += is_sure
    counts.people = people
    counts.digests = digest.finish()
    counts.terms = {} if terms is None else terms.finish()
    counts.launches = [size.count_launches(per_send) for size in sizes]
    return counts


def add_up_plan(
    campaign: Campaign,
    target: str,
    tracks: Sequence[Track],
    counts: PlanCounts,
    audience: AudienceTally,
    per_send: int,
    now: datetime | None,
) -> CampaignPlan:
    """Return the plan that counts of everybody make.

    Args:
        campaign: the campaign.
        target: the target's name.
        tracks: its messages.
        counts: of everybody.
        audience: the rows.
        per_send: the most recipients of a launch.
        now: the moment of the plan; None if it goes by the files alone.
    """
    plans = [
        tally.add_up(track, audience, launches)
        for track, tally, launches in zip(tracks, counts.messages, counts.launches, strict=True)
    ]
    waits = find_waits([track.message for track in tracks], now, plans)
    lets_queue = campaign.policy.open_session == "queue"
    for plan, tally, track in zip(plans, counts.messages, tracks, strict=True):
        plan.coming = tally.add_up_coming(track, per_send, waits[plan.id], lets_queue=lets_queue)
    refusals = tuple(find_refusals(campaign.limits, plans, counts.people))
    digest = join_digests([counts.digests])
    later = Span(counts.sure, counts.later)
    return CampaignPlan(
        campaign, target, tuple(plans), counts.people, digest, refusals, recipients_later=later
    )


def describe_empty(campaign: Campaign) -> Diagnostic:
    """Return the warning of an audience without a row."""
    place = campaign.recipients[0].position
    words = "this campaign has no recipients: no row holds a phone"
    return Diagnostic("warning", "audience-empty", words, place.file, place.line, place.column)
