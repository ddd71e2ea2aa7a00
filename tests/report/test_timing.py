"""Times: quantiles of histograms against those of the values written out, and durations in words."""

from __future__ import annotations

import statistics
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.report.documents.wording import format_duration
from runner.report.question_model import TimeSummary
from runner.report.scores import quantile, summarise_times

times = st.lists(st.integers(-100, 10**6), min_size=2)


@given(times)
@settings(max_examples=30)
def test_quantiles_are_those_of_the_statistics_module(values: list[int]) -> None:
    """Deciles of a histogram are the inclusive deciles of its values written out."""
    deciles = statistics.quantiles(map(Fraction, values), n=10, method="inclusive")
    histogram = Counter(values)
    assert [quantile(histogram, Fraction(tenth, 10)) for tenth in range(1, 10)] == deciles


@pytest.mark.parametrize("share", [Fraction(-1, 10), Fraction(11, 10)])
def test_a_quantile_is_of_a_share(share: Fraction) -> None:
    """What is not from 0 to 1 is an error."""
    with pytest.raises(ValueError, match="is not a share"):
        quantile({1: 1}, share)


def test_a_summary_has_the_middle_and_the_slow_end() -> None:
    """Times are summed up by their median and ninth decile; one time is both."""
    assert summarise_times({10: 1, 20: 1, 40: 2, 90: 1}) == TimeSummary(5, Fraction(40), Fraction(70))
    assert summarise_times({7: 1}) == TimeSummary(1, Fraction(7), Fraction(7))
    assert summarise_times({}) == TimeSummary(0, None, None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ("0", "0 s"),
        ("0.49", "0 s"),
        ("-0.49", "0 s"),
        ("0.5", "1 s"),
        ("42", "42 s"),
        ("59.5", "1 min"),
        ("200", "3 min 20 s"),
        ("180", "3 min"),
        ("3599.4", "59 min 59 s"),
        ("3599.5", "1 h"),
        ("18600", "5 h 10 min"),
        ("18629", "5 h 10 min"),
        ("18630", "5 h 11 min"),
        ("86369", "23 h 59 min"),
        ("86370", "1 d"),
        ("183600", "2 d 3 h"),
        ("86400000", "1,000 d"),
        ("-200", "−3 min 20 s"),
    ],
)
def test_durations_are_said_in_two_units(seconds: str, words: str) -> None:
    """The largest unit and the one below it, rounded; what is rounded up to a larger unit is said in it."""
    assert format_duration(Fraction(seconds)) == words
