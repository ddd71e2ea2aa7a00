"""The survey field's outcome rates, from people by outcome.

Source: The American Association for Public Opinion Research, "Standard Definitions: Final Dispositions of
Case Codes and Outcome Rates for Surveys", 10th edition, 2023; its letters are I, P, R, NC, O, UH and UO. The
standard knows interviews; a survey by text message maps to it like this:

- complete (I): reached the end of a survey;
- partial (P): answered at least one question, and has not reached the end. The standard asks every survey to
  define a partial interview: here it starts with the first answer;
- refusal (R): opted out without an answer: by a reply that opts out, or because the service says that an
  opt-out ended the session or kept it from beginning;
- non-contact (NC): every session ended without an answer: the last one as it expired, or because a later
  text of the same account took its place (`replaced`, counted apart);
- other (O): does not occur in text messages, so it is 0 unless a caller sets it;
- unknown eligibility (UH + UO): some session is still queued or active without an answer, or is not listed,
  or the outcome of the send is not known.

Each person counts once over all surveys of the campaign, by the first of these that holds: one who answered
and then opted out is a partial, or a complete. Each person's own sessions are looked at
(`sessions[].status`), never totals. While sessions are open, dispositions are interim.
Recipients of refused launches are no cases: nobody tried to reach them, and the refusal is about the request.
So nobody is known to be ineligible, and e is 1 as soon as anybody is known to be eligible.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from runner.report.people_model import OutcomeRates
from runner.report.scores import divide

if TYPE_CHECKING:
    from runner.report.people_model import Dispositions


def outcome_rates(dispositions: Dispositions, eligibility: Fraction | None) -> OutcomeRates:
    """Return AAPOR's response rates 1 to 6, and its cooperation, refusal and contact rates.

    With e for `eligibility`, the estimated share of the eligible among the unknown; None leaves RR3 and RR4
    undefined:

        RR1 = I / ((I + P) + (R + NC + O) + (UH + UO))      RR2 = (I + P) / the same
        RR3 = I / ((I + P) + (R + NC + O) + e (UH + UO))    RR4 = (I + P) / the same
        RR5 = I / ((I + P) + (R + NC + O))                  RR6 = (I + P) / the same
        COOP1 = I / ((I + P) + R + O)                       COOP2 = (I + P) / the same
        REF1 = R / the whole of RR1                         CON1 = ((I + P) + R + O) / the whole of RR1

    RR5 and RR6 assume that e is 0, or that nobody's eligibility is unknown: they are given only then.
    Source: Standard Definitions (see the module), "Response rates" to "Contact rates".

    Raises:
        ValueError: if the eligibility is not from 0 to 1.
    """
    if eligibility is not None and not 0 <= eligibility <= 1:
        raise ValueError(f"an eligibility of {eligibility} is not a share")
    complete, interviews = dispositions.complete, dispositions.interviews
    known, unknown = dispositions.eligible, dispositions.unknown_eligibility
    contacts = interviews + dispositions.refusal + dispositions.other
    estimated = None if eligibility is None else known + eligibility * unknown
    return OutcomeRates(
        e=eligibility,
        rr1=divide(complete, known + unknown),
        rr2=divide(interviews, known + unknown),
        rr3=Fraction(complete) / estimated if estimated else None,
        rr4=Fraction(interviews) / estimated if estimated else None,
        rr5=None if unknown else divide(complete, known),
        rr6=None if unknown else divide(interviews, known),
        coop1=divide(complete, contacts),
        coop2=divide(interviews, contacts),
        ref1=divide(dispositions.refusal, known + unknown),
        con1=divide(contacts, known + unknown),
    )


def estimate_eligibility(eligible: int, ineligible: int) -> Fraction | None:
    """Return e, the estimated share of the eligible among people of unknown eligibility.

    By proportional allocation, e = eligible / (eligible + ineligible), of the people whose eligibility is
    known; None if there are none. Source: Standard Definitions (see the module), which names it the CASRO
    method, after the Council of American Survey Research Organizations.
    """
    return divide(eligible, eligible + ineligible)
