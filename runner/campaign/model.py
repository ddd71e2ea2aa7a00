"""What a campaign file says, as values: no file is read and nothing is rendered here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from runner.campaign.policy import Limits, Policy
from runner.timing.schedule import Schedule

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from runner.campaign.position import Position
    from runner.campaign.recipients import RecipientSource, Variables


Scale = Literal["nps", "csat", "ces", "number", "choice", "text"]
Method = Literal["SMS", "VOICE"]
LockfileKind = Literal["full", "summary"]
Replies = Literal["ignored", "recorded"]
Addressees = Literal["everyone", "answered", "unanswered"]
"""Whom of an earlier message's recipients a follow-up is for: `to`."""

REPLY_TAG = "reply"
"""The tag of the question that a plain text becomes whose replies are recorded."""

DEFAULT_RECIPIENTS_PER_SEND = 500
"""Phones in one send when nobody says otherwise; the reference shows no maximum (section 8)."""


_OVERRIDES = (
    "tag",
    "text",
    "introduction",
    "questions",
    "conclusion",
    "method",
    "complete_existing_sessions",
)
"""What an arm may say in the place of its message."""


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A Jinja2 template as it stands in the campaign file.

    Attributes:
        source: the template's text.
        position: where the value starts in the file.
        first_line: the line of the file that holds the template's first line.
        indent: the column of the file at which the template's lines start, from 1.
        is_block: whether one line of the template is one line of the file (a `|` scalar).
    """

    source: str
    position: Position
    first_line: int
    indent: int
    is_block: bool


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a survey; `responses` is empty for a freeform one."""

    tag: str
    text: TemplateText
    responses: tuple[TemplateText, ...] = ()
    scale: Scale = "choice"
    conclude_on: TemplateText | None = None


def ask_openly(text: TemplateText) -> tuple[Question, ...]:
    """Return a plain text as the one open question that records replies to it."""
    return (Question(REPLY_TAG, text, scale="text"),)


@dataclass(frozen=True, slots=True)
class After:
    """What a follow-up comes after.

    Attributes:
        message: the id of an earlier message of the campaign.
        wait: how long after it was sent.
        position: where the id stands.
    """

    message: str
    wait: timedelta
    position: Position


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a campaign: a plain `text`, or a survey of `questions`.

    Attributes:
        after: of a follow-up, what it comes after.
        to: whom of that message's recipients it is for.
        renamed_from: the ids that it had before.
        replies: whether replies to its text are results: the text is one open question then (`ask_openly`).
    """

    id: str
    tag: str
    position: Position
    text: TemplateText | None = None
    introduction: TemplateText | None = None
    questions: tuple[Question, ...] = ()
    conclusion: TemplateText | None = None
    method: Method = "SMS"
    complete_existing_sessions: bool = False
    renamed_from: tuple[str, ...] = ()
    after: After | None = None
    to: Addressees = "everyone"
    replies: Replies = "ignored"


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of an experiment. What is None it takes from the message.

    Attributes:
        id: names the arm, in reports and in the draw: an arm that gets another id draws anew.
        weight: its share is this over the sum of all weights; 0 closes it to newcomers.
        position: where the id stands.
        tag: a project tag of its own.
        text: in the place of the message's.
        introduction: in the place of the message's.
        questions: all of them, in the place of the message's.
        conclusion: in the place of the message's.
        method: in the place of the message's.
        complete_existing_sessions: in the place of the message's.
    """

    id: str
    weight: float
    position: Position
    tag: str | None = None
    text: TemplateText | None = None
    introduction: TemplateText | None = None
    questions: tuple[Question, ...] | None = None
    conclusion: TemplateText | None = None
    method: Method | None = None
    complete_existing_sessions: bool | None = None

    def apply_to(self, message: Message) -> Message:
        """Return the message as this arm sends it.

        Its id stays: a delivery is (campaign, message, phone), so nobody who moves gets it twice.
        """
        said = {name: value for name in _OVERRIDES if (value := getattr(self, name)) is not None}
        if message.replies == "recorded" and self.text is not None:
            said.update(text=None, questions=ask_openly(self.text))
        return replace(message, **said)


@dataclass(frozen=True, slots=True)
class Analysis:
    """When the verdict on an experiment is taken; with neither, at every look.

    Attributes:
        at: a day, ISO 8601, UTC; it may be one that the calendar does not have.
        per_arm: people to ask in each arm.
        position: where `at` stands, or what there is of it.
    """

    position: Position
    at: str | None = None
    per_arm: int | None = None


@dataclass(frozen=True, slots=True)
class Variants:
    """An experiment.

    Attributes:
        seed: of the draw. Campaigns with the same seed, arms and weights put everyone into the same arm.
        of: the id of the message that the arms vary; None if there is a holdout alone.
        arms: in any order; none if there is a holdout alone.
        position: where `of` stands, or what there is of the experiment.
        holdout: the share, from 0 to below 1, of recipients that the campaign sends nothing.
        analysis: when the verdict is taken; None if the campaign does not say.
    """

    seed: str
    of: str | None
    arms: tuple[Arm, ...]
    position: Position
    holdout: float = 0.0
    analysis: Analysis | None = None


@dataclass(frozen=True, slots=True)
class Campaign:
    """A whole campaign file.

    Attributes:
        name: unique in the repository; one third of a delivery's identity.
        position: where the name stands; the file's start when the file's own name is the name.
        file: the campaign file.
        root: the folder below which this campaign may read files.
        vars: template variables for every recipient.
        recipients: the audience's sources, in order: the first mention of a phone wins.
        exclude: phones that this campaign never texts.
        messages: in the order of the file.
        limits: the campaign's safety limits.
        renamed_from: names that it had before.
        variants: the experiment, if there is one.
        schedule: when it may send.
        policy: the rules that it keeps.
        lockfile: whether its lockfile holds every launch, or sums them up.
        export_columns: of the audience, that files of answers have, each with where it stands.
        score: the tag of the question whose score is the campaign's; None to go by what messages share.
    """

    name: str
    position: Position
    file: Path
    root: Path
    messages: tuple[Message, ...]
    recipients: tuple[RecipientSource, ...]
    exclude: tuple[RecipientSource, ...] = ()
    vars: Variables = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    renamed_from: tuple[str, ...] = ()
    variants: Variants | None = None
    schedule: Schedule = field(default_factory=Schedule)
    policy: Policy = field(default_factory=Policy)
    lockfile: LockfileKind = "full"
    export_columns: tuple[tuple[str, Position], ...] = ()
    score: str | None = None

    @property
    def message_ids(self) -> dict[str, str]:
        """The ids of the messages, by those that they have and those that they had before."""
        return {name: message.id for message in self.messages for name in (*message.renamed_from, message.id)}

    def list_earlier(self) -> set[str]:
        """Return the ids of the messages that others come after."""
        return {message.after.message for message in self.messages if message.after is not None}

    def list_surveys(self) -> frozenset[str]:
        """Return the ids of the messages that ask something, in any arm."""
        return frozenset(message.id for message in self.messages if self.asks(message))

    def asks(self, message: Message) -> bool:
        """Return whether a message has questions, in any arm."""
        return any(one.questions for one in (message, *self.list_arms(message.id).values()))

    def list_arms(self, message_id: str) -> dict[str, Message]:
        """Return a message as each arm of the experiment sends it; nothing if it has no arms."""
        if self.variants is None or self.variants.of != message_id:
            return {}
        message = next(message for message in self.messages if message.id == message_id)
        return {arm.id: arm.apply_to(message) for arm in self.variants.arms}

    def list_tags(self, message_id: str) -> tuple[str, ...]:
        """Return the project tags that a message is sent with."""
        message = next(message for message in self.messages if message.id == message_id)
        varied = self.list_arms(message_id).values()
        return tuple(dict.fromkeys(one.tag for one in varied)) or (message.tag,)
