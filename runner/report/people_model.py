"""The values of a report that are counted by person, over all messages of a campaign.

A person is counted once, however many messages were sent. Rates are of people who were texted; those whose
text still waits at the service, and those whom an earlier opt-out kept from it, are counted apart.

Source of dispositions and outcome rates: The American Association for Public Opinion Research, "Standard
Definitions: Final Dispositions of Case Codes and Outcome Rates for Surveys", 10th edition, 2023; its letters
are I, P, R, NC, O, UH and UO. The standard knows interviews; a survey by text message maps to it like this:

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

from runner.document import Count, Part
from runner.report.question_model import Interval, Rate, Score
from runner.report.scores import divide

SMALL_GROUP = 10
"""Smaller groups of recipients are left out of breakdowns: their rates may identify somebody."""


class Dispositions(Part, frozen=True):
    """Counts of the people to be asked who are not known to be ineligible, by outcome (AAPOR).

    Attributes:
        complete: complete interviews (I).
        partial: partial interviews (P): from the first answer on.
        refusal: refusals and break-offs (R).
        non_contact: non-contacts (NC), without those of `replaced`.
        other: other eligible non-interviews (O).
        unknown_eligibility: of unknown eligibility (UH + UO).
        replaced: non-contacts (NC) whose survey a later text of this account ended.
    """

    complete: Count = 0
    partial: Count = 0
    refusal: Count = 0
    non_contact: Count = 0
    other: Count = 0
    unknown_eligibility: Count = 0
    replaced: Count = 0

    @property
    def interviews(self) -> int:
        """Complete and partial interviews together (I + P)."""
        return self.complete + self.partial

    @property
    def eligible(self) -> int:
        """People known to be eligible: (I + P) + (R + NC + O)."""
        non_contacts = self.non_contact + self.replaced
        return self.interviews + self.refusal + non_contacts + self.other


class OutcomeRates(Part, frozen=True):
    """AAPOR's outcome rates, each from 0 to 1; None for a denominator of 0.

    Attributes:
        e: the estimated share of the eligible among people of unknown eligibility.
        rr1: I / ((I + P) + (R + NC + O) + (UH + UO)).
        rr2: (I + P) / ((I + P) + (R + NC + O) + (UH + UO)).
        rr3: I / ((I + P) + (R + NC + O) + e (UH + UO)).
        rr4: (I + P) / ((I + P) + (R + NC + O) + e (UH + UO)).
        rr5: I / ((I + P) + (R + NC + O)). None unless nobody's eligibility is unknown, as it assumes.
        rr6: (I + P) / ((I + P) + (R + NC + O)). None unless nobody's eligibility is unknown, as it assumes.
        coop1: cooperation: I / ((I + P) + R + O).
        coop2: cooperation: (I + P) / ((I + P) + R + O).
        ref1: refusal: R / ((I + P) + (R + NC + O) + (UH + UO)).
        con1: contact: ((I + P) + R + O) / ((I + P) + (R + NC + O) + (UH + UO)).
    """

    e: Rate | None = None
    rr1: Rate | None = None
    rr2: Rate | None = None
    rr3: Rate | None = None
    rr4: Rate | None = None
    rr5: Rate | None = None
    rr6: Rate | None = None
    coop1: Rate | None = None
    coop2: Rate | None = None
    ref1: Rate | None = None
    con1: Rate | None = None


def outcome_rates(dispositions: Dispositions) -> OutcomeRates:
    """Return AAPOR's response rates 1 to 6, and its cooperation, refusal and contact rates.

    With e for the estimated share of the eligible among the unknown:

        RR1 = I / ((I + P) + (R + NC + O) + (UH + UO))      RR2 = (I + P) / the same
        RR3 = I / ((I + P) + (R + NC + O) + e (UH + UO))    RR4 = (I + P) / the same
        RR5 = I / ((I + P) + (R + NC + O))                  RR6 = (I + P) / the same
        COOP1 = I / ((I + P) + R + O)                       COOP2 = (I + P) / the same
        REF1 = R / the whole of RR1                         CON1 = ((I + P) + R + O) / the whole of RR1

    RR5 and RR6 assume that e is 0, or that nobody's eligibility is unknown: they are given only then.
    By proportional allocation (the CASRO method), e is the share of the eligible among the people whose
    eligibility is known: 1, as nobody is known to be ineligible, and undefined if nobody is known.
    Source: Standard Definitions (see the module), "Response rates" to "Contact rates".
    """
    complete, interviews = dispositions.complete, dispositions.interviews
    known, unknown = dispositions.eligible, dispositions.unknown_eligibility
    contacts = interviews + dispositions.refusal + dispositions.other
    # With an e of 1.
    estimated = known + unknown if known else None
    return OutcomeRates(
        e=divide(known, known),
        rr1=divide(complete, known + unknown),
        rr2=divide(interviews, known + unknown),
        rr3=divide(complete, estimated),
        rr4=divide(interviews, estimated),
        rr5=None if unknown else divide(complete, known),
        rr6=None if unknown else divide(interviews, known),
        coop1=divide(complete, contacts),
        coop2=divide(interviews, contacts),
        ref1=divide(dispositions.refusal, known + unknown),
        con1=divide(contacts, known + unknown),
    )


class SampleReport(Part, frozen=True):
    """A simple random sample of the people who may be texted, as the last `apply` found them.

    Attributes:
        eligible: people who may be texted: not excluded, opted out, in the control group or without consent.
        drawn: people in the sample.
        probability: with which each of the eligible people was drawn.
    """

    eligible: Count | None
    drawn: Count | None
    probability: Fraction | None


class PeopleReport(Part, frozen=True):
    """The outcome of a campaign by person, over all its messages.

    Everybody sent to is one of `texted`, `queued`, `blocked`, `withdrawn` and `uncertain`. Counts that rest
    on what the service says of sessions and answers are None unless every launch was read.

    Attributes:
        recipients: people sent to, and those whose outcome is not known, together.
        sent: people in launches that the service accepted.
        unresolved: people in launches whose outcome is not known, and in no accepted one.
        control_group: people of the audience who are drawn to get nothing, as the last `apply` found it; None
            for a campaign without a control group, and when no `apply` has left word of it.
        queued: people whose texts all still wait at the service for an earlier survey to end.
        blocked: people whom an earlier opt-out kept from every text.
        withdrawn: people whose texts all waited until an opt-out, or a later send, ended their surveys.
        uncertain: people of whom it is not known whether they got a text: their surveys have ended, and were
            not read before. They are not among `texted`, so that rates may be too high.
        texted: people who got a text: what rates are shares of.
        answered: people with at least one answer; a reply that opts out is none. None for a campaign that
            asks nothing, too.
        response_rate: `answered` of `texted`.
        response_rate_interval: low and high end of the response rate's 95 % Wilson score interval (Wilson
            1927), as fractions from 0 to 1 rounded to four decimal places; None where the rate is None.
        replaced: people who answered nothing, and whose last survey a later text of this account ended. They
            may never have had the time to answer.
        response_rate_without_replaced: `answered` of `texted` without `replaced`.
        completed: people who reached the end of a survey: they answered the last question, or ended it early
            by an answer that does so.
        completion_rate: `completed` of `answered`.
        opted_out: people who opted out after a text of this campaign: by a reply, or because the service says
            that an opt-out ended the session.
        open: people whose session in some survey still waits or is in progress.
        is_interim: whether figures may still change: some session is open, or some launch was not read.
        dispositions: the people by outcome; None for a campaign that asks nothing, and where not all answers
            were read, or it is not known how each session stands.
        rates: of the dispositions.
    """

    recipients: Count = 0
    sent: Count = 0
    unresolved: Count = 0
    control_group: Count | None = None
    queued: Count | None = None
    blocked: Count | None = None
    withdrawn: Count | None = None
    uncertain: Count | None = None
    texted: Count | None = None
    answered: Count | None = None
    response_rate: Rate | None = None
    response_rate_interval: Interval | None = None
    replaced: Count | None = None
    response_rate_without_replaced: Rate | None = None
    completed: Count | None = None
    completion_rate: Rate | None = None
    opted_out: Count | None = None
    open: Count | None = None
    is_interim: bool = False
    dispositions: Dispositions | None = None
    rates: OutcomeRates | None = None


class GroupReport(Part, frozen=True):
    """A group of people: its response, and its scores.

    Attributes:
        name: an arm's id, or a value of the audience's column; `(empty)` for blank cells, and for people who
            have left the audience. Empty for everybody.
        texted: people of it who got a text.
        answered: of these, people with at least one answer. None where some launch's answers were not read.
        response_rate: `answered` of `texted`.
        response_rate_interval: low and high end of the rate's Wilson interval, as fractions from 0 to 1: of
            95 %; of an arm, with the reach of the verdict, and None as long as that is too early.
        completed: people who reached the end of a survey. None where some launch's answers were not read, and
            of an arm once only what came before a day counts.
        scores: of the campaign's scored questions, in its order; the intervals are of the same kind.
    """

    name: str
    texted: Count | None
    answered: Count | None
    response_rate: Rate | None
    response_rate_interval: Interval | None
    completed: Count | None
    scores: tuple[Score, ...] = ()


class ColumnReport(Part, frozen=True):
    """The campaign by the values of one column of the audience (`--by`).

    Attributes:
        column: as the audience's files call it.
        groups: by the campaign's score, or else by their response, the highest first.
        everybody: all people, the groups that are left out among them.
        suppressed: groups that are left out, so that no group of fewer than `least` people can be made out.
        suppressed_texted: people texted of these together; None when even that would tell a small number.
        least: people that a group needs to be shown.
    """

    column: str
    groups: tuple[GroupReport, ...]
    everybody: GroupReport
    suppressed: Count
    suppressed_texted: Count | None
    least: Count = SMALL_GROUP
