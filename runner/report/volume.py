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
        steps: of the funnel, by question; None where not all answers were read.
        price: None when the service was never asked.
    """
    share = None if price is None else divide(totals.renders, price.renders_max)
    price_usd = None if price is None else _read_price(price.price_usd)
    return Volume(
        renders=totals.renders,
        forecast_min=sum(sent.get(way.arm, 0) * way.renders_min for way in outline.all_ways),
        forecast_max=sum(sent.get(way.arm, 0) * way.renders_max for way in outline.all_ways),
        asked_again=_count_asked_again(outline, totals, sent, completed, steps),
        plan_share=share,
        cost_usd=None if share is None or price_usd is None else share * price_usd,
    )


def _count_asked_again(
    outline: MessageOutline,
    totals: MessageTotals,
    sent: Mapping[str, int],
    completed: Mapping[str, int],
    steps: Sequence[FunnelStep] | None,
) -> int | None:
    """Return the renders that nothing but an invalid answer explains; None if that cannot be told."""
    introduces = {way.introduces for way in outline.all_ways}
    renders, queued = totals.renders, totals.queued
    if steps is None or totals.reconciled_at is None or renders is None or queued is None:
        return None
    if not outline.questions or (len(introduces) > 1 and queued):
        return None
    waiting = queued if introduces == {True} else 0
    introductions = sum(sent.get(way.arm, 0) for way in outline.all_ways if way.introduces) - waiting
    conclusions = sum(completed.get(way.arm, 0) for way in outline.all_ways if way.concludes)
    again = renders - introductions - conclusions - sum(step.asked for step in steps)
    return again if again >= 0 else None


def _read_price(text: str | None) -> Fraction | None:
    price = None if text is None else read_number(text)
    return None if price is None or price < 0 else price
