"""AAPOR's response rates, against a published example and what the standard says of them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import strategies as st
from msgspec.structs import astuple

from runner.report.people_model import Dispositions, OutcomeRates, estimate_eligibility, outcome_rates

counts = st.integers(0, 1000)
dispositions = st.builds(Dispositions, counts, counts, counts, counts, counts, counts)
# The manual of rOpenSci's outcomerate, which follows the Standard Definitions: 12 people, 1 of them ineligible.
TWELVE = Dispositions(complete=4, partial=2, refusal=1, non_contact=1, other=1, unknown_eligibility=1 + 1)
INELIGIBLE = 1


def test_rates_meet_a_published_example() -> None:
    """The six rates are those that the manual prints, to its three decimal places."""
    eligibility = estimate_eligibility(TWELVE.eligible, INELIGIBLE)
    assert eligibility == Fraction(9, 10)
    rates = outcome_rates(TWELVE, eligibility)
    known = outcome_rates(TWELVE.replace(unknown_eligibility=0), eligibility)
    six = (rates.rr1, rates.rr2, rates.rr3, rates.rr4, known.rr5, known.rr6)
    assert [round(float(rate or 0), 3) for rate in six] == [0.364, 0.545, 0.370, 0.556, 0.444, 0.667]
    # COOP1, COOP2, REF1, CON1 of the same people, by the standard's formulas.
    others = (rates.coop1, rates.coop2, rates.ref1, rates.con1)
    assert [round(float(rate or 0), 3) for rate in others] == [0.5, 0.75, 0.091, 0.727]


def test_rates_are_exact() -> None:
    """Each rate is the fraction that its formula gives."""
    assert outcome_rates(TWELVE, Fraction(1, 2)) == OutcomeRates(
        rr1=Fraction(4, 11),
        rr2=Fraction(6, 11),
        rr3=Fraction(4, 10),
        rr4=Fraction(6, 10),
        coop1=Fraction(4, 8),
        coop2=Fraction(6, 8),
        ref1=Fraction(1, 11),
        con1=Fraction(8, 11),
        e=Fraction(1, 2),
    )


def test_two_rates_are_given_only_where_nothing_is_unknown() -> None:
    """RR5 and RR6 take nobody unknown to be eligible: with open sessions they would be too high."""
    rates = outcome_rates(TWELVE.replace(unknown_eligibility=0), Fraction(1))
    assert (rates.rr5, rates.rr6) == (rates.rr1, rates.rr2) == (Fraction(4, 9), Fraction(6, 9))


def test_people_whose_survey_another_text_ended_are_non_contacts() -> None:
    """They are counted apart, and in every rate as those whose survey has expired."""
    replaced = TWELVE.replace(non_contact=0, replaced=1)
    assert outcome_rates(replaced, Fraction(1)) == outcome_rates(TWELVE, Fraction(1))


def test_rates_of_nobody_are_undefined() -> None:
    """Without anybody to divide by there is no rate."""
    assert set(astuple(outcome_rates(Dispositions(), None))) == {None}


def test_rates_of_the_unknown_alone_are_zero_or_undefined() -> None:
    """If nothing is known yet, the lowest rates are 0, and those of people known to be eligible undefined."""
    rates = outcome_rates(Dispositions(unknown_eligibility=5), Fraction(0))
    assert rates == OutcomeRates(
        e=Fraction(), rr1=Fraction(), rr2=Fraction(), ref1=Fraction(), con1=Fraction()
    )


def test_without_an_eligibility_two_rates_are_undefined() -> None:
    """RR3 and RR4 need an estimate; the others do without."""
    rates = outcome_rates(TWELVE, None)
    assert (rates.rr3, rates.rr4) == (None, None)
    assert (rates.rr1, rates.rr2) == (Fraction(4, 11), Fraction(6, 11))


@pytest.mark.parametrize("eligibility", [Fraction(-1, 10), Fraction(11, 10)])
def test_an_eligibility_is_a_share(eligibility: Fraction) -> None:
    """What is not from 0 to 1 is an error."""
    with pytest.raises(ValueError, match="is not a share"):
        outcome_rates(TWELVE, eligibility)


def test_eligibility_is_that_of_the_known() -> None:
    """The unknown are taken to be like the known, of whom there must be some."""
    assert estimate_eligibility(3, 0) == 1
    assert estimate_eligibility(0, 3) == 0
    assert estimate_eligibility(0, 0) is None
