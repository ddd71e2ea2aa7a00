"""AAPOR's response rates, against a published example and what the standard says of them."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st
from msgspec.structs import astuple

from runner.report.people_model import Dispositions, OutcomeRates, outcome_rates

counts = st.integers(0, 1000)
dispositions = st.builds(Dispositions, counts, counts, counts, counts, counts, counts)
# The manual of rOpenSci's outcomerate, which follows the Standard Definitions: 12 people, 1 of them ineligible.
TWELVE = Dispositions(complete=4, partial=2, refusal=1, non_contact=1, other=1, unknown_eligibility=1 + 1)


def test_rates_meet_a_published_example() -> None:
    """The rates without e are those that the manual prints, to its three decimal places."""
    rates, known = outcome_rates(TWELVE), outcome_rates(TWELVE.replace(unknown_eligibility=0))
    four = (rates.rr1, rates.rr2, known.rr5, known.rr6)
    assert [round(float(rate or 0), 3) for rate in four] == [0.364, 0.545, 0.444, 0.667]
    # COOP1, COOP2, REF1, CON1 of the same people, by the standard's formulas.
    others = (rates.coop1, rates.coop2, rates.ref1, rates.con1)
    assert [round(float(rate or 0), 3) for rate in others] == [0.5, 0.75, 0.091, 0.727]


def test_rates_are_exact() -> None:
    """Each rate is the fraction that its formula gives; nobody is known to be ineligible, so e is 1."""
    assert outcome_rates(TWELVE) == OutcomeRates(
        rr1=Fraction(4, 11),
        rr2=Fraction(6, 11),
        rr3=Fraction(4, 11),
        rr4=Fraction(6, 11),
        coop1=Fraction(4, 8),
        coop2=Fraction(6, 8),
        ref1=Fraction(1, 11),
        con1=Fraction(8, 11),
        e=Fraction(1),
    )


def test_two_rates_are_given_only_where_nothing_is_unknown() -> None:
    """RR5 and RR6 take nobody unknown to be eligible: with open sessions they would be too high."""
    rates = outcome_rates(TWELVE.replace(unknown_eligibility=0))
    assert (rates.rr5, rates.rr6) == (rates.rr1, rates.rr2) == (Fraction(4, 9), Fraction(6, 9))


def test_people_whose_survey_another_text_ended_are_non_contacts() -> None:
    """They are counted apart, and in every rate as those whose survey has expired."""
    replaced = TWELVE.replace(non_contact=0, replaced=1)
    assert outcome_rates(replaced) == outcome_rates(TWELVE)


def test_rates_of_nobody_are_undefined() -> None:
    """Without anybody to divide by there is no rate."""
    assert set(astuple(outcome_rates(Dispositions()))) == {None}


def test_rates_of_the_unknown_alone_are_zero_or_undefined() -> None:
    """If nothing is known yet, the lowest rates are 0, and those of people known to be eligible undefined."""
    rates = outcome_rates(Dispositions(unknown_eligibility=5))
    assert rates == OutcomeRates(rr1=Fraction(), rr2=Fraction(), ref1=Fraction(), con1=Fraction())
