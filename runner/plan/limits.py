"""The safety limits of a campaign: a plan that breaks one refuses itself, with numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.campaign.policy import Limits
    from runner.plan.model import CampaignPlan, MessagePlan
    from runner.source.diagnostic import Severity


def find_refusals(limits: Limits, messages: Sequence[MessagePlan], people: int) -> Iterator[str]:
    """Yield, in words, the limits that a plan breaks.

    Args:
        limits: the campaign's.
        messages: the counts.
        people: who would be texted now.
    """
    if limits.recipients is not None and people > limits.recipients:
        yield f"it would text {people:,} recipients, and limits.recipients is {limits.recipients:,}"
    renders = sum(plan.renders_max for plan in messages)
    if limits.renders is not None and renders > limits.renders:
        yield f"it could cost {renders:,} renders, and limits.renders is {limits.renders:,}"
    yield from _find_invalid(limits, messages)
    most = limits.segments_per_message
    for plan in messages if most is not None else ():
        beyond = {size: count for size, count in plan.largest.items() if size > (most or 0)}
        if beyond:
            yield _describe_long(plan, beyond, most)


def _find_invalid(limits: Limits, messages: Sequence[MessagePlan]) -> Iterator[str]:
    most = limits.invalid_rows
    rows, invalid = max(((plan.rows, plan.invalid) for plan in messages), default=(0, 0))
    if most is None or invalid <= (most * rows if isinstance(most, Fraction) else most):
        return
    limit = f"{float(most * 100):g}%" if isinstance(most, Fraction) else f"{most:,}"
    words = f"{'row' if rows == 1 else 'rows'} {'is' if invalid == 1 else 'are'}"
    yield f"{invalid:,} of {rows:,} {words} invalid, and limits.invalid_rows is {limit}"


def find_long_texts(whole: CampaignPlan) -> Iterator[Diagnostic]:
    """Yield the messages with texts beyond `limits.segments_per_message`: plans with them stop.

    It is an error if all recipients' texts are: no plan that sends the message can go through then.

    Args:
        whole: a campaign's plan, made as if nobody had been texted yet.
    """
    most = whole.campaign.limits.segments_per_message
    places = {message.id: message.position for message in whole.campaign.messages}
    for plan in whole.messages if most is not None else ():
        beyond = {size: count for size, count in plan.largest.items() if size > (most or 0)}
        if beyond:
            place = places[plan.id]
            words = _describe_long(plan, beyond, most)
            if sum(beyond.values()) == sum(plan.largest.values()):
                severity: Severity = "error"
                hint = "no plan that sends it goes through: shorten the text, or raise the limit"
            else:
                severity = "warning"
                hint = "a plan that texts them is refused: shorten the text, or raise the limit"
            yield Diagnostic(severity, "limit-segments", words, place.file, place.line, place.column, hint)


def _describe_long(plan: MessagePlan, beyond: Mapping[int, int], most: int | None) -> str:
    people = sum(beyond.values())
    who = f"{people:,} recipients" if people > 1 else "a recipient"
    return (
        f"`{plan.id}` would send {who} a text of up to {max(beyond)} segments, "
        f"and limits.segments_per_message is {most}"
    )
