"""Renders and what they cost, against what the sends were expected to take. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.report.answers import read_number
from runner.report.scores import divide
from runner.report.turnout import Volume

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from runner.ledger.report_model import MessageTotals, ServicePlan
    from runner.report.facts import MessageOutline
    from runner.report.funnel import FunnelStep


def measure_volume(
    outline: MessageOutline,
    totals: MessageTotals,
    sent: Mapping[str, int],
    completed: Mapping[str, int],
    steps: Sequence[FunnelStep] | None,
    price: ServicePlan | None,
    blocked: int = 0,
) -> Volume:
    """Return a message's renders, forecast and cost.

    Introduction, each question asked or asked again, and conclusion are one render each (wire facts,
    "Terms"). What the service charges is its plan's price for the plan's renders (reference, 2.2), so a
    render costs that share of it.

    Args:
        outline: the message.
        totals: the service's counts.
        sent: recipients by arm.
        completed: participants who reached the end, by arm.
        steps: of the funnel, by question; None where they do not tell what was rendered.
        price: None when the service was never asked.
        blocked: sessions that an earlier opt-out kept from beginning.
    """
    share = None if price is None else divide(totals.renders, price.renders_max)
    price_usd = None if price is None else _read_price(price.price_usd)
    return Volume(
        renders=totals.renders,
        forecast_min=sum(sent.get(way.arm, 0) * way.renders_min for way in outline.all_ways),
        forecast_max=sum(sent.get(way.arm, 0) * way.renders_max for way in outline.all_ways),
        asked_again=_count_asked_again(outline, totals, sent, completed, steps, blocked),
        plan_share=share,
        cost_usd=None if share is None or price_usd is None else share * price_usd,
    )


def _count_asked_again(
    outline: MessageOutline,
    totals: MessageTotals,
    sent: Mapping[str, int],
    completed: Mapping[str, int],
    steps: Sequence[FunnelStep] | None,
    blocked: int,
) -> int | None:
    """Return the renders that nothing but an invalid answer explains; None if that cannot be told."""
    beginnings = {(way.introduces, way.questions[0].tag) for way in outline.all_ways if way.questions}
    renders, queued = totals.renders, totals.queued
    if steps is None or totals.reconciled_at is None or renders is None or queued is None:
        return None
    unreached = queued + blocked
    if not outline.questions or (len(beginnings) > 1 and unreached):
        return None
    introductions = sum(sent.get(way.arm, 0) for way in outline.all_ways if way.introduces)
    if all(way.introduces for way in outline.all_ways):
        introductions -= unreached
    conclusions = sum(completed.get(way.arm, 0) for way in outline.all_ways if way.concludes)
    again = renders - introductions - conclusions - sum(step.asked for step in steps)
    return again if again >= 0 else None


def _read_price(text: str | None) -> Fraction | None:
    # An answer may have a decimal comma; a price is decimal text.
    price = None if text is None or "," in text else read_number(text)
    return None if price is None or price < 0 else price
