"""The smallest difference of responses that an experiment can be expected to show."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from itertools import combinations
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from runner.plan.documents import FindableDifference

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.plan.model import CampaignPlan, MessagePlan

POWER = 0.8
BASELINE = 0.5
"""The response that is assumed: near this one a difference takes the most people to show."""
_PLACES = 10_000
"""Differences are looked for in steps of one of these parts."""


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
