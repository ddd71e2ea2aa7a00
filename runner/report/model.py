"""What a report says, as values. Rates are exact fractions of 1; None stands where a rate is not defined."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from fractions import Fraction

    from runner.ledger.report_model import PartialCount
    from runner.report.answered import QuestionReport
    from runner.report.dispositions import Dispositions, ResponseRates
    from runner.report.rounding import Interval
    from runner.report.timing import TimeSummary
    from runner.report.turnout import Audience, Breakdown, Day, Experiment, Volume

SANDBOX_TARGET = "sandbox"
"""The target that texts nobody (design/contract.md, "Where it talks to")."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Conversations by state (reference, section 3); None for what is not known of every launch."""

    queued: int | None
    active: int | None
    complete: int | None


@dataclass(frozen=True, slots=True)
class MessageReport:
    """What became of one message.

    A count is None unless it is known of every launch: a sum that leaves some out is no total.

    Attributes:
        id: the message's id.
        tag: the message's project tag.
        first_sent_at: start of its first launch, UTC: as the service says, once it was reconciled.
        last_sent_at: start of its last launch, UTC.
        reconciled_at: when that one of its reconciled launches was read that was read longest ago, UTC; None
            when none was.
        launches: launches that the service accepted.
        recipients: sent and unresolved together.
        sent: recipients of accepted launches.
        rejected: recipients of launches that the service refused; None where the ledger cannot know of any.
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
        audience: None when no `apply` has left word of it.
        volume: renders and cost.
        opt_outs: replies to this message that opted out, and those that the service itself reports.
        dispositions: the recipients as the survey field counts them; None for a message without questions.
        response_rates: AAPOR's RR1 to RR6 of these.
        time_to_first_answer: from the start of the launch.
        experiment: None for a message of one arm.
        breakdowns: one for each column that was asked for.
        days: from the first on which anything happened to the last; days without anything are left out.
        unread_launches: launches of which nothing was ever read.
        sent_read: recipients of the other launches.
        partly_known: of the counts that are None, those that are known of some launches, by name.
    """

    id: str
    tag: str
    first_sent_at: datetime | None
    last_sent_at: datetime | None
    reconciled_at: datetime | None
    launches: int
    recipients: int
    sent: int
    rejected: int | None
    unresolved: int
    sessions: Sessions
    participants_answered: int | None
    response_rate: Fraction | None
    response_rate_interval: Interval | None
    participants_completed: int | None
    completion_rate: Fraction | None
    renders: int | None
    results: int | None
    discrepancies: tuple[str, ...]
    questions: tuple[QuestionReport, ...]
    audience: Audience | None
    volume: Volume
    opt_outs: int | None
    dispositions: Dispositions | None
    response_rates: ResponseRates | None
    time_to_first_answer: TimeSummary
    experiment: Experiment | None
    breakdowns: tuple[Breakdown, ...]
    days: tuple[Day, ...]
    unread_launches: int = 0
    sent_read: int = 0
    partly_known: Mapping[str, PartialCount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one run has sent of the campaign.

    Attributes:
        id: as lockfile and ledger call it.
        started_at: UTC.
        plan_digest: of what it was to send.
        commit: of the repository that the campaigns are in; None if that is not known.
        dirty: whether files of the campaigns differed from the commit.
        run_url: the page of the CI job, http or https; None for none.
        triggered_by: by whose hand the job ran; None if that is not known.
        launches: launches that the service accepted.
        recipients: of those launches.
    """

    id: str
    started_at: datetime
    plan_digest: str
    commit: str | None
    dirty: bool
    run_url: str | None
    triggered_by: str | None
    launches: int
    recipients: int


@dataclass(frozen=True, slots=True)
class PooledScore:
    """The campaign's one score: of a question that several messages ask.

    Attributes:
        question: what came back over all of these messages: of each participant the latest answer alone, by
            the time of the answer; of two at one moment that to the later message. How many were asked is
            not counted here.
        parts: participants whose latest answer is to which message, by its id, in the campaign's order.
    """

    question: QuestionReport
    parts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """A whole report: the input of every document.

    Attributes:
        campaign: the campaign's name.
        target: the target's name.
        reconciled_at: the earliest of the messages', UTC; None when nothing was reconciled.
        messages: in the order of the campaign.
        participants_answered: distinct participants with at least one result, over all messages; None where
            some launch's answers were not read.
        discrepancies: what does not add up and belongs to no message, as sentences.
        runs: those that sent it, as far as that is known, the earliest first.
        score: the campaign's one score; None for none, and where some launch's answers were not read.
    """

    campaign: str
    target: str
    reconciled_at: datetime | None
    messages: tuple[MessageReport, ...]
    participants_answered: int | None
    discrepancies: tuple[str, ...]
    runs: tuple[RunReport, ...] = ()
    score: PooledScore | None = None

    @property
    def is_simulated(self) -> bool:
        """Whether nobody was texted."""
        return self.target == SANDBOX_TARGET

    @property
    def launches(self) -> int:
        """Launches that the service accepted, over all messages."""
        return sum(message.launches for message in self.messages)

    @property
    def unread_launches(self) -> int:
        """Of these, those of which nothing was ever read."""
        return sum(message.unread_launches for message in self.messages)

    @property
    def sent(self) -> int:
        """Texts sent, over all messages; one person may have had several."""
        return sum(message.sent for message in self.messages)
