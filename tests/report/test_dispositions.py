"""AAPOR's response rates, against a published example and what the standard says of them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import strategies as st
from msgspec.structs import astuple

from runner.report.funnel import estimate_eligibility, response_rates
from runner.report.model import ResponseRates
from runner.report.people_model import Dispositions

counts = st.integers(0, 1000)
dispositions = st.builds(Dispositions, counts, counts, counts, counts, counts, counts)
# The manual of rOpenSci's outcomerate, which follows the Standard Definitions: 12 people, 1 of them ineligible.
TWELVE = Dispositions(complete=4, partial=2, refusal=1, non_contact=1, other=1, unknown_eligibility=1 + 1)
INELIGIBLE = 1


def test_rates_meet_a_published_example() -> None:
    """The six rates are those that the manual prints, to its three decimal places."""
    eligibility = estimate_eligibility(TWELVE.eligible, INELIGIBLE)
    assert eligibility == Fraction(9, 10)
    rates = astuple(response_rates(TWELVE, eligibility))
    assert [round(float(rate), 3) for rate in rates] == [0.364, 0.545, 0.370, 0.556, 0.444, 0.667]


def test_rates_are_exact() -> None:
    """Each rate is the fraction that its formula gives."""
    assert response_rates(TWELVE, Fraction(1, 2)) == ResponseRates(
        rr1=Fraction(4, 11),
        rr2=Fraction(6, 11),
        rr3=Fraction(4, 10),
        rr4=Fraction(6, 10),
        rr5=Fraction(4, 9),
        rr6=Fraction(6, 9),
    )


def test_rates_of_nobody_are_undefined() -> None:
    """Without anybody to divide by there is no rate."""
    assert set(astuple(response_rates(Dispositions(), Fraction(1)))) == {None}


def test_rates_of_the_unknown_alone_are_zero_or_undefined() -> None:
    """If nothing is known yet, the lowest rates are 0, and those of people known to be eligible undefined."""
    rates = response_rates(Dispositions(unknown_eligibility=5), Fraction(0))
    assert rates == ResponseRates(Fraction(), Fraction(), None, None, None, None)


def test_without_an_eligibility_two_rates_are_undefined() -> None:
    """RR3 and RR4 need an estimate; the others do without."""
    rates = response_rates(TWELVE, None)
    assert (rates.rr3, rates.rr4) == (None, None)
    assert (rates.rr1, rates.rr6) == (Fraction(4, 11), Fraction(6, 9))


@pytest.mark.parametrize("eligibility", [Fraction(-1, 10), Fraction(11, 10)])
def test_an_eligibility_is_a_share(eligibility: Fraction) -> None:
    """What is not from 0 to 1 is an error."""
    with pytest.raises(ValueError, match="is not a share"):
        response_rates(TWELVE, eligibility)


def test_eligibility_is_that_of_the_known() -> None:
    """The unknown are taken to be like the known, of whom there must be some."""
    assert estimate_eligibility(3, 0) == 1
    assert estimate_eligibility(0, 3) == 0
    assert estimate_eligibility(0, 0) is None
