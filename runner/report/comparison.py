"""Variants compared on a proportion: how far apart, how sure, and whether there are enough people to tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from runner.report.proportions import difference_interval, fisher_p_value
from runner.report.sequential import always_valid_p_value, always_valid_reach

if TYPE_CHECKING:
    from collections.abc import Sequence

Verdict = Literal["too_early", "too_few", "no_difference_shown", "differs"]
SIGNIFICANCE = 0.05
"""A p-value below this shows a difference."""

LEAST_PEOPLE = 30
"""Arms of fewer people are too few to tell."""

LEAST_EXPECTED = 5
"""So are arms of which one is expected to have fewer successes, or fewer failures."""


@dataclass(frozen=True, slots=True)
class ArmDifference:
    """One of several arms compared with the first.

    Attributes:
        arm: its id.
        against: the first arm's id.
        difference: the arm's proportion less the first one's; None when one of them is not defined.
        interval: low and high end of its interval, which together with those of all other arms holds in 95 of
            100 experiments; None likewise, and before the analysis is due.
        p_value: adjusted for the number of comparisons, as the interval is; None likewise.
        verdict: what may be said of it. The test decides it; the interval, which is another method, may just
            miss or just hold 0 where the test says otherwise.
    """

    arm: str
    against: str
    difference: Fraction | None
    interval: tuple[float, float] | None
    p_value: float | None
    verdict: Verdict


def compare_arms(
    counts: Sequence[tuple[str, int, int]], *, at_every_look: bool = False
) -> tuple[ArmDifference, ...]:
    """Compare each arm on a proportion with the first: the arm's proportion less the first one's.

    The p-value is that of Fisher's exact test, and the interval Newcombe's; at every look they are the
    always-valid p-value, and Newcombe's interval with its reach (`runner.report.sequential`). With m
    comparisons p-values are multiplied by m, and each interval misses in 5/m of 100 experiments at most:
    O. J. Dunn, "Multiple comparisons among means", Journal of the American Statistical Association 56 (1961),
    52-64, after Bonferroni. Holm's method would find somewhat more, but has no intervals that say the same.
    Arms of too few people count as comparisons, empty ones do not.

    The verdict is "too_few" when an arm has fewer than 30 people, or when some cell of the table, successes
    and failures by arm, is expected to hold fewer than 5, were the arms alike: W. G. Cochran, "Some methods
    for strengthening the common χ² tests", Biometrics 10 (1954), 417-451, has the second rule; the first is
    our own choice. The exact test does not need either, but readers do: arms so small show large differences
    alone, so "none shown" would be taken for "none there", and what they do show is exaggerated (A. Gelman
    and J. Carlin, "Beyond power calculations", Perspectives on Psychological Science 9 (2014), 641-651).
    Otherwise it is "differs" for a p-value below 0.05, and "no_difference_shown" for any other.

    Args:
        counts: the name, successes and trials of each arm.
        at_every_look: whether the counts are looked at again and again while they grow.

    Returns:
        One comparison for every arm but the first, in their order; empty for fewer than two arms.

    Raises:
        ValueError: when counts are not those of a proportion.
    """
    if not counts:
        return ()
    baseline, *others = counts
    comparisons = sum(bool(trials and baseline[2]) for _, _, trials in others)
    return tuple(_compare(arm, baseline, comparisons, at_every_look=at_every_look) for arm in others)


def postpone_comparison(counts: Sequence[tuple[str, int, int]]) -> tuple[ArmDifference, ...]:
    """Return how far each arm is from the first before anything may be said of it.

    Args:
        counts: as for `compare_arms`.
    """
    return tuple(
        replace(one, interval=None, p_value=None, verdict="too_early") for one in compare_arms(counts)
    )


def _compare(
    arm: tuple[str, int, int], baseline: tuple[str, int, int], comparisons: int, *, at_every_look: bool
) -> ArmDifference:
    (name_a, successes_a, trials_a), (name_b, successes_b, trials_b) = arm, baseline
    table = successes_a, trials_a, successes_b, trials_b
    if not trials_a or not trials_b:
        return ArmDifference(name_a, name_b, None, None, None, "too_few")
    successes, error = successes_a + successes_b, SIGNIFICANCE / comparisons
    if at_every_look:
        plain = always_valid_p_value(*table)
        reach = always_valid_reach(trials_a, trials_b, successes, error)
    else:
        plain = fisher_p_value(*table)
        reach = NormalDist().inv_cdf(1 - error / 2)
    p_value = min(1.0, comparisons * plain)
    verdict: Verdict = "differs" if p_value < SIGNIFICANCE else "no_difference_shown"
    return ArmDifference(
        arm=name_a,
        against=name_b,
        difference=Fraction(successes_a, trials_a) - Fraction(successes_b, trials_b),
        interval=difference_interval(*table, reach) if isfinite(reach) else (-1.0, 1.0),
        p_value=p_value,
        verdict=verdict if _are_enough(trials_a, trials_b, successes) else "too_few",
    )


def _are_enough(trials_a: int, trials_b: int, successes: int) -> bool:
    """Tell whether two arms are large enough, given the successes of both."""
    people = trials_a + trials_b
    fewest = min(trials_a, trials_b)
    # The rarer outcome in the smaller arm is the smallest of the four expected counts.
    rarer = min(successes, people - successes)
    return fewest >= LEAST_PEOPLE and Fraction(fewest * rarer, people) >= LEAST_EXPECTED
