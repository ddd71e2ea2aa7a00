"""What the ledger tells others, as values: no SQL here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

LaunchState = Literal["intent", "sent", "not_sent", "rejected", "unknown", "unexplained"]
"""`intent`: recorded before the POST, no outcome yet; `unknown`: it may have been accepted; `unexplained`:
the service lists it, and no record says whose it is."""


@dataclass(frozen=True, slots=True)
class Run:
    """One `apply` that was about to send.

    Attributes:
        id: a digest of all the rest: the same run has the same id in every record, and merged records need
            no new numbers.
        started_at: UTC, ISO 8601.
        plan_digest: of what it was to send: as `runner plan` prints it.
        commit: of the repository that the campaigns are in; None outside of one.
        dirty: whether files of the campaigns differed from that commit.
        run_url: the page of the CI job; None elsewhere.
        triggered_by: by whose hand the job ran, as the CI system calls them; None elsewhere.
    """

    id: str
    started_at: str
    plan_digest: str
    commit: str | None = None
    dirty: bool = False
    run_url: str | None = None
    triggered_by: str | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """A launch about to be sent.

    Attributes:
        message: the message's id.
        key: names the launch: a digest of campaign, message, payload and recipients.
        tag: the project tag it is sent with.
        payload_digest: of the definition.
        definition: the send body less `phone`, as JSON.
        recipients: fingerprints, sorted.
        arm: the experiment's arm, of a message that has several.
        run: the id of the run that sends it.
    """

    message: str
    key: str
    tag: str
    payload_digest: str
    definition: str
    recipients: tuple[str, ...]
    arm: str | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a launch.

    Attributes:
        launch_id: the ledger's number of the launch.
        state: where it is now.
        project_launch_guid: the service's name for it; only of `sent` ones.
        detail: why it is not `sent`, without anything secret.
        at: UTC, ISO 8601.
    """

    launch_id: int
    state: LaunchState
    at: str
    project_launch_guid: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """A launch as the lockfile holds it: one that the service accepted.

    `arm` is the experiment's, of a message that has several; `run` is the id of the run that sent it, None
    where that is not known.
    """

    message: str
    key: str
    tag: str
    payload_digest: str
    project_launch_guid: str
    sent_at: str
    recipients: tuple[str, ...]
    arm: str | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class SummaryLine:
    """What a lockfile that sums up says of one message.

    Attributes:
        message: its id.
        tags: the project tags of its launches, sorted.
        launches: how many the service accepted.
        recipients: how many people they reached.
        digest: of who those are, as `PeopleTally` makes it.
        first_sent_at: when the first of them was sent; UTC, ISO 8601.
        last_sent_at: when the last of them was.
    """

    message: str
    tags: tuple[str, ...]
    launches: int
    recipients: int
    digest: str
    first_sent_at: str
    last_sent_at: str


@dataclass(frozen=True, slots=True)
class OpenLaunch:
    """An accepted launch as reconciling sees it.

    Attributes:
        id: the ledger's number of the launch.
        tag: its project tag.
        project_launch_guid: the service's name for it.
        recipients: how many people it was sent to.
        is_open: whether a session of it may be open, as last read.
        results: results that the ledger holds of it.
    """

    id: int
    tag: str
    project_launch_guid: str
    recipients: int
    is_open: bool
    results: int


@dataclass(frozen=True, slots=True)
class LaunchStats:
    """The service's own counts of one launch (reference, 2.3); None for what it doesn't say."""

    launch_id: int
    num_active_sessions: int | None
    num_complete_sessions: int | None
    num_messages: int | None
    num_questions: int | None
    num_queued_sessions: int | None
    num_renders: int | None
    num_results: int | None
    project_launch_start: str


ENDED = "COMPLETE"
"""The status of a session that has ended (reference, section 3)."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session on its way into the ledger (reference, 2.3): whose it is, and how it stands.

    Attributes:
        launch_id: the ledger's number of the launch.
        participant: the participant's pseudonym.
        status: as the service says it, in capitals; empty if it does not.
        stopped: whether an opt-out ended it, or kept it from beginning.
        blocked: whether it is the latter: nothing was rendered.
    """

    launch_id: int
    participant: str
    status: str
    stopped: bool
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result on its way into the ledger: the reference's fields less the phone number."""

    launch_id: int
    result_guid: str
    participant: str
    question_guid: str
    question_tag: str
    question_text: str
    question_display_order: int
    result_answer: str
    result_response: str
    created: str
    updated: str


@dataclass(frozen=True, slots=True)
class Known:
    """What the record says of one campaign's deliveries: fingerprints by message id.

    Attributes:
        sent: those that the service accepted.
        unresolved: those whose outcome is not known: never sent again on the strength of time alone.
        forgotten: those who asked to be forgotten, whatever they got: by no message id.
        unexplained: those of the unresolved whom a launch has reached that no record explains.
    """

    sent: dict[str, set[str]]
    unresolved: dict[str, set[str]]
    forgotten: set[str] = field(default_factory=set)
    unexplained: dict[str, set[str]] = field(default_factory=dict)

    @property
    def messages(self) -> set[str]:
        """The ids of the messages that somebody got, or may have got."""
        shelves = (self.sent, self.unresolved)
        return {message for shelf in shelves for message, people in shelf.items() if people}

    def is_empty(self) -> bool:
        """Return whether nobody has been texted, or was forgotten, as far as is known."""
        return not (any(self.sent.values()) or any(self.unresolved.values()) or self.forgotten)


@dataclass(frozen=True, slots=True)
class CampaignRow:
    """A campaign as the ledger enters it.

    Attributes:
        id: the ledger's number of it.
        salt: of its fingerprints; None when they are keyed by the user's secret.
        key_fingerprint: tells under which key they were made.
        has_launches: whether any were; without, the key can still be another one.
    """

    id: int
    salt: str | None
    key_fingerprint: str
    has_launches: bool


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A launch that may or may not have been sent.

    Attributes:
        id: the ledger's number of the launch.
        message: the message's id.
        key: names the launch.
        tag: the project tag it was sent with.
        definition: the send body less `phone`; None if another machine was to send it.
        recipients: fingerprints.
        intent_at: when it was about to be sent; UTC, ISO 8601.
        detail: what is known of the outcome; None if the process died before there was one.
        definition_digest: stands for the definition where there is none; else empty.
    """

    id: int
    message: str
    key: str
    tag: str
    definition: dict[str, Any] | None
    recipients: frozenset[str]
    intent_at: str
    detail: str | None
    definition_digest: str = ""
