"""Variants compared on a proportion: how far apart, how sure, and whether there are enough people to tell."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from runner.report.proportions import difference_interval, fisher_p_value

if TYPE_CHECKING:
    from collections.abc import Sequence

Verdict = Literal["too_few", "no_difference_shown", "differs"]
SIGNIFICANCE = 0.05
"""A p-value below this shows a difference."""

LEAST_PEOPLE = 30
"""Arms of fewer people are too few to tell."""

LEAST_EXPECTED = 5
"""So are arms of which one is expected to have fewer successes, or fewer failures."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arms compared, a less b.

    Attributes:
        difference: a's proportion less b's, from -1 to 1; None when an arm is empty.
        interval: low and high end of its 95 % interval (Newcombe); None when an arm is empty.
        p_value: of Fisher's exact test, two-sided; None when an arm is empty.
        verdict: what may be said. The test decides it; the interval, which is another method, may just miss
            or just hold 0 where the test says otherwise.
    """

    difference: Fraction | None
    interval: tuple[float, float] | None
    p_value: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class ArmDifference:
    """One of several arms compared with the first.

    Attributes:
        arm: its id.
        against: the first arm's id.
        difference: the arm's proportion less the first one's; None when one of them is not defined.
        interval: low and high end of its 95 % interval; None likewise.
        p_value: adjusted for the number of comparisons; None likewise.
        verdict: what may be said of it.
    """

    arm: str
    against: str
    difference: Fraction | None
    interval: tuple[float, float] | None
    p_value: float | None
    verdict: Verdict


def compare(successes_a: int, trials_a: int, successes_b: int, trials_b: int) -> Comparison:
    """Compare two arms on a proportion.

    The verdict is "too_few" when an arm has fewer than 30 people, or when some cell of the table, successes
    and failures by arm, is expected to hold fewer than 5, were the arms alike: W. G. Cochran, "Some methods
    for strengthening the common χ² tests", Biometrics 10 (1954), 417-451, has the second rule; the first is
    our own choice. The exact test does not need either, but readers do: arms so small show large differences
    alone, so "none shown" would be taken for "none there", and what they do show is exaggerated (A. Gelman
    and J. Carlin, "Beyond power calculations", Perspectives on Psychological Science 9 (2014), 641-651).
    Otherwise it is "differs" for a p-value below 0.05, and "no_difference_shown" for any other.

    Args:
        successes_a: from 0 to `trials_a`.
        trials_a: 0 or more.
        successes_b: from 0 to `trials_b`.
        trials_b: 0 or more.

    Raises:
        ValueError: when the counts are not those of proportions.
    """
    p_value = fisher_p_value(successes_a, trials_a, successes_b, trials_b)
    if not trials_a or not trials_b:
        return Comparison(difference=None, interval=None, p_value=None, verdict="too_few")
    enough = _are_enough(trials_a, trials_b, successes_a + successes_b)
    return Comparison(
        difference=Fraction(successes_a, trials_a) - Fraction(successes_b, trials_b),
        interval=difference_interval(successes_a, trials_a, successes_b, trials_b),
        p_value=p_value,
        verdict=_judge(p_value) if enough else "too_few",
    )


def compare_arms(counts: Sequence[tuple[str, int, int]]) -> tuple[ArmDifference, ...]:
    """Compare each arm on a proportion with the first: the arm's proportion less the first one's.

    The p-values are adjusted for the number of comparisons (`adjust_p_values`), and the verdicts follow from
    the adjusted ones. Arms of too few people count as comparisons, empty ones do not. Each interval is 95 %
    for itself, not adjusted.

    Args:
        counts: the name, successes and trials of each arm.

    Returns:
        One comparison for every arm but the first, in their order; empty for fewer than two arms.

    Raises:
        ValueError: when counts are not those of a proportion.
    """
    if not counts:
        return ()
    (baseline, successes_b, trials_b), *others = counts
    plain = [compare(successes, trials, successes_b, trials_b) for _, successes, trials in others]
    defined = [comparison.p_value for comparison in plain if comparison.p_value is not None]
    adjusted = iter(adjust_p_values(defined))
    return tuple(
        _describe_arm(arm, baseline, comparison, None if comparison.p_value is None else next(adjusted))
        for (arm, _, _), comparison in zip(others, plain, strict=True)
    )


def adjust_p_values(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted so that all of them together mislead no more often than one would.

    Of m p-values in ascending order, the i-th becomes the highest of (m - j + 1) × p_j for j up to i, and 1
    at most.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979), 65-70. It supposes nothing of how the tests depend on each other: ours share an arm.

    Returns:
        In the order of `p_values`; empty for none.
    """
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, (len(p_values) - rank) * p_values[index])
        adjusted[index] = min(1.0, highest)
    return tuple(adjusted)


def _are_enough(trials_a: int, trials_b: int, successes: int) -> bool:
    """Tell whether two arms are large enough, given the successes of both."""
    people = trials_a + trials_b
    fewest = min(trials_a, trials_b)
    # The rarer outcome in the smaller arm is the smallest of the four expected counts.
    rarer = min(successes, people - successes)
    return fewest >= LEAST_PEOPLE and Fraction(fewest * rarer, people) >= LEAST_EXPECTED


def _judge(p_value: float) -> Verdict:
    return "differs" if p_value < SIGNIFICANCE else "no_difference_shown"


def _describe_arm(arm: str, against: str, comparison: Comparison, p_value: float | None) -> ArmDifference:
    """Return a comparison as that of an arm, with its adjusted p-value and the verdict that follows."""
    return ArmDifference(
        arm=arm,
        against=against,
        difference=comparison.difference,
        interval=comparison.interval,
        p_value=p_value,
        verdict="too_few" if comparison.verdict == "too_few" or p_value is None else _judge(p_value),
    )
