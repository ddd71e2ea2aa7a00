"""Intervals and tests by other ways than the runner's: by statsmodels, by scipy, and by their definitions."""

from __future__ import annotations

from math import exp, sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy import integrate, optimize, stats
from statsmodels.stats import proportion

if TYPE_CHECKING:
    from collections.abc import Sequence

Interval = tuple[float, float]

_MIXED = 1 / 16
"""The variance of the effects that a test for every look mixes over (docs/statistics.md)."""


def wilson(successes: int, trials: int) -> Interval:
    """Return the 95 % interval of a proportion (Wilson 1927)."""
    low, high = proportion.proportion_confint(successes, trials, alpha=0.05, method="wilson")
    return float(low), float(high)


def score_points(promoters: int, detractors: int, counted: int) -> Interval | None:
    """Return the interval of an NPS: that of the mean of +100, 0 and -100, with three answers added (Rocks)."""
    if counted < 10:
        return None
    values = np.array([100.0, 0.0, -100.0])
    weights = np.array([promoters + 0.75, counted - promoters - detractors + 1.5, detractors + 0.75])
    mean = np.average(values, weights=weights)
    error = sqrt(np.average((values - mean) ** 2, weights=weights) / (counted + 3))
    low, high = stats.norm.interval(0.95, mean, error)
    return max(-100.0, float(low)), min(100.0, float(high))


def mean_of(values: Sequence[float]) -> Interval | None:
    """Return the interval of a mean: where Hall's polynomial of the t statistic takes Student's quantiles."""
    if len(values) < 10 or len(set(values)) == 1:
        return None
    array = np.array(values)
    error = float(stats.sem(array))
    skew = float(stats.skew(array)) / sqrt(len(array))

    def transform(t: float) -> float:
        return t + skew * t**2 / 3 + skew**2 * t**3 / 27 + skew / 6

    quantile = float(stats.t.ppf(0.975, len(array) - 1))
    ends = [optimize.brentq(lambda t, q=q: transform(t) - q, -1e6, 1e6) for q in (quantile, -quantile)]
    low, high = (float(array.mean()) - end * error for end in ends)
    return low, high


def newcombe(a: tuple[int, int], b: tuple[int, int], alpha: float) -> Interval:
    """Return the interval of a difference of two proportions, a less b (Newcombe 1998, method 10)."""
    low, high = proportion.confint_proportions_2indep(*a, *b, method="newcomb", compare="diff", alpha=alpha)
    return float(low), float(high)


def fisher(a: tuple[int, int], b: tuple[int, int]) -> float:
    """Return the two-sided p-value of Fisher's exact test; each pair is successes and trials."""
    table = [[a[0], a[1] - a[0]], [b[0], b[1] - b[0]]]
    return float(stats.fisher_exact(table).pvalue)


def always_valid(a: tuple[int, int], b: tuple[int, int], error: float) -> tuple[float, Interval]:
    """Return the p-value and the interval that hold at every look; each pair is successes and trials.

    The evidence is integrated over the effects that are mixed, and the interval reaches as far as evidence of
    1/error does.
    """
    people, successes = a[1] + b[1], a[0] + b[0]
    if not 0 < successes < people:
        return 1.0, (-1.0, 1.0)
    information = a[1] * b[1] / people**2 * successes * people / (people - successes)
    spread = stats.hypergeom(people, successes, a[1])
    z = float((a[0] - spread.mean()) / spread.std())

    def weigh(distance: float) -> float:
        martingale = distance * sqrt(information)

        def density(effect: float) -> float:
            evidence = exp(effect * martingale - effect**2 * information / 2)
            return float(evidence * stats.norm.pdf(effect, 0, sqrt(_MIXED)))

        peak = martingale / (information + 1 / _MIXED)
        width = 12 / sqrt(information + 1 / _MIXED)
        return float(integrate.quad(density, peak - width, peak + width, epsabs=0, epsrel=1e-10)[0])

    reach = optimize.brentq(lambda distance: weigh(distance) - 1 / error, 0, 15)
    alpha = 2 * float(stats.norm.sf(reach))
    return min(1.0, 1 / weigh(abs(z))), newcombe(a, b, alpha)
