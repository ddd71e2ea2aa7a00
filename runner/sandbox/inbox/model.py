"""What the pages of the inbox show, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from runner.sandbox.inbox.segment import Airtime
    from runner.sandbox.model import Method, Plan

Item = TypeVar("Item")

NO_LIMIT = (1 << 63) - 1
"""SQLite's largest integer: every id is below it."""
UNREAD_MAX = 99
"""Unread messages of a phone are counted up to here; one more stands for "more than that"."""


@dataclass(frozen=True, slots=True)
class Batch(Generic[Item]):
    """Some of a long list, newest first.

    Attributes:
        items: those of this page.
        before: where the next page begins: it holds what is older than this id; None on the last page.
    """

    items: Sequence[Item]
    before: int | None


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch with its progress.

    Attributes:
        excerpt: the first thing that it says or asks.
        document: the project definition as it was sent, as JSON text.
        undeliverable: addresses of webhooks that nothing can be sent to.
    """

    id: int
    guid: str
    started: datetime
    tag: str
    method: Method
    excerpt: str = field(repr=False)
    document: str = field(repr=False)
    question_count: int
    undeliverable: Sequence[str] = field(repr=False)
    queued: int
    active: int
    complete: int
    renders: int
    results: int

    @property
    def sessions(self) -> int:
        """How many sessions it has, one a phone."""
        return self.queued + self.active + self.complete


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a launch, as the launch's page lists it."""

    id: int
    participant_guid: str
    phone: str = field(repr=False)
    status: str
    sub_status: str | None
    updated: datetime


@dataclass(frozen=True, slots=True)
class Phone:
    """A phone as the list of phones shows it.

    Attributes:
        last_text: the last line of its transcript.
        is_last_own: whether the phone's owner wrote that line.
        unread: messages that nobody has looked at, counted up to `UNREAD_MAX` + 1.
        is_asked: whether a question waits for its answer.
    """

    guid: str
    number: str = field(repr=False)
    last_text: str = field(repr=False)
    last_at: datetime
    is_last_own: bool
    unread: int
    is_asked: bool
    has_opted_out: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a transcript: a bubble.

    Attributes:
        kind: the `Kind` of the line.
        airtime: what it takes on the air; None for what the phone's owner wrote, and for calls.
        session_id: the session that it belongs to, if any.
    """

    id: int
    kind: str
    text: str = field(repr=False)
    at: datetime
    airtime: Airtime | None
    session_id: int | None

    @property
    def is_own(self) -> bool:
        """Whether the phone's owner wrote it."""
        return self.kind == "inbound"

    @property
    def is_render(self) -> bool:
        """Whether the plan is charged for it."""
        return self.kind not in {"inbound", "notice"}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines that follow each other in one session, or outside of any.

    Attributes:
        launch: whose session it is; None outside of any.
        status: the session's state, and `sub_status` why it ended early.
    """

    launch: Launch | None
    status: str
    sub_status: str | None
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer that one tap gives.

    Attributes:
        number: None on a scale, whose responses are numbers themselves.
        reply: what is sent for it.
    """

    number: int | None
    text: str
    reply: str


@dataclass(frozen=True, slots=True)
class Thread:
    """The conversation with one phone.

    Attributes:
        stretches: its lines, oldest first.
        before: older lines have ids below this one; None where these are the first.
        last_id: the newest line's id, 0 where there is none.
        is_asked: whether a question waits for its answer.
        choices: what that question offers; empty where it is freeform.
        queued: sessions that wait for the active one to end.
    """

    participant_id: int
    guid: str
    number: str = field(repr=False)
    has_opted_out: bool
    stretches: Sequence[Stretch]
    before: int | None
    last_id: int
    is_asked: bool
    choices: Sequence[Choice]
    queued: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stands."""

    line_id: int
    participant_guid: str
    number: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that a search found, the newest of those with its text.

    Attributes:
        others: where the same was sent to, or written by, other phones.
    """

    place: Place
    text: str = field(repr=False)
    is_own: bool
    at: datetime
    others: Sequence[Place]


@dataclass(frozen=True, slots=True)
class Usage:
    """What stands on top of every page: how much of the plan is used, and what time the service has.

    Attributes:
        ahead: how far the service's clock is moved.
    """

    plan: Plan
    renders: int
    now: datetime
    ahead: timedelta

    @property
    def is_used_up(self) -> bool:
        """Whether further sends are refused."""
        return self.renders >= self.plan.renders_max
