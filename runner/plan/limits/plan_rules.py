"""Checks of a plan against the limits of its campaign and the rules of targets.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.plan.limits.audience_guard import refuse_empty
from runner.plan.limits.cost import refuse_cost
from runner.plan.plan_counts import find_refusals
from runner.wording import count_people, show_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.message_model import Message
    from runner.plan.model import CampaignPlan
    from runner.source.diagnostic import Diagnostic, Problems, Severity

_OF_ALL_MESSAGES = ("recipients", "renders", "cost", "rollout_above")
"""Rules on what all messages of a campaign may do together."""


def list_refusals(
    plan: CampaignPlan, only: str | None, pruned_at: str | None, problems: Problems
) -> Iterator[str]:
    """Yield, in words, why a plan is not sent: the limits and rules that it breaks.

    `only` is its one message, None for all; `pruned_at` is when answers to it were pruned, if they were;
    `problems` has those of the campaign's files.
    """
    if pruned_at is not None and plan.recipients_to_send:
        yield (
            f"its answers were pruned on {show_time(pruned_at)}, and no report would have what comes now "
            "(text new people by another campaign)"
        )
    limits, audience = plan.campaign.limits, plan.audience
    yield from find_refusals(limits, plan.messages, plan.recipients_to_send)
    yield from audience.find_refusals(limits.recipients)
    yield from refuse_empty(plan.campaign, problems)
    yield from refuse_cost(plan.campaign, plan.cost, plan.target, plan.recipients_to_send)
    if only is not None:
        for rule in map(plan.campaign.rules.find, _OF_ALL_MESSAGES):
            if rule is not None:
                yield f"it is of one message, and {rule.place} has a rule on all messages: leave out --only"
    yield from (words for _, words in _find_broken(plan))
    sender = plan.campaign.rules.find("sender")
    if sender is not None:
        yield from (f"{words}, and {sender.place} requires it" for _, words in _find_unsaid(plan))


def _find_broken(plan: CampaignPlan) -> Iterator[tuple[str, str]]:
    """Yield the rules on amounts that a plan breaks, each with a reason in words.

    People count who may get something now or later, however few `--limit`, hours or steps of a rollout let
    through. Bounds are of each plan: earlier texts do not count.
    """
    campaign, people = plan.campaign, plan.recipients_to_send + plan.recipients_later.most
    renders = sum(one.renders_max + sum(later.renders.most for later in one.coming) for one in plan.messages)
    reach = f"it could text {count_people(people)}, now and later"
    amounts = {
        "recipients": (people, reach),
        "renders": (renders, f"it could cost {renders:,} renders, now and later"),
    }
    for name, (amount, words) in amounts.items():
        most = campaign.rules.find(name)
        if most is not None and amount > most.bound:
            yield name, f"{words}, and {most.place} requires at most {most.bound:,}"
    above = campaign.rules.find("rollout_above")
    if above is not None and campaign.rollout is None and people > above.bound:
        yield above.name, f"{reach}, and {above.place} requires a `rollout` above {above.bound:,}"
    if above is not None and (first := _count_first(plan)) > above.bound:
        texts = f"the first step of its rollout texts {count_people(first)}"
        yield above.name, f"{texts}, and {above.place} requires at most {above.bound:,}"


def _count_first(plan: CampaignPlan) -> int:
    """Return the people of the first step of a rollout that has any; 0 if it is over.

    Without a record this is what may be expected of the draw.
    """
    campaign, step = plan.campaign, plan.rollout
    if campaign.rollout is None:
        return 0
    if step is None:
        everybody = max((one.recipients - one.excluded for one in plan.messages), default=0)
        if campaign.sample is not None:
            everybody = campaign.sample.estimate(everybody)
        return round(campaign.rollout.steps[0].share * everybody)
    if step.texted_before:
        return 0
    now, later = plan.recipients_to_send, plan.recipients_later.most
    reach = now + later if step.next_share is None else max(now, step.waiting) + step.texted
    # Who has one message and waits for another is counted once.
    return min(reach, step.people)


def _find_unsaid(plan: CampaignPlan) -> Iterator[tuple[Message, str]]:
    """Yield the messages whose texts do not say their sender, with the people who get these, in words."""
    sender, messages = plan.campaign.policy.sender, {one.id: one for one in plan.campaign.messages}
    for counted in plan.messages:
        if counted.unsaid:
            yield (
                messages[counted.id],
                f"the first text to {count_people(counted.unsaid)} does not say its sender, {sender}",
            )


def find_rule_problems(plan: CampaignPlan, *, has_begun: bool) -> Iterator[Diagnostic]:
    """Yield the rules that a plan breaks if nobody has been texted; if it `has_begun`, these are warnings.

    A text that does not say `policy.sender` is a warning without a rule, too.
    """
    campaign = plan.campaign
    severity: Severity = "warning" if has_begun else "error"
    for name, words in _find_broken(plan):
        place, more = campaign.position, ""
        if name == "rollout_above" and campaign.rollout is not None:
            place, more = campaign.rollout.steps[0].position, ", or make its first step smaller"
        elif name == "rollout_above" and not any(one.when for one in campaign.messages):
            more = ", or add a `rollout` with a smaller first step"
        hint = f"a plan of so much is refused: text fewer people{more}"
        yield place.problem(f"require-{name.replace('_', '-')}", words, hint, severity)
    severity = severity if campaign.rules.find("sender") is not None else "warning"
    for message, words in _find_unsaid(plan):
        opening = message.introduction or message.text or message.questions[0].text
        yield opening.position.problem("text-without-sender", words, "write the name in it", severity)
