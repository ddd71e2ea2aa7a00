"""How long people took, from a histogram of whole seconds: exact quantiles, and durations in words."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

from runner.report.rounding import round_exactly

if TYPE_CHECKING:
    from collections.abc import Mapping

_MINUTE_S = 60
_HOUR_S = 60 * _MINUTE_S
_DAY_S = 24 * _HOUR_S
_UNITS = ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min"), (1, "s"))


@dataclass(frozen=True, slots=True)
class TimeSummary:
    """The middle and the slow end of some times.

    Attributes:
        counted: times counted; None where not all answers were read.
        median_s: what half of them stay within, in seconds; None when nothing was counted.
        p90_s: what nine of ten stay within, in seconds; None when nothing was counted.
    """

    counted: int | None
    median_s: Fraction | None
    p90_s: Fraction | None


UNKNOWN_TIMES = TimeSummary(None, None, None)
"""Of answers that were not all read."""


def quantile(histogram: Mapping[int, int], share: Fraction) -> Fraction | None:
    """Return the value that a share of all values stays within.

    Of n values in ascending order, x₀ to xₙ₋₁, it is the one at the position h = (n - 1) × share, on the line
    between the two values next to it: x⌊h⌋ + (h - ⌊h⌋)(x⌊h⌋₊₁ - x⌊h⌋).

    Source: R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages", The American Statistician 50
    (1996), 361-365, definition 7: the one of numpy, R and spreadsheets unless they are told otherwise, and
    of DuckDB's quantile_cont.

    Args:
        histogram: how often each value occurred, 0 or more times.
        share: from 0, the lowest value, to 1, the highest.

    Returns:
        None when nothing occurred.

    Raises:
        ValueError: when the share is not one.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"{share} is not a share")
    values = sorted(histogram)
    passed = list(accumulate(histogram[value] for value in values))
    if not passed or not passed[-1]:
        return None
    position = (passed[-1] - 1) * share
    rank = int(position)
    below = values[bisect_right(passed, rank)]
    above = values[bisect_right(passed, min(rank + 1, passed[-1] - 1))]
    return below + (position - rank) * (above - below)


def summarise_times(histogram: Mapping[int, int]) -> TimeSummary:
    """Return the median and the ninth decile of times (`quantile`).

    Args:
        histogram: how often each time occurred, in whole seconds.
    """
    return TimeSummary(
        counted=sum(histogram.values()),
        median_s=quantile(histogram, Fraction(1, 2)),
        p90_s=quantile(histogram, Fraction(9, 10)),
    )


def format_duration(seconds: Fraction) -> str:
    """Return a duration in its two largest units: `42 s`, `3 min 20 s`, `5 h 10 min`, `2 d 3 h`.

    The smaller unit is rounded, half away from zero, and left out when it comes to nothing: `3 min`, `1 d`.
    A duration of less than half a second is `0 s`. One below zero, of clocks that disagree, has a minus.
    """
    whole = _round_smaller_unit(abs(seconds))
    parts = []
    rest = whole
    for unit_s, sign in _UNITS:
        count, rest = divmod(rest, unit_s)
        if count:
            parts.append(f"{count:,} {sign}")
    minus = "−" if seconds < 0 and whole else ""
    return minus + (" ".join(parts) or "0 s")


def _round_smaller_unit(seconds: Fraction) -> int:
    """Return whole seconds that come to two units at most."""
    # What is rounded chooses the units, not what is not: 3,599.6 s is an hour.
    for step_s, limit_s in ((1, _HOUR_S), (_MINUTE_S, _DAY_S)):
        rounded = _round_to(seconds, step_s)
        if rounded < limit_s:
            return rounded
    return _round_to(seconds, _HOUR_S)


def _round_to(seconds: Fraction, step_s: int) -> int:
    return int(round_exactly(seconds / step_s, 0)) * step_s
