"""The input of a report: the campaign's outline, the ledger's data on its sending, and counts of its results.

The counts merge by addition, so that parts of the results can be counted apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from datetime import date, datetime
    from fractions import Fraction

    from runner.campaign.model import ResponseValue
    from runner.ledger.report_model import (
        AudienceRow,
        MessageTotals,
        OpenDifferences,
        RunRow,
        ServicePlan,
    )
    from runner.report.question_model import Scale


UTC_ZONE = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class QuestionOutline:
    """One question as the campaign asks it, with the tag of its results (`question_tag`).

    There are no responses for a freeform question. `conclude_on` is an answer that ends the survey early.
    `values` are those that the campaign gives its responses, None for one whose text says it; empty if none.
    """

    tag: str
    text: str
    responses: tuple[str, ...] = ()
    scale: Scale = "choice"
    conclude_on: str | None = None
    values: tuple[ResponseValue | None, ...] = ()


@dataclass(frozen=True, slots=True)
class WayOutline:
    """One way in which a message goes out: that of an arm, or the only one, with an empty arm."""

    arm: str
    questions: tuple[QuestionOutline, ...]


@dataclass(frozen=True, slots=True)
class AnalysisPlan:
    """The time of an experiment's verdict: a day, or the people texted in each arm, which fix one.

    With neither, a test that allows it is made at every look.
    """

    at: date | None = None
    per_arm: int | None = None


@dataclass(frozen=True, slots=True)
class MessageOutline:
    """One message as the campaign sends it, with the questions of all ways, each tag once.

    Without `ways` there is one, without introduction and conclusion. A plain text has no questions.
    """

    id: str
    tag: str
    questions: tuple[QuestionOutline, ...] = ()
    ways: tuple[WayOutline, ...] = ()

    @property
    def all_ways(self) -> tuple[WayOutline, ...]:
        """The ways in which it goes out, at least one."""
        return self.ways or (WayOutline("", self.questions),)


@dataclass(frozen=True, slots=True)
class PooledOutline:
    """A question as the first message asks it, and the ids of all messages that ask it on the same scale."""

    question: QuestionOutline
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExperimentOutline:
    """An experiment: the id of its message, the arms' weights, and the time of its verdict."""

    message: str
    weights: Mapping[str, float]
    analysis: AnalysisPlan = AnalysisPlan()


@dataclass(frozen=True, slots=True)
class CampaignOutline:
    """A campaign as its file has it.

    Attributes:
        messages: in its order.
        questions: of all messages, each once.
        score: the number of the question whose score is the campaign's, in `questions`; None for none.
        experiment: None without arms.
        has_control_group: whether some people are drawn to get nothing.
        time_zone: in which days are counted.
        not_before: when it may be sent at the earliest, if it says so.
        title: what people call it, if it says so.
        description: what it is about, if it says so.
        owner: whom to ask, if it says so.
        goal: what its score is to reach, in its unit.
    """

    messages: tuple[MessageOutline, ...]
    questions: tuple[PooledOutline, ...] = ()
    score: int | None = None
    experiment: ExperimentOutline | None = None
    has_control_group: bool = False
    time_zone: ZoneInfo = UTC_ZONE
    not_before: datetime | None = None
    title: str | None = None
    description: str | None = None
    owner: str | None = None
    goal: Fraction | None = None


@dataclass(frozen=True, slots=True)
class CampaignFacts:
    """A campaign, its target, and the outcome of each of its messages.

    Attributes:
        outline: the campaign as its file has it.
        audiences: by message id; none for messages that no `apply` has planned.
        doubtful: results that may opt out and wait for a decision, by message id.
        forgotten: people whom the service may still count, and the ledger does not.
        price: None if the service was never asked.
        differences: by message id, launches about whose answers the service contradicts itself.
    """

    name: str
    target: str
    outline: CampaignOutline
    totals: Mapping[str, MessageTotals] = field(default_factory=dict)
    audiences: Mapping[str, AudienceRow] = field(default_factory=dict)
    doubtful: Mapping[str, int] = field(default_factory=dict)
    forgotten: int = 0
    price: ServicePlan | None = None
    runs: tuple[RunRow, ...] = ()
    differences: Mapping[str, OpenDifferences] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """The kept part of an answer.

    Attributes:
        answer: `result_answer` of a multiple-choice answer; empty for a freeform one.
        label: the response's text; None for a text of the participant's own, which is not kept.
        number: the number on the question's scale; None if it does not read as one.
        concludes: whether it ends the survey.
    """

    answer: str = ""
    label: str | None = None
    number: Fraction | None = None
    concludes: bool = False


Paths = Mapping[tuple[str, str], int]
"""Participants by arm and path. A path has a character for each question of the message, in its order: `-`
not answered, `a` answered, `c` answered in a way that ends the survey. Of several answers of one participant
to one question the latest counts, here and everywhere."""


@dataclass(frozen=True, slots=True)
class ContactTally:
    """The recipients of one message's accepted launches, by what the service says of their sessions.

    Attributes:
        sent: all of them.
        listed: those whose session it lists.
        opted_out: those who opted out by a reply, or whose session an opt-out ended.
        texted: those whose text has left the service, by arm.
    """

    sent: int = 0
    listed: int = 0
    opted_out: int = 0
    texted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MessageTally:
    """The answers to one message, and its recipients.

    Attributes:
        results: all of them, with earlier answers of the same participant.
        refusals: those of them that are no answers: they opt out, or answer nothing.
        non_answers: those that answer nothing.
        paths: participants by arm and path.
        questions: participants by the reading of their answer, by tag, in the campaign's order.
        unknown: answers to questions that the campaign does not have, by tag.
        median_first_s: seconds from the start of the launch to a participant's first answer, the median.
        days: answers by day in the campaign's time zone.
        contacts: its recipients.
    """

    results: int = 0
    refusals: int = 0
    non_answers: int = 0
    paths: Paths = field(default_factory=dict)
    questions: Mapping[str, Mapping[AnswerReading, int]] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    median_first_s: Fraction | None = None
    days: Mapping[date, int] = field(default_factory=dict)
    contacts: ContactTally = ContactTally()

    @property
    def participants(self) -> int:
        """Participants with at least one result."""
        return sum(self.paths.values())


Readings = Mapping[int, Mapping[AnswerReading, int]]
"""People by the reading of their latest answer, by the question's number in `CampaignOutline.questions`."""


@dataclass(frozen=True, slots=True)
class GroupTally:
    """The people in one group of the audience, in one arm, or all: each once.

    Attributes:
        texted: people who got a text.
        answered: people with at least one answer.
        completed: people who reached the end of a survey; None where answers count only before a day.
        readings: of the campaign's scored questions.
    """

    texted: int = 0
    answered: int = 0
    completed: int | None = 0
    readings: Readings = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PeopleTally:
    """Everybody who was sent something, or may have been: each once, over all messages.

    Attributes:
        sent: people of accepted launches.
        unresolved: people only of launches whose outcome is not known.
        queued: people of `sent` whose texts all wait.
        blocked: people of `sent` whom an earlier opt-out kept from every text.
        withdrawn: people of `sent` whose texts all waited until the service ended their sessions.
        uncertain: people of `sent` of whom it is not known whether a text has left the service.
        texted: the others of `sent`.
        answered: people with at least one answer.
        completed: people who reached the end of a survey.
        opted_out: people who opted out after a text of the campaign.
        open: people with a session in a survey that has not ended.
        dispositions: people of surveys by the names of `Dispositions`.
    """

    sent: int = 0
    unresolved: int = 0
    queued: int = 0
    blocked: int = 0
    withdrawn: int = 0
    uncertain: int = 0
    texted: int = 0
    answered: int = 0
    completed: int = 0
    opted_out: int = 0
    open: int = 0
    dispositions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time of an experiment's verdict.

    Attributes:
        due: its day; None for a test at every look, and as long as that is not known.
        is_due: whether every launch was reconciled on that day or later; always for a test at every look.
        cutoff_us: the start of that day, once it is due, in microseconds since 1970: what came later does not
            count. None if everything does.
    """

    due: date | None = None
    is_due: bool = True
    cutoff_us: int | None = None


@dataclass(frozen=True, slots=True)
class ArmTally:
    """The people in the arms of the experiment.

    Attributes:
        assigned: people sent the message that has the arms, by arm.
        groups: by arm, as the verdict counts them: the people texted, and the answers that came, before its
            day, or all as long as it has not come, or there is none.
        answered_later: people of the arms with an answer on the day of the verdict or later.
        deadline: the time of the verdict.
    """

    assigned: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, GroupTally] = field(default_factory=dict)
    answered_later: int = 0
    deadline: Deadline = Deadline()


@dataclass(frozen=True, slots=True)
class PooledTally:
    """The latest answers to a question of several messages.

    Attributes:
        readings: people by the id of the message that has their latest answer, and its reading.
        asked: people who were asked it in some message.
    """

    readings: Mapping[tuple[str, AnswerReading], int] = field(default_factory=dict)
    asked: int = 0


@dataclass(frozen=True, slots=True)
class CampaignTally:
    """The answers to a campaign, and everybody who was sent something.

    Attributes:
        messages: by id.
        strays: results of unknown messages.
        people: over all messages.
        questions: those that several messages ask, by their number in `CampaignFacts.questions`.
        groups: by column of the audience, and its value.
        arms: None without an experiment.
    """

    messages: Mapping[str, MessageTally] = field(default_factory=dict)
    strays: int = 0
    people: PeopleTally = PeopleTally()
    questions: Mapping[int, PooledTally] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, GroupTally]] = field(default_factory=dict)
    arms: ArmTally | None = None
