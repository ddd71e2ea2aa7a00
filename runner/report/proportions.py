"""Two proportions side by side, as pure functions: the interval of their difference, and an exact test."""

from __future__ import annotations

from itertools import chain
from math import fsum, hypot
from typing import TYPE_CHECKING

from runner.report.scores import Z_95, wilson_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.report.rounding import Interval

# R's fisher.test has the same: rounding must not tell apart tables that are equally likely.
_TIE = 1 + 1e-7
_NEGLIGIBLE = 1e-300


def difference_interval(
    successes_a: int, trials_a: int, successes_b: int, trials_b: int, z: float = Z_95
) -> tuple[float, float]:
    """Return the interval of a difference of two independent proportions, a less b; of 95 % unless `z` says.

    It is `subtract_interval` of the two Wilson intervals: R. G. Newcombe, "Interval estimation for the
    difference between independent proportions: comparison of eleven methods", Statistics in Medicine 17
    (1998), 873-890, method 10. Unlike the textbook's interval it stays within -1 and 1, and keeps its promise
    for small samples and rates near the ends.

    Args:
        successes_a: from 0 to `trials_a`.
        trials_a: at least 1.
        successes_b: from 0 to `trials_b`.
        trials_b: at least 1.
        z: how many standard errors the interval reaches.

    Returns:
        The low and the high end, from -1 to 1.

    Raises:
        ValueError: when the counts are not those of proportions.
    """
    interval_a = wilson_interval(successes_a, trials_a, z)
    interval_b = wilson_interval(successes_b, trials_b, z)
    rates = successes_a / trials_a, successes_b / trials_b
    low, high = subtract_interval(rates[0], interval_a, rates[1], interval_b)
    return max(-1.0, low), min(1.0, high)


def subtract_interval(
    value_a: float, interval_a: Interval, value_b: float, interval_b: Interval
) -> tuple[float, float]:
    """Return the interval of a difference of two independent estimates, a less b, from the interval of each.

    With the estimates p, q and their intervals (l, u) and (m, v), the ends are
    p - q - √((p - l)² + (v - q)²) and p - q + √((u - p)² + (q - m)²). Both intervals must be of one level,
    which is that of the result.

    Source: G. Y. Zou, A. Donner, "Construction of confidence limits about effect measures: a general
    approach", Statistics in Medicine 27 (2008), 1693-1702 (MOVER), which generalises Newcombe's method 10.
    """
    (low_a, high_a), (low_b, high_b) = interval_a, interval_b
    difference = value_a - value_b
    low = difference - hypot(value_a - low_a, high_b - value_b)
    high = difference + hypot(high_a - value_a, value_b - low_b)
    return low, high


def fisher_p_value(successes_a: int, trials_a: int, successes_b: int, trials_b: int) -> float:
    """Return the two-sided p-value of Fisher's exact test that two proportions are the same.

    Of all tables with the same totals, whose probabilities are hypergeometric, it is the share of those that
    are no more likely than the one observed.

    Source: R. A. Fisher, "The Design of Experiments" (1935), chapter II; A. Agresti, "A survey of exact
    inference for contingency tables", Statistical Science 7 (1992), 131-153, section 2.1, for two sides. It
    holds for counts of any size, so no rule has to say from where an approximation would do.

    The tables are weighed from the likeliest outwards, each by its exact ratio to the one before, until they
    weigh nothing. So there are no factorials, rounding errors stay below 1e-11 of the result, and two arms of
    5,000,000 take some 60,000 steps.

    Args:
        successes_a: from 0 to `trials_a`.
        trials_a: 0 or more.
        successes_b: from 0 to `trials_b`.
        trials_b: 0 or more.

    Returns:
        From 0 to 1; 1 when one arm is empty, or all succeeded, or none did; 0 for what is below 1e-300.

    Raises:
        ValueError: when the counts are not those of proportions.
    """
    for successes, trials in ((successes_a, trials_a), (successes_b, trials_b)):
        if not 0 <= successes <= trials:
            raise ValueError(f"{successes} of {trials} is no proportion")
    weights = dict(_weigh_tables(trials_a, trials_b, successes_a + successes_b))
    bar = weights.get(successes_a, 0.0) * _TIE
    return fsum(weight for weight in weights.values() if weight <= bar) / fsum(weights.values())


def _weigh_tables(trials_a: int, trials_b: int, successes: int) -> Iterator[tuple[int, float]]:
    """Yield each count of a's successes that is not too unlikely, with its weight; the likeliest weighs 1."""
    likeliest = (trials_a + 1) * (successes + 1) // (trials_a + trials_b + 2)
    upwards = _walk(likeliest, trials_a, trials_b, successes)
    # Down for a's successes is up for b's.
    downwards = _walk(successes - likeliest, trials_b, trials_a, successes)
    mirrored = ((successes - count, weight) for count, weight in downwards)
    return chain([(likeliest, 1.0)], upwards, mirrored)


def _walk(count: int, trials: int, other_trials: int, successes: int) -> Iterator[tuple[int, float]]:
    """Yield the counts above one, with their weights relative to it, as long as they weigh anything."""
    weight = 1.0
    other_failures = other_trials - successes + count
    while count < min(trials, successes) and weight > _NEGLIGIBLE:
        # C(t, k + 1) C(o, s - k - 1) / (C(t, k) C(o, s - k)): integers to the last step, rounded once.
        rise = (trials - count) * (successes - count)
        count += 1
        other_failures += 1
        weight *= rise / (count * other_failures)
        yield count, weight
