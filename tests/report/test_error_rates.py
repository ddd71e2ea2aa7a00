"""Intervals hold the truth, and verdicts find nothing that is not there, as often as they say: a short check.

Each draws the same surveys every time. `tests/benchmarks/error_rates.py` draws more of more kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.error_rates import (
    DAILY,
    DELIGHTED,
    SATISFIED,
    VISITS,
    Trial,
    call_different,
    cover_comparisons,
    cover_mean,
    cover_nps,
    measure,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

LIKE = Trial((400, 400), (0.3, 0.3), DAILY)


@pytest.mark.parametrize("population", [SATISFIED, DELIGHTED, VISITS])
@pytest.mark.parametrize("size", [10, 20, 50])
def test_intervals_of_means_hold_on_skewed_scales(
    population: tuple[Sequence[int], Sequence[float]], size: int
) -> None:
    """Of few answers near one end of the scale, 93 of 100 intervals and more hold the true mean."""
    assert measure(lambda random: cover_mean(random, population, size), 1, 1000) >= 0.93


@pytest.mark.parametrize("size", [10, 400])
def test_intervals_of_net_promoter_scores_hold(size: int) -> None:
    """About 95 of 100 intervals hold the true score."""
    assert 0.93 <= measure(lambda random: cover_nps(random, (20, 30, 50), size), 1, 1000) <= 0.975


def test_looking_again_and_again_finds_nothing_that_is_not_there() -> None:
    """Over 14 reports, fewer than 5 of 100 experiments without a difference are called different."""
    assert measure(lambda random: call_different(random, LIKE), 1, 400) <= 0.05


@pytest.mark.slow
def test_a_test_for_one_look_is_not_for_fourteen() -> None:
    """A test for one look misleads at 14 looks three times as often as it says: the bound above can be missed."""
    trial = Trial(LIKE.people, LIKE.rates, LIKE.looks, is_sequential=False)
    assert measure(lambda random: call_different(random, trial), 1, 400) > 0.1


def test_what_differs_much_is_found_at_every_look() -> None:
    """A test for every look finds a difference of fifteen points between arms of 400 nearly always."""
    trial = Trial((400, 400), (0.3, 0.45), DAILY)
    assert measure(lambda random: call_different(random, trial), 1, 200) >= 0.9


@pytest.mark.parametrize("is_sequential", [False, True])
def test_intervals_of_several_differences_hold_together(*, is_sequential: bool) -> None:
    """Of experiments of four arms that are alike, 95 of 100 have no interval that misses."""
    looks = DAILY[::4] if is_sequential else (99,)
    trial = Trial((300,) * 4, (0.3,) * 4, looks, is_sequential=is_sequential)
    assert measure(lambda random: cover_comparisons(random, trial), 1, 300) >= 0.93
