"""The input of a report: the campaign's outline, the ledger's data on its sending, and counts of its results.

The counts merge by addition, so that parts of the results can be counted apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from runner.report.people_model import SampleReport
from runner.report.scores import divide

if TYPE_CHECKING:
    from datetime import date, datetime

    from runner.campaign.message_model import ResponseValue
    from runner.campaign.model import AudienceSample
    from runner.ledger.report_model import (
        AppliedStep,
        AudienceRow,
        MessageTotals,
        OpenDifferences,
        RunRow,
        ServicePlan,
    )
    from runner.report.cost import PaidCost
    from runner.report.people_model import PeopleReport
    from runner.report.question_model import Scale


UTC_ZONE = ZoneInfo("UTC")
_BARRED = ("excluded", "opted_out", "opt_out_doubtful", "control_group", "no_consent")


@dataclass(frozen=True, slots=True)
class QuestionOutline:
    """One question as the campaign asks it, with the tag of its results (`question_tag`).

    There are no responses for a freeform question. `values` are those that the campaign gives its responses,
    None for one whose text says it; empty if none. All of it is in the default language; `translations` has
    each response in all languages, the default first, unless there is one, and `endings` the answer that ends
    the survey early, if one does.
    """

    tag: str
    text: str
    responses: tuple[str, ...] = ()
    scale: Scale = "choice"
    values: tuple[ResponseValue | None, ...] = ()
    translations: tuple[tuple[str, ...], ...] = ()
    endings: tuple[str, ...] = ()

    @property
    def all_responses(self) -> Sequence[Sequence[str]]:
        """Each response in all languages, the default first."""
        return self.translations or [(text,) for text in self.responses]


Way = tuple[QuestionOutline, ...]
"""The questions of one way in which a message goes out."""


@dataclass(frozen=True, slots=True)
class MessageOutline:
    """One message as the campaign sends it, with the questions of all ways, each tag once.

    `ways` are by arm; without any there is one, of an empty arm. A plain text has no questions.
    """

    id: str
    tag: str
    questions: Way = ()
    ways: Mapping[str, Way] = field(default_factory=dict)

    @property
    def all_ways(self) -> Mapping[str, Way]:
        """The ways in which it goes out by arm, at least one."""
        return self.ways or {"": self.questions}


@dataclass(frozen=True, slots=True)
class PooledOutline:
    """A question of the campaign, over all messages and arms that ask it on the same scale.

    Attributes:
        question: as the first message asks it.
        messages: the ids of the messages.
        labels: of all responses, each once, with what they count as.
    """

    question: QuestionOutline
    messages: tuple[str, ...]
    labels: Mapping[str, Fraction | None] = field(default_factory=dict)

    @property
    def low_end(self) -> Fraction:
        """The highest low score: of `nps` detractors', else the second lowest point."""
        points = sorted({point for point in self.labels.values() if point is not None})
        return Fraction(6) if self.question.scale == "nps" else points[:2][-1]

    @property
    def is_whole(self) -> bool:
        """True if it has a score, and all that counts in it is a whole number."""
        points = [point for point in self.labels.values() if point is not None]
        return self.question.scale in ("nps", "csat", "ces") and all(
            point.denominator == 1 for point in points
        )


@dataclass(frozen=True, slots=True)
class ExperimentOutline:
    """An experiment: the id of its message, the arms' weights, and the time of its verdict.

    That is the day `at`, or follows from the people texted in each arm; with neither, a test that allows it
    is made at every look.
    """

    message: str
    weights: Mapping[str, float]
    at: date | None = None
    per_arm: int | None = None

    @property
    def is_fixed(self) -> bool:
        """True if the verdict is taken once."""
        return self.at is not None or self.per_arm is not None


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
        sample: the part of the audience that it texts; None for all.
        completes: people who have answered to the end, after whom nobody is texted any more.
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
    sample: AudienceSample | None = None
    completes: int | None = None


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
        wave: that all of this is of; empty if the campaign has none.
        step: the open step of its rollout in the last `apply`; None if it has none, or that is not known.
        cost: None if the target has no prices.
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
    wave: str = ""
    step: AppliedStep | None = None
    cost: PaidCost | None = None

    def describe_sample(self, people: PeopleReport) -> SampleReport | None:
        """Return what the last plan found of the sample, whose `people` were texted.

        It is not known if that plan was of another audience: then more people have texts than it has drawn.
        """
        sample = self.outline.sample
        if sample is None:
            return None
        if not self.audiences:
            return SampleReport(None, None, sample.share)
        # A sample that has everybody leaves nobody out: zeros are not recorded.
        row = max(self.audiences.values(), key=lambda one: one.dispositions.get("not_sampled", 0))
        eligible = row.recipients - sum(row.dispositions.get(name, 0) for name in _BARRED)
        drawn = eligible - row.dispositions.get("not_sampled", 0)
        if (people.recipients or 0) > drawn:
            return SampleReport(None, None, sample.share)
        return SampleReport(eligible, drawn, sample.share or divide(drawn, eligible))


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


Tally = Mapping[AnswerReading, int]
"""People by the reading of their latest answer to a question, here and everywhere."""


@dataclass(frozen=True, slots=True)
class MessageTally:
    """The answers to one message, and its recipients.

    Attributes:
        sent: texts of accepted launches: people have several of a message that goes by dates.
        listed: those of them whose session the service lists.
        texted: recipients to whom a text has left the service.
        answered: participants with at least one result.
        completed: participants who answered the last question, or ended the survey early.
        opted_out: people who opted out by a reply, or whose session an opt-out ended.
        results: all of them, with earlier answers of the same participant.
        non_answers: those that answer nothing.
        unknown: answers to questions that the campaign does not have, by tag.
        questions: by tag, in the campaign's order.
        asked: people who were asked each question, by tag.
        median_first_s: seconds from the start of the launch to a participant's first answer, the median.
        days: answers by day in the campaign's time zone.
    """

    sent: int = 0
    listed: int = 0
    texted: int = 0
    answered: int = 0
    completed: int = 0
    opted_out: int = 0
    results: int = 0
    non_answers: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)
    questions: Mapping[str, Tally] = field(default_factory=dict)
    asked: Mapping[str, int] = field(default_factory=dict)
    median_first_s: Fraction | None = None
    days: Mapping[date, int] = field(default_factory=dict)


Readings = Mapping[int, Tally]
"""Of questions by their number in `CampaignOutline.questions`."""


@dataclass(frozen=True, slots=True)
class GroupTally:
    """The people in one group of the audience, in one arm, or all: each once.

    Attributes:
        texted: people who got a text.
        answered: people with at least one answer.
        completed: people who reached the end of a survey; None where answers count only before a day.
        readings: of the campaign's scored questions.
        people: all who were sent something, or may have been.
    """

    texted: int = 0
    answered: int = 0
    completed: int | None = 0
    readings: Readings = field(default_factory=dict)
    people: int = 0


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
        groups: by arm, with all people sent the message that has the arms. As the verdict counts them: the
            people texted, and the answers that came, before its day, or all as long as it has not come, or
            there is none.
        answered_later: people of the arms with an answer on the day of the verdict or later.
        deadline: the time of the verdict.
    """

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
        people: over all messages, without rates.
        strays: results of unknown messages.
        questions: those that several messages ask, by their number in `CampaignOutline.questions`.
        groups: by column of the audience, and its value.
        arms: None without an experiment.
        readings: by the numbers that the engine's tables have for them.
    """

    messages: Mapping[str, MessageTally]
    people: PeopleReport
    strays: int = 0
    questions: Mapping[int, PooledTally] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, GroupTally]] = field(default_factory=dict)
    arms: ArmTally | None = None
    readings: Sequence[AnswerReading] = ()
