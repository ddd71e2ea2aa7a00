"""Scores, against published examples and derivations of another kind."""

from __future__ import annotations

import statistics
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.report.question_model import QuestionReport
from runner.report.scores import (
    add_mean,
    divide,
    mean_interval,
    net_promoter_interval,
    net_promoter_score,
    satisfaction_score,
    student_quantile,
    wilson_interval,
)

if TYPE_CHECKING:
    from runner.report.question_model import NetPromoterScore

Z = 1.959963984540054
NUMBER = QuestionReport("visits", "How often?", "number")


@st.composite
def proportions(draw: st.DrawFn) -> tuple[int, int]:
    trials = draw(st.integers(1, 10**6))
    return draw(st.integers(0, trials)), trials


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # 8 of 10: the worked example that textbooks and statistics packages share.
        (8, 10, 0.4902, 0.9433),
        # Newcombe 1998, Statistics in Medicine 17, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_meets_published_intervals(successes: int, trials: int, low: float, high: float) -> None:
    """The interval is the one that the literature prints, to its four decimal places."""
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)


@given(proportions())
@settings(max_examples=30)
def test_wilson_ends_solve_the_score_equation(proportion: tuple[int, int]) -> None:
    """Each end is a rate e that the score test only just accepts: |p - e| = z √(e(1 - e)/n)."""
    successes, trials = proportion
    low, high = wilson_interval(successes, trials)
    rate = successes / trials
    assert 0 <= low <= rate <= high <= 1
    for end in (low, high):
        assert (rate - end) ** 2 == pytest.approx(Z**2 * end * (1 - end) / trials, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (2, 1), (-1, 5)])
def test_wilson_refuses_what_is_no_proportion(successes: int, trials: int) -> None:
    """Counts that are no proportion are an error, never a division by zero."""
    with pytest.raises(ValueError, match="no proportion"):
        wilson_interval(successes, trials)


def test_divide_is_undefined_without_a_whole() -> None:
    """A part of nothing is None."""
    assert divide(0, 0) is None
    assert divide(1, 3) == Fraction(1, 3)


@given(st.lists(st.integers(0, 10)))
@settings(max_examples=30)
def test_nps_groups_partition_the_answers(answers: list[int]) -> None:
    """Promoters, passives and detractors are all answers counted, and the score follows from them."""
    nps = net_promoter_score(Counter(map(Fraction, answers)))
    assert nps.promoters + nps.passives + nps.detractors == nps.counted == len(answers)
    assert nps.promoters == sum(answer >= 9 for answer in answers)
    assert nps.detractors == sum(answer <= 6 for answer in answers)
    if answers:
        votes = [(answer >= 9) - (answer <= 6) for answer in answers]
        assert nps.score == Fraction(100 * sum(votes), len(votes))
    else:
        assert nps.score is None


def test_nps_leaves_out_what_is_not_on_its_scale() -> None:
    """Answers that are no whole number from 0 to 10 are not counted."""
    numbers = {Fraction(10): 1, Fraction(11): 5, Fraction(-1): 5, Fraction(17, 2): 5}
    nps = net_promoter_score(numbers)
    assert (nps.counted, nps.score) == (1, Fraction(100))


def test_csat_is_the_share_of_the_two_highest_points() -> None:
    """The top two boxes are the highest two points of the scale, in whatever order it lists them."""
    numbers = {Fraction(1): 2, Fraction(4): 3, Fraction(5): 5, Fraction(9): 100}
    csat = satisfaction_score(numbers, [Fraction(point) for point in (5, 4, 3, 2, 1)])
    assert csat is not None
    assert (csat.satisfied, csat.counted, csat.score) == (8, 10, Fraction(4, 5))


def test_csat_names_its_top_two() -> None:
    """The responses of the two highest points are named in their own order; one without a point is not."""
    points = (None, Fraction(3), Fraction(1), Fraction(2))
    csat = satisfaction_score({Fraction(3): 1}, points, ("Don't know", "Good", "Bad", "Fair"))
    assert csat is not None
    assert csat.top_two == ("Good", "Fair")


@pytest.mark.parametrize("scale", [(), (1,), (1, 2), (None, None, None)])
def test_csat_needs_more_than_two_points(scale: tuple[int | None, ...]) -> None:
    """A scale on which everything is in the top two has no score."""
    points = [None if point is None else Fraction(point) for point in scale]
    assert satisfaction_score({Fraction(1): 3}, points) is None


@given(st.lists(st.fractions(max_denominator=1000), min_size=1))
@settings(max_examples=30)
def test_middles_are_those_of_the_statistics_module(numbers: list[Fraction]) -> None:
    """Mean and median of counted numbers are those of the numbers written out."""
    question = add_mean(NUMBER, Counter(numbers))
    assert question.mean == statistics.mean(numbers)
    assert question.median == statistics.median(numbers)
    assert question.numeric_answers == len(numbers)


def count_nps(promoters: int, passives: int, detractors: int) -> NetPromoterScore:
    return net_promoter_score({Fraction(10): promoters, Fraction(7): passives, Fraction(0): detractors})


def test_nps_interval_meets_a_worked_example() -> None:
    """For ½ promoters, ⅓ passives and ⅙ detractors the standard error is √(5/9)/√n.

    That is W. Huber's worked example on Cross Validated, question 18603; for so many answers the ones that
    are added don't tell.
    """
    interval = net_promoter_interval(count_nps(300_000, 200_000, 100_000))
    error = 100 * (5 / 9 / 600_000) ** 0.5
    assert interval == pytest.approx((100 / 3 - Z * error, 100 / 3 + Z * error), abs=1e-3)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
@settings(max_examples=30)
def test_nps_interval_is_that_of_votes(promoters: int, passives: int, detractors: int) -> None:
    """With ¾, 1½ and ¾ of an answer more, it is the normal interval of votes of 1, 0 and -1."""
    nps = count_nps(promoters, passives, detractors)
    if nps.counted < 10:
        assert nps.interval is None
        return
    quarters = [1] * (4 * promoters + 3) + [0] * (4 * passives + 6) + [-1] * (4 * detractors + 3)
    middle, spread = statistics.fmean(quarters), statistics.pstdev(quarters)
    reach = Z * spread / (nps.counted + 3) ** 0.5
    expected = (max(-100, 100 * (middle - reach)), min(100, 100 * (middle + reach)))
    assert nps.interval == pytest.approx(expected)


def test_nps_interval_needs_ten_answers() -> None:
    """Nine answers are too few to say how sure the score is."""
    assert count_nps(0, 0, 0).interval is None
    assert count_nps(9, 0, 0).interval is None
    assert count_nps(10, 0, 0).interval is not None


@given(st.lists(st.integers(-1000, 1000), min_size=10, max_size=40))
@settings(max_examples=30)
def test_mean_interval_ends_where_the_transformed_t_statistic_does(halves: list[int]) -> None:
    """At each end Hall's T + gT²/3√n + g²T³/27n + g/6√n, with T = (m - end)/(s/√n), is Student's quantile."""
    numbers = [half / 2 for half in halves]
    counts = Counter(map(Fraction, numbers))
    interval = mean_interval(counts)
    if len(counts) == 1 or interval is None:
        assert (len(counts), interval) == (1, None)
        return
    count, middle = len(numbers), statistics.fmean(numbers)
    error = statistics.stdev(numbers) / count**0.5
    third = statistics.fmean((number - middle) ** 3 for number in numbers)
    skew = third / statistics.pstdev(numbers) ** 3 / count**0.5
    ends = [(middle - end) / error for end in interval]
    transformed = [end + skew * end**2 / 3 + skew**2 * end**3 / 27 + skew / 6 for end in ends]
    quantile = student_quantile(count - 1)
    assert transformed == pytest.approx((quantile, -quantile), abs=1e-6)
    assert add_mean(NUMBER, counts).mean_interval == interval


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(9, 2.262157), (14, 2.144787), (29, 2.045230), (120, 1.979930), (10**7, Z)]
)
def test_student_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    """The quantiles are those that every table of Student's distribution has, and the normal one in the end."""
    assert student_quantile(freedom) == pytest.approx(quantile, abs=2e-5)


def test_mean_interval_needs_ten_answers_that_differ() -> None:
    """Too few answers do not say how sure their mean is, and nor do equal ones."""
    assert mean_interval({}) is None
    assert mean_interval({Fraction(1): 4, Fraction(2): 5}) is None
    assert mean_interval({Fraction(1): 5, Fraction(2): 5}) is not None
    assert mean_interval({Fraction(1): 30, Fraction(2): 0}) is None
    assert add_mean(NUMBER, {}).mean_interval is None
