"""The service's records as a client keeps them (reference, section 2; wire facts)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeAlias

Guid: TypeAlias = str
"""What the service names a thing by: visible ASCII, which is short."""
Phone: TypeAlias = str
"""A phone number with its leading `+`, and nothing else between its digits."""

Count: TypeAlias = int | None
"""A count of the service's; None if it says none, or none that can be read."""

Place: TypeAlias = int | None
"""Where something stands in an order; None likewise."""

Words: TypeAlias = str
"""A text that was told, if only an empty one."""

Detail: TypeAlias = str
"""A text that nothing depends on; empty if the service says none."""

Statuses: TypeAlias = tuple[str, ...]
"""The states of sessions, in capitals; empty where the service says none."""

Stopped: TypeAlias = tuple[Phone, ...]
"""The phones of those whose sessions an opt-out has ended, or kept from beginning."""

Blocked: TypeAlias = tuple[Phone, ...]
"""The phones of those whose sessions an earlier opt-out has kept from beginning."""


@dataclass(frozen=True, slots=True)
class SendReply:
    """What became of one POST.

    Attributes:
        outcome: `sent`; `not_sent`, nothing left this machine; `rejected`, the service blames the request; or
            `unknown`, anything else: it may have been accepted.
        project_launch_guid: the service's name for the launch, of `sent` ones.
        detail: why it is not `sent`, for people; without credentials and plain phone numbers.
        status: the HTTP status, if there was one.
        is_final_for_run: whether every further send would meet the same.
        may_retry: whether the same launch may be sent again: it has certainly not been accepted, and the
            reason may pass.
        is_busy: whether the service asks to be left alone for a while: 429 or 503.
        retry_after_s: for how many seconds, if it says so.
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
    """One launch: its counts, what was sent and to whom (reference, 2.3).

    A count that is None is not known: the service leaves it out, or writes what is no count.

    Attributes:
        project_definition: the send body less the phones, as the service keeps it.
        recipients: `sessions[].to`, E.164; none if the service doesn't say, or not yet.
        stopped: those of them who opted out, as far as `sessions[].sub_status` says.
        blocked: those of `stopped` who had opted out before, so that nothing reached them.
        statuses: of their sessions, in the order of `recipients`.
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
    stopped: Stopped = field(default=(), repr=False, metadata={"wire": "sessions"})
    blocked: Blocked = field(default=(), repr=False, metadata={"wire": "sessions"})
    statuses: Statuses = field(default=(), repr=False, metadata={"wire": "sessions"})

    @property
    def is_whole(self) -> bool:
        """Whether all whom it has reached are among `recipients`, as far as its counts tell."""
        counts = (self.num_active_sessions, self.num_complete_sessions, self.num_queued_sessions)
        return bool(self.recipients) and len(self.recipients) >= sum(count or 0 for count in counts)

    @property
    def missing_counts(self) -> list[str]:
        """The names of the counts that are not known."""
        return [name for name in COUNTS if getattr(self, name) is None]


COUNTS = tuple(one.name for one in fields(StatRecord) if one.type == "Count")
"""The names of a launch's counts."""


@dataclass(frozen=True, slots=True)
class PlanUsage:
    """What the service's plan allows and costs (reference, 2.2: `meta.plan`).

    Attributes:
        renders_used: renders of the plan that were used.
        renders_max: renders that it allows.
        name: the plan's; empty if the service does not say.
        price_usd: decimal text; None if the service does not say.
    """

    renders_used: int
    renders_max: int
    name: str = ""
    price_usd: str | None = None

    @property
    def is_used_up(self) -> bool:
        """Whether the plan has no render left."""
        return self.renders_used >= self.renders_max


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """One result (reference, 2.1): whose it is and what they said must be told, the rest need not."""

    kind: ClassVar[str] = "result"

    result_guid: str
    project_launch_guid: Guid
    participant_phone_number: Phone
    question_guid: Detail
    question_tag: Detail
    question_text: Detail
    question_display_order: Place
    result_answer: Detail
    result_response: Words
    created: Detail
    updated: Detail
