"""The service's words as values (sections 1 to 3 of the reference)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

DEFAULT_OWN_NUMBER = "+15550100000"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where a running service is reached, and as whom.

    Attributes:
        url: the base URL, without a slash at its end.
        username: goes into the query of every request.
        api_key: goes there too, and is kept out of the repr.
    """

    url: str
    username: str
    api_key: str = field(repr=False)


class Status(StrEnum):
    """State of a session; the reference names COMPLETE alone (section 3), the other names are our own."""

    QUEUED = "QUEUED"
    ACTIVE = "ACTIVE"
    COMPLETE = "COMPLETE"


class SubStatus(StrEnum):
    """Why a session ended early (section 3 names none: the words are our own); null where it simply ended."""

    CONCLUDED = "CONCLUDED"
    """An answer matched `conclude_on`, and questions were skipped."""
    REPLACED = "REPLACED"
    """A later send said `complete_existing_sessions`."""
    EXPIRED = "EXPIRED"
    """Nobody answered in time."""
    OPTED_OUT = "OPTED_OUT"
    """The participant opted out while it was open."""
    BLOCKED = "BLOCKED"
    """The participant had opted out before it was sent: nothing was rendered."""


class Method(StrEnum):
    """How a session reaches its participant: the `method` of the send body, whose case does not matter."""

    SMS = "SMS"
    VOICE = "VOICE"

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        folded = value.lower() if isinstance(value, str) else None
        return next((method for method in cls if method.value.lower() == folded), None)


class Keyword(StrEnum):
    """What a command word asks of the service, whatever conversation is open."""

    OPT_OUT = "STOP"
    OPT_IN = "START"
    HELP = "HELP"


class Kind(StrEnum):
    """What a line of a transcript is: one of five renders, what the participant wrote, or a notice.

    A notice answers a command word. It belongs to no project and costs no render.
    """

    INTRODUCTION = "introduction"
    TEXT = "text"
    QUESTION = "question"
    REPEAT = "repeat"
    CONCLUSION = "conclusion"
    INBOUND = "inbound"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a survey; `responses` is empty for a freeform one, `webhook` is told each result."""

    text: str
    tag: str = ""
    responses: tuple[str, ...] = ()
    conclude_on: str | None = None
    webhook: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Definition:
    """A project as the service plays it: what stands in the send body beside `phone`.

    Attributes:
        document: the body as sent, less `phone`, as JSON text: what stats give back as `project_definition`.
    """

    document: str
    text: str | None = None
    questions: tuple[Question, ...] = ()
    introduction: str | None = None
    conclusion: str | None = None
    tag: str = ""
    method: Method = Method.SMS
    completes_existing: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What the account has bought: `meta.plan` of the stats list, less what is used."""

    name: str = "sandbox"
    price_usd: str = "0.00"
    renders_max: int = 1_000_000


COUNTS = ("messages", "questions", "renders", "results", "queued", "active", "complete")


@dataclass(frozen=True, slots=True)
class Tally:
    """Changes to the counts of one launch; its fields are `COUNTS`, the columns that they are added to."""

    messages: int = 0
    questions: int = 0
    renders: int = 0
    results: int = 0
    queued: int = 0
    active: int = 0
    complete: int = 0

    def plus(self, other: Self) -> Self:
        """Give the sum of both."""
        return type(self)(*map(sum, zip(self.counts(), other.counts(), strict=True)))

    def counts(self) -> tuple[int, ...]:
        """Give the counts in the order of the columns `COUNTS`."""
        return (
            self.messages,
            self.questions,
            self.renders,
            self.results,
            self.queued,
            self.active,
            self.complete,
        )


@dataclass(frozen=True, slots=True)
class Prompt:
    """The question that a participant is being asked.

    Attributes:
        session_id: the session that asks.
        definition: the project that the session plays.
        position: index of the question, from 0.
    """

    session_id: int
    definition: Definition = field(repr=False)
    position: int

    @property
    def question(self) -> Question:
        """The question itself."""
        return self.definition.questions[self.position]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a text from a participant.

    Attributes:
        was_expected: whether a session took it as an answer; if not, the transcript keeps it and nothing else
            changes, unless it was a command.
        result_guid: the recorded result, or None if the text was no valid answer.
        prompt: what the participant is asked now, or None when nothing is open.
        completed: how many sessions this text brought to their end.
        keyword: the command that it was, if any.
    """

    was_expected: bool
    result_guid: str | None
    prompt: Prompt | None
    completed: int
    keyword: Keyword | None = None
