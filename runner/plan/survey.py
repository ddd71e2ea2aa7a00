"""A pass over the audience before the plan: what the whole audience decides for each person.

A simple random sample without replacement of a fixed size is the people with the smallest draws, as every
order of independent draws is equally likely (W. G. Cochran, "Sampling Techniques", 3rd edition 1977, 2.1;
E. Cohen, H. Kaplan, "Summarizing Data Using Bottom-k Sketches", PODC 2007). So a larger sample holds the
smaller one, and a person's draw does not depend on the others.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally, find_consent_changes, iterate_audience, read_excluded
from runner.campaign.variants import SHARES, draw_shares
from runner.ledger.fingerprint import FingerprintSet
from runner.ledger.model import format_moment
from runner.ledger.people.suppressions import Pause
from runner.plan.decider import Decider
from runner.plan.model import PlanOptions
from runner.plan.plan_context import find_consent_days
from runner.plan.planner import AudiencePass
from runner.plan.rollout import StepSurvey
from runner.source.diagnostic import Problems
from runner.text.payload import RowReporter

if TYPE_CHECKING:
    from runner.campaign.model import AudienceSample, Campaign
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.model import RecordedDeliveries
    from runner.plan.plan_context import PlanContext


def survey_audience(
    campaign: Campaign, known: RecordedDeliveries, key: TargetKey, context: PlanContext
) -> PlanContext:
    """Return a plan's context with what the audience decides; nothing is read unless a rule needs it."""
    if context.now is None:
        return context
    if campaign.sample is not None:
        context = _draw_sample(campaign, campaign.sample, known, key, context)
    record = context.rollout
    if campaign.rollout is None or record is None:
        return context
    steps = StepSurvey(campaign, campaign.rollout, record, key)
    # The step stays as it is found here, also where a saved plan is brought forward.
    return replace(_open_step(campaign, steps, known, key, context), rollout=None)


def _open_step(
    campaign: Campaign, steps: StepSurvey, known: RecordedDeliveries, key: TargetKey, context: PlanContext
) -> PlanContext:
    """Return the context with the open step of the rollout, and paused if a guard of it is broken."""
    going = AudiencePass.compile(campaign, PlanOptions(), replace(context, pause=None), Problems())
    decider = going.make_assigner(read_excluded(campaign, Problems()), known, key)
    changes = find_consent_changes(campaign, going.last_consent)
    people = iterate_audience(campaign, going.names, Problems(), AudienceTally(), changes)
    sampled = (recipient for recipient in people if not decider.is_left_out(recipient.phone))
    early = (recipient for recipient in sampled if not steps.is_of_last(recipient))
    for recipient, decisions in going.iterate(early, decider, RowReporter(campaign, Problems()), None):
        steps.add(recipient, decisions)
    now, pause = context.due_by, context.pause
    step = steps.find_step(now, "" if pause is None else pause.reason)
    if step.state == "broken" and pause is None:
        pause = Pause(format_moment(now), step.reason)
    return replace(context, step=step, pause=pause)


def _draw_sample(
    campaign: Campaign,
    sample: AudienceSample,
    known: RecordedDeliveries,
    key: TargetKey,
    context: PlanContext,
) -> PlanContext:
    """Return the context with the bound of the sample's share, or one that lets in as many as it lacks.

    People who were texted, or may have been, are in it, whether the audience still has them or not.
    """
    decider = Decider(campaign, [], read_excluded(campaign, Problems()), known, key, context)
    texted = decider.list_sampled()
    context = replace(context, sampled=FingerprintSet.of(texted))
    if sample.share is not None:
        return replace(context, sampled_below=int(sample.share * SHARES))
    lacking = (sample.size or 0) - len(texted)
    draw, consent = draw_shares(sample.seed, "sample"), find_consent_days(campaign, context.now)
    changes = find_consent_changes(campaign, None if consent is None else consent.last)
    people = iterate_audience(campaign, frozenset(), Problems(), AudienceTally(), changes)
    draws = (draw(one.phone) for one in people if decider.may_draw(one, texted, consent))
    lowest = heapq.nsmallest(lacking, draws) if lacking > 0 else []
    return replace(context, sampled_below=lowest[-1] + 1 if lowest else 0)
