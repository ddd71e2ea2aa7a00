"""What a report says, as values. Rates are exact fractions of 1; None stands where a rate is not defined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from fractions import Fraction

    from runner.report.facts import Scale

SANDBOX_TARGET = "sandbox"
"""The target that texts nobody (design/contract.md, "Where it talks to")."""


@dataclass(frozen=True, slots=True)
class ResponseCount:
    """How many chose one response of a multiple-choice question.

    Attributes:
        answer: the response's 1-based index as text; for a response that the campaign does not have, the
            answer as the service gave it, or empty when it was in the participant's own words.
        label: the response's text.
        count: participants who chose it.
        share: of all participants who answered the question.
    """

    answer: str
    label: str
    count: int
    share: Fraction | None


@dataclass(frozen=True, slots=True)
class NetPromoterScore:
    """Promoters less detractors, in hundredths of the answers counted (Reichheld 2003).

    Attributes:
        score: from -100 to 100; None when nothing was counted.
        promoters: answers of 9 and 10.
        passives: answers of 7 and 8.
        detractors: answers from 0 to 6.
        counted: answers that are a whole number from 0 to 10; others are left out of the score.
    """

    score: Fraction | None
    promoters: int
    passives: int
    detractors: int
    counted: int


@dataclass(frozen=True, slots=True)
class SatisfactionScore:
    """The top-two-box share of a satisfaction question.

    Attributes:
        score: satisfied of counted; None when nothing was counted.
        satisfied: answers that are one of the scale's top two.
        counted: answers that are on the scale.
    """

    score: Fraction | None
    satisfied: int
    counted: int


@dataclass(frozen=True, slots=True)
class NumberSummary:
    """The middle of the answers that read as numbers.

    Attributes:
        mean: None when nothing was counted.
        median: None when nothing was counted.
        counted: answers that read as numbers.
    """

    mean: Fraction | None
    median: Fraction | None
    counted: int


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """What came back to one question.

    Attributes:
        tag: the question's tag.
        text: the question's text.
        scale: how its answers are read.
        asked: participants who were asked; None for a question that the campaign does not have.
        answers: distinct participants who answered.
        answer_rate: answers of asked.
        distribution: in the campaign's order, then responses that it does not have; empty when freeform.
        nps: for scale nps.
        csat: for scale csat with three responses or more.
        numbers: for scales csat, ces and number.
    """

    tag: str
    text: str
    scale: Scale
    asked: int | None
    answers: int
    answer_rate: Fraction | None
    distribution: tuple[ResponseCount, ...] = ()
    nps: NetPromoterScore | None = None
    csat: SatisfactionScore | None = None
    numbers: NumberSummary | None = None


@dataclass(frozen=True, slots=True)
class Sessions:
    """Conversations by state (reference, section 3)."""

    queued: int
    active: int
    complete: int


@dataclass(frozen=True, slots=True)
class MessageReport:
    """What became of one message.

    Attributes:
        id: the message's id.
        tag: the message's project tag.
        first_sent_at: start of its first launch, UTC.
        last_sent_at: start of its last launch, UTC.
        reconciled_at: when its oldest launch was reconciled, UTC; None when one never was.
        launches: launches that the service accepted.
        recipients: sent and unresolved together.
        sent: recipients of accepted launches.
        rejected: recipients of launches that the service refused.
        unresolved: recipients of launches whose outcome is not known.
        sessions: the conversations of `sent`, by state.
        participants_answered: distinct participants with at least one result.
        response_rate: participants_answered of sent; None when nothing was sent, the message has no
            questions, or more answered than were sent to.
        response_rate_interval: low and high end of its 95 % Wilson interval.
        participants_completed: participants who answered the last question, or concluded early.
        completion_rate: participants_completed of participants_answered.
        renders: what the service says it rendered.
        results: results that the ledger holds.
        discrepancies: what does not add up, as sentences.
        questions: in the campaign's order, then those that only results know.
    """

    id: str
    tag: str
    first_sent_at: datetime | None
    last_sent_at: datetime | None
    reconciled_at: datetime | None
    launches: int
    recipients: int
    sent: int
    rejected: int
    unresolved: int
    sessions: Sessions
    participants_answered: int
    response_rate: Fraction | None
    response_rate_interval: tuple[float, float] | None
    participants_completed: int
    completion_rate: Fraction | None
    renders: int
    results: int
    discrepancies: tuple[str, ...]
    questions: tuple[QuestionReport, ...]


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """A whole report: the input of every document.

    Attributes:
        campaign: the campaign's name.
        target: the target's name.
        reconciled_at: the earliest of the messages that were sent, UTC; None when one never was reconciled.
        messages: in the order of the campaign.
        participants_answered: distinct participants with at least one result, over all messages.
        discrepancies: what does not add up and belongs to no message, as sentences.
    """

    campaign: str
    target: str
    reconciled_at: datetime | None
    messages: tuple[MessageReport, ...]
    participants_answered: int
    discrepancies: tuple[str, ...]

    @property
    def is_simulated(self) -> bool:
        """Whether nobody was texted."""
        return self.target == SANDBOX_TARGET

    @property
    def sent(self) -> int:
        """Texts sent, over all messages; one person may have had several."""
        return sum(message.sent for message in self.messages)
