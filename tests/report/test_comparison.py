"""What may be said of variants: verdicts, and p-values of several comparisons at once."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.report.comparison import SIGNIFICANCE, Comparison, adjust_p_values, compare, compare_arms
from runner.report.proportions import difference_interval, fisher_p_value


@st.composite
def arms(draw: st.DrawFn) -> tuple[str, int, int]:
    trials = draw(st.integers(0, 400))
    return draw(st.sampled_from("abc")), draw(st.integers(0, trials)), trials


def test_a_comparison_says_how_far_and_how_sure() -> None:
    """A difference comes with its interval, its p-value and what may be said of it."""
    assert compare(56, 70, 48, 80) == Comparison(
        difference=Fraction(1, 5),
        interval=difference_interval(56, 70, 48, 80),
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
    assert compare(*counts) == Comparison(difference=None, interval=None, p_value=None, verdict="too_few")


def test_a_comparison_refuses_what_is_no_proportion() -> None:
    """Counts that are no proportion are an error."""
    with pytest.raises(ValueError, match="3 of 2 is no proportion"):
        compare(1, 2, 3, 2)


@given(arms(), arms())
def test_arms_may_swap_places(a: tuple[str, int, int], b: tuple[str, int, int]) -> None:
    """Swapped, the difference changes its sign and nothing else changes."""
    one, other = compare(*a[1:], *b[1:]), compare(*b[1:], *a[1:])
    assert one.verdict == other.verdict
    assert one.p_value == pytest.approx(other.p_value)
    assert one.difference is None or one.difference == -(other.difference or 0)
    if one.interval is not None and other.interval is not None:
        assert one.interval == pytest.approx((-other.interval[1], -other.interval[0]))


def test_holm_meets_a_published_example() -> None:
    """Five p-values become those that pingouin's manual prints for Holm's method."""
    adjusted = adjust_p_values([0.5, 0.003, 0.32, 0.054, 0.0003])
    assert adjusted == pytest.approx((0.64, 0.012, 0.64, 0.162, 0.0015))


@given(st.lists(st.floats(0, 1)))
def test_holm_keeps_the_order_and_rejects_step_by_step(p_values: list[float]) -> None:
    """No p-value falls or passes another, and the rejected are those that Holm's own steps reject."""
    adjusted = adjust_p_values(p_values)
    ascending = sorted(zip(p_values, adjusted, strict=True))
    assert all(plain <= raised <= 1 for plain, raised in ascending)
    assert [raised for _, raised in ascending] == sorted(adjusted)
    tests = len(p_values)
    for step, (plain, raised) in enumerate(ascending):
        if plain * (tests - step) >= SIGNIFICANCE:
            assert raised >= SIGNIFICANCE
            break
        assert raised < SIGNIFICANCE


def test_holm_leaves_one_p_value_alone() -> None:
    """One comparison needs no adjustment, and none has nothing to adjust."""
    assert adjust_p_values([0.04]) == (0.04,)
    assert adjust_p_values([]) == ()


def test_arms_are_compared_with_the_first() -> None:
    """Each further arm is told against the first, in order; its p-value pays for the number of comparisons."""
    differences = compare_arms(
        [("old", 400, 1000), ("warm", 445, 1000), ("short", 480, 1000), ("empty", 0, 0)]
    )
    assert [(one.arm, one.against, one.difference) for one in differences] == [
        ("warm", "old", Fraction(45, 1000)),
        ("short", "old", Fraction(80, 1000)),
        ("empty", "old", None),
    ]
    warm, short, empty = differences
    assert warm.p_value == pytest.approx(fisher_p_value(445, 1000, 400, 1000))
    assert short.p_value == pytest.approx(2 * fisher_p_value(480, 1000, 400, 1000))
    assert short.interval == difference_interval(480, 1000, 400, 1000)
    assert (empty.p_value, empty.interval) == (None, None)
    assert [one.verdict for one in differences] == ["differs", "differs", "too_few"]


def test_an_adjusted_p_value_decides() -> None:
    """What alone would differ is not shown to when it is one of two comparisons."""
    pair = [("old", 400, 1000), ("warm", 445, 1000)]
    assert [one.verdict for one in compare_arms(pair)] == ["differs"]
    assert [one.verdict for one in compare_arms([*pair, ("same", 400, 1000)])] == ["no_difference_shown"] * 2


def test_few_people_tell_nothing_of_arms_either() -> None:
    """An arm of too few people stays so, whatever its p-value."""
    (one,) = compare_arms([("old", 0, 1000), ("tiny", 20, 20)])
    assert one.verdict == "too_few"
    assert one.p_value is not None
    assert one.p_value < SIGNIFICANCE


@pytest.mark.parametrize("counts", [[], [("only", 1, 2)]])
def test_one_arm_has_nothing_to_differ_from(counts: list[tuple[str, int, int]]) -> None:
    """Fewer than two arms give no comparison."""
    assert compare_arms(counts) == ()
