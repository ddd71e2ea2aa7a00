"""The input of a report: the campaign's outline, the ledger's data on its sending, and counts of its results.

The counts merge by addition, so that parts of the results can be counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import date
    from fractions import Fraction

    from runner.campaign.model import ResponseValue
    from runner.ledger.report_model import (
        AudienceRow,
        MessageTotals,
        OpenDifferences,
        RunRow,
        SentRow,
        ServicePlan,
    )


Scale = Literal["nps", "csat", "ces", "number", "choice", "text"]
"""Scales of a question's answers, by their names in the campaign file."""


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
    """The time of an experiment's verdict: a day (UTC), or the people asked in each arm, which fix one.

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
    analysis: AnalysisPlan = AnalysisPlan()

    @property
    def all_ways(self) -> tuple[WayOutline, ...]:
        """The ways in which it goes out, at least one."""
        return self.ways or (WayOutline("", self.questions),)


@dataclass(frozen=True, slots=True)
class ScoreOutline:
    """The question whose score is the campaign's, as its first message asks it, and all their ids."""

    question: QuestionOutline
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OptOutFacts:
    """The opt-outs of a message: results that opt out, and session ends that the service itself reports.

    `doubtful` counts further results that wait for a decision.
    """

    replied: int = 0
    reported: int = 0
    doubtful: int = 0


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The sessions of a message, as the service lists them one by one.

    Attributes:
        listed: sessions.
        ended: of people without any result, whose session has ended, and not by an opt-out.
        stopped: of people without any result, whose session an opt-out ended, or kept from beginning.
        open: of people without any result, sessions that are queued or active, or of no known status.
        refused: people whose only results opt out.
        blocked: of `listed`, those that an earlier opt-out kept from beginning: nothing was rendered.
    """

    listed: int = 0
    ended: int = 0
    stopped: int = 0
    open: int = 0
    refused: int = 0
    blocked: int = 0


@dataclass(frozen=True, slots=True)
class CampaignFacts:
    """A campaign, its target, and the outcome of each of its messages.

    Attributes:
        sent: recipients by day and way.
        audiences: by message id; none for messages that no `apply` has planned.
        sessions: by message id; none for messages whose sessions the service never listed.
        forgotten: people whom the service may still count, and the ledger does not.
        price: None if the service was never asked.
        differences: by message id, launches about whose answers the service contradicts itself.
    """

    name: str
    target: str
    messages: tuple[tuple[MessageOutline, MessageTotals], ...]
    sent: tuple[SentRow, ...] = ()
    audiences: Mapping[str, AudienceRow] = field(default_factory=dict)
    opt_outs: Mapping[str, OptOutFacts] = field(default_factory=dict)
    sessions: Mapping[str, SessionFacts] = field(default_factory=dict)
    forgotten: int = 0
    price: ServicePlan | None = None
    runs: tuple[RunRow, ...] = ()
    differences: Mapping[str, OpenDifferences] = field(default_factory=dict)
    score: ScoreOutline | None = None


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
class QuestionTally:
    """The answers to one question of one message: participants by arm and by reading of their answer."""

    readings: Mapping[tuple[str, AnswerReading], int] = field(default_factory=dict)

    @property
    def answers(self) -> int:
        """Participants who answered."""
        return sum(self.readings.values())

    def count_readings(self, arm: str | None = None) -> Counter[AnswerReading]:
        """Return the participants by reading; of one arm if it is named."""
        found: Counter[AnswerReading] = Counter()
        for (one, reading), count in self.readings.items():
            if arm is None or arm == one:
                found[reading] += count
        return found


@dataclass(frozen=True, slots=True)
class GroupTally:
    """Recipients of accepted launches in one group of the audience, and their paths and readings.

    Paths are as in `MessageTally`; readings are by question tag, as in `QuestionTally`.
    """

    sent: int = 0
    paths: Paths = field(default_factory=dict)
    readings: Mapping[str, Mapping[AnswerReading, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DayTally:
    """The results of one day, UTC."""

    first_answers: int = 0
    answers: int = 0


@dataclass(frozen=True, slots=True)
class MessageTally:
    """The answers to one message.

    Attributes:
        results: all of them, with earlier answers of the same participant.
        refusals: those of them that are no answers: they opt out, or answer nothing.
        non_answers: those that answer nothing.
        paths: participants by arm and path.
        questions: by tag, in the campaign's order.
        unknown: answers to questions that the campaign does not have, by tag.
        first_s: participants by the whole seconds from the start of the launch to their first answer.
        groups: by the value of the requested column, by column.
        arm_days: participants by arm and the day of their first answer, UTC; of a message with arms. Answers
            without a readable time are on the first day of 1970.
    """

    results: int = 0
    refusals: int = 0
    non_answers: int = 0
    paths: Paths = field(default_factory=dict)
    questions: Mapping[str, QuestionTally] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    first_s: Mapping[int, int] = field(default_factory=dict)
    days: Mapping[date, DayTally] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, GroupTally]] = field(default_factory=dict)
    arm_days: Mapping[tuple[str, date], int] = field(default_factory=dict)

    @property
    def participants(self) -> int:
        """Participants with at least one result."""
        return sum(self.paths.values())


@dataclass(frozen=True, slots=True)
class CampaignTally:
    """The answers to a campaign; `participants` have at least one result, over all messages.

    `strays` are results of unknown messages. `pooled` has participants by the message of their latest answer
    to the score's question, and its reading.
    """

    messages: Mapping[str, MessageTally] = field(default_factory=dict)
    participants: int = 0
    strays: int = 0
    pooled: Mapping[tuple[str, AnswerReading], int] = field(default_factory=dict)
