"""Compares two measurements on machines that change their pace."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def compare(ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> tuple[float, float, float]:
    """Return the ratio of two measurements, and the median of each, taken in turn.

    The ratio is the median of the pairs' ratios: a machine that slows down for a while slows both of a pair,
    and the few pairs in which it changes pace don't count. Every second pair begins with the other side, so
    that a machine that slows down steadily favours neither.

    Args:
        ours: measures our side.
        theirs: measures the other one.
        pairs: how often.
    """
    taken = []
    for number in range(pairs):
        if number % 2:
            other, own = theirs(), ours()
        else:
            own, other = ours(), theirs()
        taken.append((own, other))
    ratio = statistics.median(own / other for own, other in taken)
    return ratio, statistics.median(own for own, _ in taken), statistics.median(other for _, other in taken)
