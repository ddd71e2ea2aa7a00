"""The service's records as a client keeps them (schemas/service.openapi.yaml)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

PAGE = 100
"""Records asked for at a time; no maximum is documented, so a page may come back smaller."""

Record = TypeVar("Record")

Guid: TypeAlias = str
"""The service's name for a thing: short visible ASCII."""
Name: TypeAlias = str
"""A name in any characters, at least one."""
Phone: TypeAlias = str
"""A phone number with its leading `+`, and nothing else between its digits."""

Author: TypeAlias = str
"""The phone of a result: a `Phone` if it is written with its country code, else its digits alone, which may
lack that code."""

Count: TypeAlias = int | None
"""A count of the service's, or a place in an order; None if it says none, or none that can be read."""

Words: TypeAlias = str
"""A text that was told, if only an empty one."""

Detail: TypeAlias = str
"""A text that nothing depends on; empty if the service says none."""

Statuses: TypeAlias = tuple[str, ...]
"""The states of sessions, in capitals; empty where the service says none."""

Endings: TypeAlias = tuple[str, ...]
"""The `sub_status` of sessions, in capitals; empty where the service says none."""


@dataclass(frozen=True, slots=True)
class SendReply:
    """The outcome of one POST.

    Attributes:
        outcome: `sent`; `not_sent`, nothing left this machine; `rejected`, the request is wrong; or
            `unknown`, it may have been accepted.
        project_launch_guid: of a `sent` launch.
        detail: the reason for another outcome, for people; without credentials and plain phone numbers.
        is_final_for_run: True if every further send would fail likewise.
        may_retry: True if the launch was certainly not accepted and the reason may pass.
        is_busy: True for 429 and 503.
        retry_after_s: seconds to pause, if the service names them.
    """

    outcome: Literal["sent", "not_sent", "rejected", "unknown"]
    project_launch_guid: str | None = None
    detail: str | None = None
    status: int | None = None
    is_final_for_run: bool = False
    may_retry: bool = False
    is_busy: bool = False
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class StatRecord:
    """One launch: its counts, its definition and its recipients.

    A count is None if it is missing or invalid.

    Attributes:
        project_definition: the send body less the phones.
        recipients: `sessions[].to`, E.164; empty until the service lists them.
        statuses: of the sessions, in the order of `recipients`.
        endings: likewise; only null is known of other services, and the sandbox's words: `OPTED_OUT`,
            `BLOCKED` by an earlier opt-out so that nothing was sent, or `REPLACED` by a later send.
    """

    kind: ClassVar[str] = "stat"

    project_launch_guid: Guid
    project_launch_start: str
    num_active_sessions: Count
    num_complete_sessions: Count
    num_messages: Count
    num_questions: Count
    num_queued_sessions: Count
    num_renders: Count
    num_results: Count
    project_tag: str
    project_definition: dict[str, Any] = field(repr=False)
    recipients: tuple[Phone, ...] = field(repr=False, metadata={"wire": "sessions"})
    statuses: Statuses = field(default=(), repr=False, metadata={"wire": "sessions"})
    endings: Endings = field(default=(), repr=False, metadata={"wire": "sessions"})

    @property
    def is_whole(self) -> bool:
        """True if `recipients` is complete, judging by the counts."""
        counts = (self.num_active_sessions, self.num_complete_sessions, self.num_queued_sessions)
        return bool(self.recipients) and len(self.recipients) >= sum(count or 0 for count in counts)

    @property
    def missing_counts(self) -> list[str]:
        """The names of the unknown counts."""
        return [name for name in COUNTS if getattr(self, name) is None]


COUNTS = tuple(one.name for one in fields(StatRecord) if one.type == "Count")
"""The names of a launch's counts."""


@dataclass(frozen=True, slots=True)
class PlanUsage:
    """The allowance of the service's plan in renders, and its cost as decimal text."""

    renders_used: int
    renders_max: int
    name: str = ""
    price_usd: str | None = None

    @property
    def is_used_up(self) -> bool:
        """True if the plan has no render left."""
        return self.renders_used >= self.renders_max


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """One result; only the person and the answer are required."""

    kind: ClassVar[str] = "result"

    result_guid: Name
    project_launch_guid: Guid
    participant_phone_number: Author
    question_guid: Detail
    question_tag: Detail
    question_text: Detail
    question_display_order: Count
    result_answer: Detail
    result_response: Words
    created: Detail
    updated: Detail


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that cannot be read.

    Attributes:
        guid: a result's result_guid; empty if that cannot be read either.
        project_launch_guid: the identifier that the service has given the launch; empty likewise.
        position: place in the service's list, from 0.
        problem: what it lacks, for people.
    """

    guid: str
    project_launch_guid: str
    position: int
    problem: str


@dataclass(frozen=True, slots=True)
class Page(Generic[Record]):
    """One page of a list, in the service's order; `total_count` is the whole list's, if given.

    `partial` is what can be read of unreadable results: perhaps no launch, no person, or no answer.
    """

    records: tuple[Record, ...]
    unreadable: tuple[Unreadable, ...]
    total_count: int | None
    partial: tuple[Record, ...] = ()

    @property
    def size(self) -> int:
        """The number of records that the service gave."""
        return len(self.records) + len(self.unreadable)

    def repeats(self, other: Page[Record] | None) -> bool:
        """Return True if another page has the same records: the list has not moved on."""
        return other is not None and bool(self.records) and self.records == other.records
