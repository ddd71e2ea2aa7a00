"""The service's records as a client keeps them (reference, section 2; wire facts)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True, slots=True)
class SendReply:
    """What became of one POST (design: delivery, step 3).

    Attributes:
        outcome: `sent`; `not_sent`, nothing left this machine; `rejected`, the service refused; or `unknown`.
        project_launch_guid: the service's name for the launch, of `sent` ones.
        detail: why it is not `sent`, for people; without credentials and plain phone numbers.
        status: the HTTP status, if there was one.
        is_final_for_run: whether every further send would meet the same.
    """

    outcome: Literal["sent", "not_sent", "rejected", "unknown"]
    project_launch_guid: str | None = None
    detail: str | None = None
    status: int | None = None
    is_final_for_run: bool = False


@dataclass(frozen=True, slots=True)
class StatRecord:
    """One launch's counts (reference, 2.3)."""

    kind: ClassVar[str] = "stat"

    project_launch_guid: str
    project_launch_start: str
    num_active_sessions: int
    num_complete_sessions: int
    num_messages: int
    num_questions: int
    num_queued_sessions: int
    num_renders: int
    num_results: int


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """One result (reference, 2.1)."""

    kind: ClassVar[str] = "result"

    result_guid: str
    project_launch_guid: str
    participant_phone_number: str
    question_guid: str
    question_tag: str
    question_text: str
    question_display_order: int
    result_answer: str
    result_response: str
    created: str
    updated: str
