"""A pass over the audience before the plan: what the whole audience decides for each person.

A simple random sample without replacement of a fixed size is the people with the smallest draws, as every
order of independent draws is equally likely (W. G. Cochran, "Sampling Techniques", 3rd edition 1977, 2.1;
E. Cohen, H. Kaplan, "Summarizing Data Using Bottom-k Sketches", PODC 2007). So a larger sample holds the
smaller one, and a person's draw does not depend on the others.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally, find_consent_changes, iterate_audience, read_excluded
from runner.campaign.variants import SHARES, draw_shares
from runner.plan.decider import Decider
from runner.plan.planner import find_last_day
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Campaign, Sample
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.model import RecordedDeliveries
    from runner.plan.plan_context import PlanContext


@dataclass(frozen=True, slots=True)
class AudienceSurvey:
    """The findings of a pass over the audience; None for what no rule of the campaign needs.

    Attributes:
        sampled_below: the bound for draws of people in the sample who were not texted yet.
    """

    sampled_below: int | None = None


def survey_audience(
    campaign: Campaign, known: RecordedDeliveries, key: TargetKey, context: PlanContext
) -> PlanContext:
    """Return a plan's context with what the audience decides; nothing is read unless a rule needs it."""
    sample = campaign.sample
    if sample is None:
        return context
    if sample.share is not None:
        bound = int(sample.share * SHARES)
    else:
        bound = _find_bound(campaign, sample, known, key, context)
    return replace(context, survey=AudienceSurvey(sampled_below=bound))


def _find_bound(
    campaign: Campaign, sample: Sample, known: RecordedDeliveries, key: TargetKey, context: PlanContext
) -> int:
    """Return the bound that lets so many people in as the sample lacks.

    People who were texted, or may have been, are in it, whether the audience still has them or not.
    """
    decider = Decider(campaign, [], read_excluded(campaign, Problems()), known, key, context)
    firsts = [one.id for one in campaign.messages if one.after is None]
    texted = decider.list_texted(firsts)
    lacking = (sample.size or 0) - len(texted)
    draw = draw_shares(sample.seed, "sample")
    draws = (draw(phone) for phone in _iterate_new(campaign, decider, texted, context))
    lowest = heapq.nsmallest(lacking, draws) if lacking > 0 else []
    return lowest[-1] + 1 if lowest else 0


def _iterate_new(
    campaign: Campaign, decider: Decider, texted: set[str], context: PlanContext
) -> Iterator[str]:
    """Yield the phones of people who may be texted, and were not."""
    last_day = find_last_day(campaign, context)
    changes = find_consent_changes(campaign, last_day)
    for recipient in iterate_audience(campaign, frozenset(), Problems(), AudienceTally(), changes):
        day = recipient.consent_day
        is_early = last_day is not None and day is not None and day > last_day
        if decider.may_draw(recipient._replace(has_consent=False) if is_early else recipient, texted):
            yield recipient.phone


def find_probability(sample: Sample | None, eligible: int | None, drawn: int | None) -> Fraction | None:
    """Return the probability with which each of the eligible people was drawn; None if it is not known."""
    if sample is None or sample.share is not None:
        return None if sample is None else sample.share
    return None if not eligible or drawn is None else Fraction(drawn, eligible)
