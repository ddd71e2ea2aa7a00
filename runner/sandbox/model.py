"""The service's words as values (sections 1 to 3 of the reference)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

DEFAULT_OWN_NUMBER = "+15550100000"


class Status(StrEnum):
    """State of a session; the reference names COMPLETE alone (section 3), the other names are our own."""

    QUEUED = "QUEUED"
    ACTIVE = "ACTIVE"
    COMPLETE = "COMPLETE"


class Method(StrEnum):
    """How a session reaches its participant: the `method` of the send body."""

    SMS = "SMS"
    VOICE = "VOICE"


class Kind(StrEnum):
    """What a line of a session's transcript is: one of five renders, or what the participant wrote."""

    INTRODUCTION = "introduction"
    TEXT = "text"
    QUESTION = "question"
    REPEAT = "repeat"
    CONCLUSION = "conclusion"
    INBOUND = "inbound"


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a survey; `responses` is empty for a freeform one."""

    text: str
    tag: str = ""
    responses: tuple[str, ...] = ()
    conclude_on: str | None = None


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
        was_expected: whether a session waited for it; if not, the transcript keeps it and nothing changes.
        result_guid: the recorded result, or None if the text was no valid answer.
        prompt: what the participant is asked now, or None when nothing is open.
        completed: how many sessions this text brought to their end.
    """

    was_expected: bool
    result_guid: str | None
    prompt: Prompt | None
    completed: int
