"""The service's terms as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from operator import add
from typing import NamedTuple

OWN_NUMBER = "+15550100000"
"""The number that the service sends from, in E.164."""


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Base URL (without a final slash) and credentials of a running service."""

    url: str
    username: str
    api_key: str = field(repr=False)


class Status(StrEnum):
    """State of a session; only COMPLETE is documented, the other names are our own."""

    QUEUED = "QUEUED"
    ACTIVE = "ACTIVE"
    COMPLETE = "COMPLETE"


class SubStatus(StrEnum):
    """Reason for a session's early end, in words of our own; else null."""

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
    """Channel between a session and its participant."""

    SMS = "SMS"
    VOICE = "VOICE"


class Keyword(StrEnum):
    """Requests by command words, valid in any conversation."""

    OPT_OUT = "STOP"
    OPT_IN = "START"
    HELP = "HELP"


class Kind(StrEnum):
    """Kinds of a transcript's lines: renders, a participant's text, or a free notice after a command word."""

    INTRODUCTION = "introduction"
    TEXT = "text"
    QUESTION = "question"
    REPEAT = "repeat"
    CONCLUSION = "conclusion"
    INBOUND = "inbound"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class ServiceQuestion:
    """One question of a survey; `responses` is empty for a freeform one, `webhook` receives each result."""

    text: str
    tag: str = ""
    responses: tuple[str, ...] = ()
    conclude_on: str | None = None
    webhook: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Definition:
    """A project; `document` is the send body without `phone` in JSON, the stats' `project_definition`."""

    document: str
    text: str | None = None
    questions: tuple[ServiceQuestion, ...] = ()
    introduction: str | None = None
    conclusion: str | None = None
    tag: str = ""
    method: Method = Method.SMS
    completes_existing: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The account's plan: `meta.plan` of the stats list, without its usage."""

    name: str = "sandbox"
    price_usd: str = "0.00"
    renders_max: int = 1_000_000


DEFAULT_PLAN = Plan()


class Tally(NamedTuple):
    """Changes to the counts of one launch; its fields are the columns `COUNTS`."""

    messages: int = 0
    questions: int = 0
    renders: int = 0
    results: int = 0
    queued: int = 0
    active: int = 0
    complete: int = 0

    def plus(self, other: Tally) -> Tally:
        """Return the sum of both."""
        return Tally(*map(add, self, other))


COUNTS = Tally._fields


@dataclass(frozen=True, slots=True)
class Prompt:
    """The question that a participant is being asked, with its session and its index from 0."""

    session_id: int
    definition: Definition = field(repr=False)
    position: int

    @property
    def question(self) -> ServiceQuestion:
        """The question itself."""
        return self.definition.questions[self.position]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of a text from a participant.

    Attributes:
        was_expected: True if a session took it as an answer; otherwise only commands change more than the
            transcript.
        result_guid: the recorded result; None if the text was no valid answer.
        prompt: the question that now waits, if any.
        completed: number of sessions that this text completed.
        keyword: the command, if it was one.
    """

    was_expected: bool
    result_guid: str | None = None
    prompt: Prompt | None = None
    completed: int = 0
    keyword: Keyword | None = None
