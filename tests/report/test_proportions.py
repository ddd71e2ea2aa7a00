"""Two proportions side by side, against published examples, exact counting and SciPy."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.report.comparison import fisher_p_value, subtract_interval
from runner.report.scores import Z_95, wilson_interval

Table = tuple[int, int, int, int]


@pytest.fixture(scope="module")
def scipy() -> Any:
    """SciPy's statistics, loaded when they are needed: they take longer to load than these tests to run."""
    return pytest.importorskip("scipy.stats")


@st.composite
def tables(draw: st.DrawFn, *, least: int = 1, most: int) -> Table:
    trials_a, trials_b = draw(st.integers(least, most)), draw(st.integers(least, most))
    return draw(st.integers(0, trials_a)), trials_a, draw(st.integers(0, trials_b)), trials_b


def difference_interval(
    successes_a: int, trials_a: int, successes_b: int, trials_b: int, z: float = Z_95
) -> tuple[float, float]:
    """Return the interval of two proportions' difference: of Wilson's intervals of both."""
    intervals = wilson_interval(successes_a, trials_a, z), wilson_interval(successes_b, trials_b, z)
    return subtract_interval(successes_a / trials_a, intervals[0], successes_b / trials_b, intervals[1])


def count_exactly(table: Table) -> Fraction:
    """Return the share of tables with the same totals that are no more likely, from binomial coefficients."""
    successes_a, trials_a, successes_b, trials_b = table
    successes = successes_a + successes_b
    ways = [comb(trials_a, k) * comb(trials_b, successes - k) for k in range(successes + 1)]
    return Fraction(sum(way for way in ways if way <= ways[successes_a]), sum(ways))


def swap(table: Table) -> Table:
    return (*table[2:], *table[:2])


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17, 873-890, table II, method 10.
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((0, 10, 0, 20), -0.1611, 0.2775),
        ((0, 10, 0, 10), -0.2775, 0.2775),
        ((10, 10, 0, 20), 0.6791, 1.0),
        ((10, 10, 0, 10), 0.6075, 1.0),
    ],
)
def test_difference_meets_published_intervals(table: Table, low: float, high: float) -> None:
    """The interval is the one that the paper prints, to its four decimal places."""
    assert difference_interval(*table) == pytest.approx((low, high), abs=5e-5)


@given(tables(most=10**6))
@settings(max_examples=30)
def test_difference_lies_within_its_interval(table: Table) -> None:
    """The interval holds the difference, stays on the scale, and is mirrored when the arms swap places."""
    low, high = difference_interval(*table)
    assert -1 <= low <= table[0] / table[1] - table[2] / table[3] <= high <= 1
    assert difference_interval(*swap(table)) == pytest.approx((-high, -low))


@pytest.mark.parametrize("table", [(0, 0, 1, 2), (1, 2, 0, 0), (3, 2, 1, 2), (1, 2, -1, 2)])
def test_difference_refuses_what_is_no_proportion(table: Table) -> None:
    """An empty arm has no proportion, and so no interval."""
    with pytest.raises(ValueError, match="is no proportion"):
        difference_interval(*table)


@pytest.mark.parametrize(
    ("table", "p_value"),
    [
        # Fisher 1935: the lady who tells milk first from tea first for three cups of four each.
        ((3, 4, 1, 4), Fraction(34, 70)),
        # Fisher 1962: convictions among dizygotic and monozygotic twins; R's manual of fisher.test prints it.
        ((2, 17, 10, 13), 0.0005367),
        # SciPy's manual of fisher_exact.
        ((6, 8, 1, 5), 0.1026),
        # Every other table is less likely.
        ((3, 17, 0, 5), 1),
    ],
)
def test_fisher_meets_published_values(table: Table, p_value: float) -> None:
    """The p-value is the one that the literature prints."""
    assert fisher_p_value(*table) == pytest.approx(float(p_value), rel=5e-4)


@given(tables(least=0, most=60))
@settings(max_examples=30)
def test_fisher_is_exact(table: Table) -> None:
    """The p-value is that of counting every table in whole numbers."""
    assert fisher_p_value(*table) == pytest.approx(float(count_exactly(table)), rel=1e-12)


@pytest.mark.parametrize(
    "table",
    [
        (2_501_000, 5_000_000, 2_499_000, 5_000_000),
        (250_000, 5_000_000, 251_500, 5_000_000),
        (400_000, 1_000_000, 2_003_000, 5_000_000),
        (5_000_000, 5_000_000, 0, 5_000_000),
        (40, 5_000_000, 70, 5_000_000),
    ],
)
def test_fisher_takes_millions(scipy: Any, table: Table) -> None:
    """Arms of millions are tested exactly as well."""
    rows = [[table[0], table[1] - table[0]], [table[2], table[3] - table[2]]]
    assert fisher_p_value(*table) == pytest.approx(scipy.fisher_exact(rows).pvalue, rel=1e-7)


@pytest.mark.parametrize("table", [(0, 0, 0, 0), (0, 0, 3, 9), (0, 40, 0, 50), (40, 40, 50, 50)])
def test_fisher_finds_nothing_in_nothing(table: Table) -> None:
    """Where the totals allow one table alone, its p-value is 1."""
    assert fisher_p_value(*table) == 1


@pytest.mark.parametrize("table", [(1, 0, 1, 2), (1, 2, -1, 2)])
def test_fisher_refuses_what_is_no_proportion(table: Table) -> None:
    """Counts that are no proportion are an error."""
    with pytest.raises(ValueError, match="is no proportion"):
        fisher_p_value(*table)
