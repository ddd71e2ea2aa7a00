"""The safety limits of a campaign: a plan that breaks one refuses itself, with numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.campaign.policy import Limits
    from runner.plan.model import MessagePlan


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
    most = limits.segments_per_message
    for plan in messages if most is not None else ():
        beyond = {size: count for size, count in plan.largest.items() if size > (most or 0)}
        if beyond:
            people = sum(beyond.values())
            who = f"{people:,} recipients" if people > 1 else "a recipient"
            yield (
                f"`{plan.id}` would send {who} a text of up to {max(beyond)} segments, "
                f"and limits.segments_per_message is {most}"
            )
