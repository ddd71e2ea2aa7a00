"""Guards of rollouts, held against sums of the binomial distribution, and over simulated campaigns."""

from __future__ import annotations

import random
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.plan.guards import find_enough, find_least, find_tail, is_above

RUNS = 2_000
LIMITS = (Fraction(1, 100), Fraction(2, 100), Fraction(1, 20))


def sum_tail(events: int, people: int, rate: Fraction) -> Fraction:
    """Return the chance of at least so many events, in exact numbers."""
    return sum(
        (comb(people, one) * rate**one * (1 - rate) ** (people - one) for one in range(events, people + 1)),
        Fraction(),
    )


def find_power(people: int, limit: Fraction) -> float:
    """Return the chance to notice twice the limit among some people."""
    low, high = 0, people + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_above(middle, people, limit) else (middle + 1, high)
    return find_tail(low, people, 2 * float(limit))


@given(st.integers(0, 80), st.integers(0, 80), st.integers(1, 99))
def test_chances_are_those_of_the_binomial_distribution(events: int, people: int, percent: int) -> None:
    """To twelve digits, on both sides of the mean."""
    rate = Fraction(percent, 100)
    assert find_tail(events, people, float(rate)) == pytest.approx(
        float(sum_tail(events, people, rate)), abs=1e-12
    )


@given(st.integers(1, 3000), st.sampled_from(LIMITS))
def test_a_share_at_the_limit_breaks_a_guard_in_five_of_a_hundred_rollouts_at_most(
    people: int, limit: Fraction
) -> None:
    """Whatever the number of people; one of three does not."""
    least = next(events for events in range(people + 2) if events > people or is_above(events, people, limit))
    assert find_tail(least, people, float(limit)) <= 0.05
    assert not is_above(1, 3, limit) or limit < Fraction(17, 1000)


@pytest.mark.parametrize(("limit", "people"), [(LIMITS[0], 1742), (LIMITS[1], 873), (LIMITS[2], 335)])
def test_twice_the_limit_is_noticed_among_enough_people(limit: Fraction, people: int) -> None:
    """From that number on, and not yet with one person less in the worst case: docs/statistics.md."""
    assert find_enough(limit) == people
    assert min(find_power(more, limit) for more in range(people, people + 500)) >= 0.95
    assert min(find_power(fewer, limit) for fewer in range(people - 60, people)) < 0.95
    assert is_above(find_least(limit), find_least(limit), limit)


def stop_at(draw: random.Random, rate: float, sizes: list[int], limit: Fraction) -> int | None:
    """Return the step at whose end a simulated campaign stops; None if it goes on to everybody."""
    events = texted = 0
    for number, size in enumerate(sizes):
        events += (
            draw.binomialvariate(size - texted, rate)
            if hasattr(draw, "binomialvariate")
            else sum(draw.random() < rate for _ in range(size - texted))
        )
        texted = size
        if is_above(events, texted, limit):
            return number
    return None


@pytest.mark.parametrize(("limit", "everybody"), [(LIMITS[1], 8_730), (LIMITS[2], 3_350)])
def test_simulated_campaigns_stop_when_they_should(limit: Fraction, everybody: int) -> None:
    """At the limit, at most 5 % stop at each step; at twice the limit 95 % stop within the step of 10 %.

    The steps are 1 % and 10 %: with fewer people than these the second does not hold.
    """
    sizes, draw = [everybody // 100, everybody // 10], random.Random(f"guards {limit}")  # noqa: S311  a simulation with a fixed seed
    at_limit = [stop_at(draw, float(limit), sizes, limit) for _ in range(RUNS)]
    for step in range(len(sizes)):
        # Three standard errors of 5 % among so many campaigns.
        assert at_limit.count(step) <= RUNS * (0.05 + 3 * (0.05 * 0.95 / RUNS) ** 0.5)
    beyond = [stop_at(draw, 2 * float(limit), sizes, limit) for _ in range(RUNS)]
    assert beyond.count(None) <= RUNS * 0.05
