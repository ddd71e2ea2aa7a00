"""The survey field's response rates, from what became of everyone who was meant to be asked.

Source: The American Association for Public Opinion Research, "Standard Definitions: Final Dispositions of
Case Codes and Outcome Rates for Surveys", 10th edition, 2023; its letters are I, P, R, NC, O, UH and UO. The
standard knows interviews; a survey by text message maps to it like this:

- complete (I): reached the end of the survey;
- partial (P): answered at least one question, and did not, or did not yet, reach the end. The standard asks
  every survey to say from where on it counts a partial interview: here it is the first answer;
- refusal (R): opted out without an answer: by a reply that opts out, which is no answer, or because the
  service says that an opt-out ended the session or kept it from beginning;
- non-contact (NC): the session ended, because it expired or another one took its place, without an answer;
- other (O): none of this; a text message has no such outcome, so it is 0 unless a caller knows better;
- unknown eligibility (UH + UO): the session is still queued or active, without an answer, no session is
  listed of who was sent to, or the outcome of the send is not known.

Everyone is counted once, by the first of these that holds: who answered and then opted out is a partial, or a
complete. Each person's own session is looked at (reference, 2.3: `sessions[].status`), never totals. People
whose launch the service refused are no case at all: nobody tried to reach them, and the refusal is about the
request, not about them. So nobody is known to be ineligible, and e is 1 as soon as anybody is known to be
eligible.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from runner.report.scores import divide


@dataclass(frozen=True, slots=True)
class Dispositions:
    """What became of everyone who was to be asked and is not known to be ineligible, as counts of people.

    Attributes:
        complete: complete interviews (I).
        partial: partial interviews (P).
        refusal: refusals and break-offs (R).
        non_contact: non-contacts (NC).
        other: other eligible non-interviews (O).
        unknown_eligibility: of unknown eligibility (UH + UO).
    """

    complete: int = 0
    partial: int = 0
    refusal: int = 0
    non_contact: int = 0
    other: int = 0
    unknown_eligibility: int = 0

    @property
    def interviews(self) -> int:
        """Complete and partial interviews together (I + P)."""
        return self.complete + self.partial

    @property
    def eligible(self) -> int:
        """People known to be eligible: (I + P) + (R + NC + O)."""
        return self.interviews + self.refusal + self.non_contact + self.other


@dataclass(frozen=True, slots=True)
class ResponseRates:
    """The six response rates, each from 0 to 1; None where nobody is left to divide by.

    Attributes:
        rr1: the minimum: complete interviews of all who are or may be eligible.
        rr2: as RR1, with partial interviews as responses.
        rr3: as RR1, of the unknown only the share that is estimated to be eligible.
        rr4: as RR3, with partial interviews as responses.
        rr5: the maximum: as RR1, of those known to be eligible alone.
        rr6: as RR5, with partial interviews as responses.
    """

    rr1: Fraction | None
    rr2: Fraction | None
    rr3: Fraction | None
    rr4: Fraction | None
    rr5: Fraction | None
    rr6: Fraction | None


def response_rates(dispositions: Dispositions, eligibility: Fraction | None) -> ResponseRates:
    """Return AAPOR's response rates 1 to 6.

    With e for `eligibility`:

        RR1 = I / ((I + P) + (R + NC + O) + (UH + UO))      RR2 = (I + P) / the same
        RR3 = I / ((I + P) + (R + NC + O) + e (UH + UO))    RR4 = (I + P) / the same
        RR5 = I / ((I + P) + (R + NC + O))                  RR6 = (I + P) / the same

    Source: Standard Definitions (see the module), "Response rates". RR1 ≤ RR3 ≤ RR5, and RR2 ≤ RR4 ≤ RR6.

    Args:
        dispositions: what became of everyone; counts of 0 or more.
        eligibility: the share of the unknown that is estimated to be eligible, from 0 to 1: see
            `estimate_eligibility`. None leaves RR3 and RR4 undefined. The standard asks to say which it was.

    Raises:
        ValueError: when the eligibility is not a share.
    """
    if eligibility is not None and not 0 <= eligibility <= 1:
        raise ValueError(f"an eligibility of {eligibility} is not a share")
    complete, interviews = dispositions.complete, dispositions.interviews
    known = dispositions.eligible
    possible = known + dispositions.unknown_eligibility
    estimated = None if eligibility is None else known + eligibility * dispositions.unknown_eligibility
    return ResponseRates(
        rr1=divide(complete, possible),
        rr2=divide(interviews, possible),
        rr3=Fraction(complete) / estimated if estimated else None,
        rr4=Fraction(interviews) / estimated if estimated else None,
        rr5=divide(complete, known),
        rr6=divide(interviews, known),
    )


def estimate_eligibility(eligible: int, ineligible: int) -> Fraction | None:
    """Return e: the share of those of unknown eligibility that is taken to be eligible.

    By proportional allocation, it is the share among those of whom it is known:
    e = eligible / (eligible + ineligible).

    Source: Standard Definitions (see the module), which names it the CASRO method, after the Council of
    American Survey Research Organizations.

    Args:
        eligible: people known to be eligible: `Dispositions.eligible`.
        ineligible: people known to be ineligible.

    Returns:
        From 0 to 1; None when nothing is known of anybody.
    """
    return divide(eligible, eligible + ineligible)
