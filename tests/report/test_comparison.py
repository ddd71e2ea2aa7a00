"""What may be said of variants: verdicts, and p-values of several comparisons at once."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.report.comparison import (
    Sample,
    always_valid_reach,
    compare_arms,
    find_reach,
    fisher_p_value,
    share,
    subtract_interval,
)
from runner.report.comparison_model import PairComparison
from runner.report.scores import Z_95, wilson_interval

if TYPE_CHECKING:
    from collections.abc import Sequence


def compare_shares(
    arms: Sequence[tuple[str, int, int]], *, at_every_look: bool = False
) -> tuple[PairComparison, ...]:
    return compare_arms("response", [share(*arm) for arm in arms], at_every_look=at_every_look)


def compare(*counts: int, at_every_look: bool = False) -> PairComparison:
    """Compare two arms."""
    successes_a, trials_a, successes_b, trials_b = counts
    arms = [("old", successes_b, trials_b), ("new", successes_a, trials_a)]
    (difference,) = compare_shares(arms, at_every_look=at_every_look)
    return difference


def newcombe(a: int, of_a: int, b: int, of_b: int, z: float = Z_95) -> tuple[float, float]:
    """Return the interval of a difference of two proportions."""
    return subtract_interval(a / of_a, wilson_interval(a, of_a, z), b / of_b, wilson_interval(b, of_b, z))


def find_pair_reach(
    a: tuple[int, int],
    b: tuple[int, int],
    at_every_look: bool,  # noqa: FBT001  a parameter of the test
) -> float:
    """Return the reach of an interval of one of three pairs."""
    if at_every_look:
        return always_valid_reach(a[1], b[1], a[0] + b[0], 0.05 / 3)
    return NormalDist().inv_cdf(1 - 0.05 / 3 / 2)


def mean(name: str, value: int, error: float, counted: int) -> Sample:
    """Return the sample of a score with a symmetric interval."""
    return Sample(
        name, counted, Fraction(value), lambda z: (value - z * error, value + z * error), standard_error=error
    )


def test_a_comparison_says_how_far_and_how_sure() -> None:
    """A difference comes with its interval, its p-value and what may be said of it."""
    assert compare(56, 70, 48, 80) == PairComparison(
        "response",
        "new",
        "old",
        difference=Fraction(1, 5),
        interval=newcombe(56, 70, 48, 80),
        p_value=fisher_p_value(56, 70, 48, 80),
        verdict="differs",
    )


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ((56, 70, 48, 80), "differs"),
        ((50, 70, 48, 80), "no_difference_shown"),
        # 30 people are enough, 29 are not, however far apart.
        ((30, 30, 15, 30), "differs"),
        ((29, 29, 15, 30), "too_few"),
        ((30, 30, 0, 29), "too_few"),
        # Ten successes in two equal arms: five are expected in each.
        ((10, 1000, 0, 1000), "differs"),
        ((9, 1000, 0, 1000), "too_few"),
        ((1000, 1000, 990, 1000), "differs"),
        ((1000, 1000, 991, 1000), "too_few"),
        # Of 55 successes, 100 people of 1,100 are expected to have five.
        ((8, 100, 47, 1000), "no_difference_shown"),
        ((8, 100, 46, 1000), "too_few"),
        ((0, 100, 0, 100), "too_few"),
    ],
)
def test_few_people_tell_nothing(counts: tuple[int, int, int, int], verdict: str) -> None:
    """Below 30 people an arm, or five expected in a cell, no verdict is passed; from there on one is."""
    assert compare(*counts).verdict == verdict


@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (0, 0, 48, 80), (48, 80, 0, 0)])
def test_an_empty_arm_has_no_difference(counts: tuple[int, int, int, int]) -> None:
    """With nobody in an arm nothing is defined, and the verdict is that there are too few."""
    assert compare(*counts) == PairComparison("response", "new", "old", None, None, None, "too_few")


def test_a_comparison_refuses_what_is_no_proportion() -> None:
    """Counts that are no proportion are an error."""
    with pytest.raises(ValueError, match="3 of 2 is no proportion"):
        compare(1, 2, 3, 2)


def test_every_pair_of_arms_is_compared() -> None:
    """Each arm is told against those before it, in order; its p-value pays for the number of pairs."""
    pairs = compare_shares([("old", 400, 1000), ("warm", 445, 1000), ("short", 480, 1000), ("empty", 0, 0)])
    assert [(one.arm, one.against, one.difference) for one in pairs] == [
        ("warm", "old", Fraction(45, 1000)),
        ("short", "old", Fraction(80, 1000)),
        ("short", "warm", Fraction(35, 1000)),
        ("empty", "old", None),
        ("empty", "warm", None),
        ("empty", "short", None),
    ]
    warm, short, *_, empty = pairs
    assert warm.p_value == pytest.approx(3 * fisher_p_value(445, 1000, 400, 1000))
    assert short.p_value == pytest.approx(3 * fisher_p_value(480, 1000, 400, 1000))
    assert short.interval == newcombe(480, 1000, 400, 1000, NormalDist().inv_cdf(1 - 0.05 / 3 / 2))
    assert (empty.p_value, empty.interval) == (None, None)
    assert [one.verdict for one in pairs[:3]] == ["no_difference_shown", "differs", "no_difference_shown"]


def test_scores_are_compared_by_their_errors() -> None:
    """Two means differ by a z test; at every look it takes more; with few answers nothing is said."""
    samples = [mean("old", 10, 4, 400), mean("new", 22, 3, 500)]
    (once,) = compare_arms("score", samples)
    assert (once.difference, once.verdict) == (Fraction(12), "differs")
    assert once.p_value == pytest.approx(2 * NormalDist().cdf(-12 / 5))
    assert once.interval == pytest.approx((12 - 5 * Z_95, 12 + 5 * Z_95))
    (always,) = compare_arms("score", samples, at_every_look=True)
    assert always.verdict == "no_difference_shown"
    assert always.interval is not None
    assert always.interval[0] < 0 < always.interval[1]
    (few,) = compare_arms("score", [mean("old", 10, 4, 29), mean("new", 90, 3, 500)])
    assert few.verdict == "too_few"


@pytest.mark.parametrize("at_every_look", [False, True])
@given(counts=st.lists(st.integers(0, 300), min_size=2, max_size=4))
@settings(max_examples=30)
def test_a_picture_never_says_more_than_the_verdict(*, at_every_look: bool, counts: list[int]) -> None:
    """Arms whose intervals, with the reach of the verdict's, do not meet differ in its interval, too."""
    samples = [share(str(number), count, 300) for number, count in enumerate(counts)]
    reach = find_reach(samples, at_every_look=at_every_look)
    drawn = {one.name: one.find_interval(reach) or (0.0, 1.0) for one in samples}
    for pair in compare_arms("response", samples, at_every_look=at_every_look):
        (low, high), (other_low, other_high) = drawn[pair.arm], drawn[pair.against]
        assert pair.p_value is not None
        if low > other_high or high < other_low:
            assert pair.p_value < 0.05
            assert pair.interval is not None


@pytest.mark.parametrize("at_every_look", [False, True])
@given(short=st.integers(0, 1000), warm=st.integers(0, 1000))
@settings(max_examples=30)
def test_intervals_say_what_verdicts_say(*, at_every_look: bool, short: int, warm: int) -> None:
    """With three pairs interval and verdict are adjusted alike: where one is sure, so is the other.

    They are two methods, and may disagree by a person or two: then there is no interval.
    """
    arms = [("old", 400, 1000), ("short", short, 1000), ("warm", warm, 1000)]
    counts = {name: (successes, people) for name, successes, people in arms}
    for one in compare_shares(arms, at_every_look=at_every_look):
        pair = counts[one.arm], counts[one.against]
        low, high = one.interval or newcombe(*pair[0], *pair[1], find_pair_reach(*pair, at_every_look))
        says_so = low > 0 or high < 0
        assert ((one.verdict == "differs") == says_so) == (one.interval is not None)
        assert one.interval is not None or min(abs(low), abs(high)) < 0.004


def test_an_interval_that_contradicts_the_test_is_left_out() -> None:
    """Fisher's test may show no difference where Newcombe's interval leaves zero out."""
    low, _ = newcombe(16, 30, 8, 30)
    assert low > 0
    one = compare(16, 30, 8, 30)
    assert (one.verdict, one.interval) == ("no_difference_shown", None)
    assert one.p_value == pytest.approx(0.0640, abs=1e-4)


def test_a_test_for_every_look_asks_for_more() -> None:
    """What one look would call different, a test for every look does not yet; what is plain, it does."""
    assert compare(160, 400, 120, 400).verdict == "differs"
    assert compare(160, 400, 120, 400, at_every_look=True).verdict == "no_difference_shown"
    assert compare(180, 400, 120, 400, at_every_look=True).verdict == "differs"


@pytest.mark.parametrize("counts", [(0, 400, 0, 400), (400, 400, 400, 400)])
def test_a_test_for_every_look_knows_nothing_of_nothing(counts: tuple[int, int, int, int]) -> None:
    """Where nobody answered, or everybody, nothing is known of the difference."""
    one = compare(*counts, at_every_look=True)
    assert (one.interval, one.p_value, one.verdict) == ((-1.0, 1.0), 1.0, "too_few")


@given(st.integers(1, 300), st.integers(1, 300), st.data())
@settings(max_examples=30)
def test_the_interval_of_every_look_ends_where_the_p_value_does(a: int, b: int, data: st.DataObject) -> None:
    """At its reach, as z, the e-value is 1/0.05: √(16/(V + 16)) exp(z² V/2(V + 16)) = 20."""
    successes = data.draw(st.integers(1, a + b - 1))
    reach = always_valid_reach(a, b, successes, 0.05)
    information = a * b / (a + b) ** 2 * successes * (a + b) / (a + b - successes)
    total = information + 16
    assert math.sqrt(16 / total) * math.exp(reach**2 * information / 2 / total) == pytest.approx(20)


@pytest.mark.parametrize("counts", [[], [("only", 1, 2)]])
def test_one_arm_has_nothing_to_differ_from(counts: list[tuple[str, int, int]]) -> None:
    """Fewer than two arms give no comparison."""
    assert compare_shares(counts) == ()
