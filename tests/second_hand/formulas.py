"""Intervals and tests by other ways than the runner's: by statsmodels, by scipy, and by their definitions."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import integrate, optimize, stats
from statsmodels.stats import proportion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Interval = tuple[float, float]

_MIXED = 1 / 16
"""The variance of the effects that a test for every look mixes over (docs/statistics.md)."""


def wilson(successes: int, trials: int, alpha: float = 0.05) -> Interval:
    """Return the interval of a proportion, of 95 % if no level is given (Wilson 1927)."""
    low, high = proportion.proportion_confint(successes, trials, alpha=alpha, method="wilson")
    return float(low), float(high)


def _weigh_points(promoters: int, detractors: int, counted: int) -> tuple[float, float]:
    values = np.array([100.0, 0.0, -100.0])
    weights = np.array([promoters + 0.75, counted - promoters - detractors + 1.5, detractors + 0.75])
    mean = np.average(values, weights=weights)
    return mean, sqrt(np.average((values - mean) ** 2, weights=weights) / (counted + 3))


def error_of_points(promoters: int, detractors: int, counted: int) -> float | None:
    """Return the standard error of an NPS, with three answers added."""
    return None if counted < 10 else _weigh_points(promoters, detractors, counted)[1]


def score_points(promoters: int, detractors: int, counted: int, alpha: float = 0.05) -> Interval | None:
    """Return the interval of an NPS: that of the mean of +100, 0 and -100, with three answers added (Rocks)."""
    if counted < 10:
        return None
    low, high = stats.norm.interval(1 - alpha, *_weigh_points(promoters, detractors, counted))
    return max(-100.0, float(low)), min(100.0, float(high))


def mean_of(values: Sequence[float], alpha: float = 0.05) -> Interval | None:
    """Return the interval of a mean: where Hall's polynomial of the t statistic takes Student's quantiles."""
    if len(values) < 10 or len(set(values)) == 1:
        return None
    array = np.array(values)
    error = float(stats.sem(array))
    skew = float(stats.skew(array)) / sqrt(len(array))

    def transform(t: float) -> float:
        return t + skew * t**2 / 3 + skew**2 * t**3 / 27 + skew / 6

    quantile = float(stats.t.ppf(1 - alpha / 2, len(array) - 1))
    ends = [optimize.brentq(lambda t, q=q: transform(t) - q, -1e6, 1e6) for q in (quantile, -quantile)]
    low, high = (float(array.mean()) - end * error for end in ends)
    return low, high


@dataclass
class Share:
    """A proportion."""

    successes: int
    trials: int


@dataclass
class Mean:
    """A mean; `find_interval` gives its interval of a level."""

    value: float | None
    error: float | None
    trials: int
    find_interval: Callable[[float], Interval | None]


@dataclass
class Pair:
    """Two of either compared, with the level of the intervals that the difference's is made of."""

    difference: float | None
    interval: Interval | None
    p_value: float | None
    alpha: float
    is_enough: bool


def compare(a: Any, b: Any, error: float, is_sequential: bool) -> Pair:  # noqa: FBT001  what is compared
    """Return the difference of a less b, once or at every look, with an interval that misses so often."""
    if isinstance(a, Share):
        rate = (a.successes + b.successes) / (a.trials + b.trials)
        expected = [one.trials * share for one in (a, b) for share in (rate, 1 - rate)]
        is_enough = min(a.trials, b.trials) >= 30 and min(expected) >= 5
        difference = a.successes / a.trials - b.successes / b.trials
        pairs = (a.successes, a.trials), (b.successes, b.trials)
        if not is_sequential:
            return Pair(difference, newcombe(*pairs, error), fisher(*pairs), error, is_enough)
        if not 0 < rate < 1:
            return Pair(difference, (-1.0, 1.0), 1.0, 0.0, is_enough)
        people, successes = a.trials + b.trials, a.successes + b.successes
        information = a.trials * b.trials / people**2 * successes * people / (people - successes)
        spread = stats.hypergeom(people, successes, a.trials)
        p_value, alpha = _mix(float((a.successes - spread.mean()) / spread.std()), information, error)
        return Pair(difference, newcombe(*pairs, alpha), p_value, alpha, is_enough)
    is_enough = min(a.trials, b.trials) >= 30
    information = a.trials * b.trials / (a.trials + b.trials)
    _, alpha = _mix(0, information, error) if is_sequential else (1, error)
    intervals = a.find_interval(alpha), b.find_interval(alpha)
    own_p: float | None = None
    if a.error is not None and b.error is not None:
        z = (a.value - b.value) / sqrt(a.error**2 + b.error**2)
        own_p = _mix(z, information, error)[0] if is_sequential else 2 * float(stats.norm.sf(abs(z)))
    interval = None if None in intervals else _subtract(a.value, intervals[0], b.value, intervals[1])
    return Pair(a.value - b.value, interval, own_p, alpha, is_enough)


def agree(p_value: float | None, interval: Interval | None) -> bool:
    """Return whether an interval leaves zero out just where a test shows a difference."""
    if p_value is None or interval is None:
        return True
    return (interval[0] <= 0 <= interval[1]) is not (p_value < 0.05)


def _subtract(a: float, own: Any, b: float, other: Any) -> Interval:
    difference = a - b
    low = difference - sqrt((a - own[0]) ** 2 + (other[1] - b) ** 2)
    return low, difference + sqrt((own[1] - a) ** 2 + (b - other[0]) ** 2)


def newcombe(a: tuple[int, int], b: tuple[int, int], alpha: float) -> Interval:
    """Return the interval of a difference of two proportions, a less b (Newcombe 1998, method 10)."""
    low, high = proportion.confint_proportions_2indep(*a, *b, method="newcomb", compare="diff", alpha=alpha)
    return float(low), float(high)


def fisher(a: tuple[int, int], b: tuple[int, int]) -> float:
    """Return the two-sided p-value of Fisher's exact test; each pair is successes and trials."""
    table = [[a[0], a[1] - a[0]], [b[0], b[1] - b[0]]]
    return float(stats.fisher_exact(table).pvalue)


def _mix(z: float, information: float, error: float) -> tuple[float, float]:
    """Return the p-value that holds at every look, and the level of an interval that does so, too.

    The evidence is integrated over the effects that are mixed, and the interval reaches as far as evidence of
    1/error does.
    """

    def weigh(distance: float) -> float:
        martingale = distance * sqrt(information)

        def density(effect: float) -> float:
            evidence = exp(effect * martingale - effect**2 * information / 2)
            return float(evidence * stats.norm.pdf(effect, 0, sqrt(_MIXED)))

        peak = martingale / (information + 1 / _MIXED)
        width = 12 / sqrt(information + 1 / _MIXED)
        return float(integrate.quad(density, peak - width, peak + width, epsabs=0, epsrel=1e-10)[0])

    reach = optimize.brentq(lambda distance: weigh(distance) - 1 / error, 0, 15)
    return min(1.0, 1 / weigh(abs(z))), 2 * float(stats.norm.sf(reach))
