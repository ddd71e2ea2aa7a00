"""What the ledger tells reports, as values: no SQL here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.ledger.model import Run


_SHOWN = 20

Problem = Literal["more_counted", "unreadable_results", "uncounted", "unlisted", "unreadable"]
"""How the service contradicts itself about a launch's answers, or keeps silent about them."""


@dataclass(frozen=True, slots=True)
class LaunchDifference:
    """A launch of which the service counts more results than it lists, or does not say one or the other.

    Attributes:
        launch_id: the ledger's number of the launch.
        project_launch_guid: the service's name for it.
        problem: `more_counted`; `unreadable_results`, some of those that it lists cannot be read;
            `uncounted`, it says no count; `unlisted`, it does not list the launch; `unreadable`, what it says
            of the launch cannot be read.
        counted: results that it counts; None if it doesn't say.
        listed: results that it lists and that can be read; None if the launch is not listed itself.
        since: when that was first found; UTC, ISO 8601.
        agreed_at: as of when everybody who had answered was known before; None if never.
        accepted_at: when a person took what is listed for all there is; None if nobody has.
    """

    launch_id: int
    project_launch_guid: str
    problem: Problem
    counted: int | None
    listed: int | None
    since: str
    agreed_at: str | None = None
    accepted_at: str | None = None

    def __str__(self) -> str:
        """Say what differs, and since when, without a full stop."""
        words = {
            "more_counted": f"results: {self.counted} counted, {self.listed} listed",
            "unreadable_results": f"results: {self.counted} counted, {self.listed} can be read",
            "uncounted": "it does not say how many results there are",
            "unlisted": "it does not list the launch",
            "unreadable": "its record of the launch cannot be read",
        }
        since = self.since[:16].replace("T", " ")
        return f"{self.project_launch_guid}: {words[self.problem]}, since {since} UTC"

    @property
    def hides_answers(self) -> bool:
        """Whether answers are there that nobody has read, and that nobody has said to leave at that."""
        return self.problem == "unreadable_results" and self.accepted_at is None

    def is_like(self, other: LaunchDifference) -> bool:
        """Return whether it is the same difference, with the same counts."""
        return (self.problem, self.counted, self.listed) == (other.problem, other.counted, other.listed)


def describe_difference(difference: LaunchDifference) -> dict[str, Any]:
    """Return a difference as JSON documents have it."""
    return {
        "project_launch_guid": difference.project_launch_guid,
        "problem": difference.problem,
        "counted": difference.counted,
        "listed": difference.listed,
        "since": difference.since,
        "accepted_at": difference.accepted_at,
    }


@dataclass(frozen=True, slots=True)
class OpenDifferences:
    """The differences of one message's launches.

    Attributes:
        waiting: launches whose difference nobody has accepted.
        accepted: launches whose difference a person has accepted.
        first: the first of them, some: those that wait, the oldest first, then those that were accepted.
        hidden: of those that wait, launches with results that cannot be read.
    """

    waiting: int
    accepted: int
    first: tuple[LaunchDifference, ...]
    hidden: int = 0

    def add(self, other: OpenDifferences) -> OpenDifferences:
        """Return these and those that the message has under another id."""
        first = sorted((*self.first, *other.first), key=lambda one: (one.accepted_at is not None, one.since))
        return OpenDifferences(
            self.waiting + other.waiting,
            self.accepted + other.accepted,
            tuple(first[:_SHOWN]),
            self.hidden + other.hidden,
        )

    def __str__(self) -> str:
        """Say how many wait, and which is the oldest, without a full stop; one must wait."""
        launches = "1 launch" if self.waiting == 1 else f"{self.waiting:,} launches, first"
        return f"{launches} {self.first[0]}"


@dataclass(frozen=True, slots=True)
class PartialCount:
    """A count that is known of some launches alone.

    Attributes:
        count: of those launches.
        launches: how many of them there are.
    """

    count: int
    launches: int


def describe_parts(parts: Mapping[str, PartialCount]) -> list[dict[str, Any]]:
    """Return counts that are known of some launches alone, by name, as JSON documents have them."""
    return [
        {"name": name, "count": part.count, "launches": part.launches} for name, part in sorted(parts.items())
    ]


@dataclass(frozen=True, slots=True)
class MessageTotals:
    """Counts of one message over all its launches, as last reconciled.

    A count of the service is None unless it is known of every launch: a sum that leaves some out is no total.

    Attributes:
        message: the message's id.
        launches: launches that the service accepted.
        sent: recipients of those launches.
        unresolved: recipients of launches whose outcome is not known.
        rejected: recipients of launches that the service refused.
        queued: sessions waiting for an earlier one of the same participant, of `sent`.
        active: sessions in progress.
        complete: sessions that have ended.
        renders: what the service says it rendered, in renders (reference, 2.3 `num_renders`).
        questions: questions the service says it asked (`num_questions`).
        results: results the service says it holds (`num_results`).
        first_sent_at: UTC, ISO 8601; None when nothing was sent.
        last_sent_at: UTC, ISO 8601; None when nothing was sent.
        reconciled_at: UTC, ISO 8601, of the reconciled launch that was read longest ago; None when none was.
        unread: launches that were never reconciled: nothing that the service says of them was read.
        sent_read: recipients of the launches that were reconciled.
        partly_known: of the counts that are None, those that are known of some launches, by their names here.
    """

    message: str
    launches: int = 0
    sent: int = 0
    unresolved: int = 0
    rejected: int = 0
    queued: int | None = 0
    active: int | None = 0
    complete: int | None = 0
    renders: int | None = 0
    questions: int | None = 0
    results: int | None = 0
    first_sent_at: str | None = None
    last_sent_at: str | None = None
    reconciled_at: str | None = None
    unread: int = 0
    sent_read: int = 0
    partly_known: Mapping[str, PartialCount] = field(default_factory=dict)

    @property
    def reconciled(self) -> int:
        """Launches whose counts and answers were read, as far as the service has them."""
        return self.launches - self.unread

    def know_in_part(self, count: int) -> PartialCount | None:
        """Return a count of what the ledger holds, if that is of some launches alone."""
        return PartialCount(count, self.reconciled) if self.unread and self.reconciled else None

    def add(self, other: MessageTotals) -> MessageTotals:
        """Return the counts of this and of what the message counted under another id."""
        summed: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}
        parts = {}
        for name in COUNTED:
            own, more = self._list_part(name), other._list_part(name)
            both = PartialCount(own.count + more.count, own.launches + more.launches)
            summed[name] = both.count if both.launches == summed["launches"] else None
            if 0 < both.launches < summed["launches"]:
                parts[name] = both
        sends = [at for at in (self.first_sent_at, other.first_sent_at) if at is not None]
        latest = [at for at in (self.last_sent_at, other.last_sent_at) if at is not None]
        known = [at for at in (self.reconciled_at, other.reconciled_at) if at is not None]
        return MessageTotals(
            self.message,
            **summed,
            first_sent_at=min(sends, default=None),
            last_sent_at=max(latest, default=None),
            reconciled_at=min(known, default=None),
            partly_known=parts,
        )

    def _list_part(self, name: str) -> PartialCount:
        whole = getattr(self, name)
        if whole is not None:
            return PartialCount(whole, self.launches)
        return self.partly_known.get(name, PartialCount(0, 0))


_SUMMED = [name for name, kind in MessageTotals.__annotations__.items() if kind == "int"]
COUNTED = [name for name, kind in MessageTotals.__annotations__.items() if kind == "int | None"]
"""The counts that are the service's own."""


@dataclass(frozen=True, slots=True)
class AudienceRow:
    """How an `apply` found the audience of a message.

    Attributes:
        message: the message's id.
        planned_at: UTC, ISO 8601.
        recipients: each person once.
        dispositions: recipients by the plan's disposition, those of none left out.
    """

    message: str
    planned_at: str
    recipients: int
    dispositions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SentRow:
    """Recipients of accepted launches on one day.

    Attributes:
        message: the message's id.
        arm: the experiment's arm; empty for a message without arms.
        date: UTC, ISO 8601.
        recipients: how many.
    """

    message: str
    arm: str
    date: str
    recipients: int


@dataclass(frozen=True, slots=True)
class SessionRow:
    """Sessions of accepted launches that stand alike.

    Attributes:
        message: the message's id.
        status: as the service says it, in capitals; empty if it does not.
        stopped: whether an opt-out ended them, or kept them from beginning.
        replied: whether their participants have any result, if only one that opts out.
        count: how many.
        blocked: whether an earlier opt-out kept them from beginning: nothing was rendered.
    """

    message: str
    status: str
    stopped: bool
    replied: bool
    count: int
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class OptOutReply:
    """A result that some evidence of an opt-out names, or another one of the same person and launch.

    Attributes:
        launch_id: the ledger's number of the launch.
        message: the id under which the launch is entered.
        result_guid: the service's name of it.
        participant: the participant's pseudonym.
        state: of the evidence; None if this result is none.
        response: what they wrote.
    """

    launch_id: int
    message: str
    result_guid: str
    participant: str
    state: str | None
    response: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """What one run has sent of a campaign.

    Attributes:
        run: the run.
        launches: launches that the service accepted.
        recipients: of those launches.
    """

    run: Run
    launches: int
    recipients: int


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What a target's plan allows and costs (reference, 2.2: `meta.plan`).

    Attributes:
        name: the plan's.
        price_usd: decimal text; None if the service does not say.
        renders_max: renders that it allows.
        renders_used: of these, those that were used when it was read.
    """

    name: str
    price_usd: str | None
    renders_max: int
    renders_used: int


@dataclass(frozen=True, slots=True)
class ResultVersion:
    """Which results the ledger has.

    Attributes:
        edition: changes when rows were removed or moved; different in every ledger.
        revision: of the latest transaction that entered or changed results.
    """

    edition: str
    revision: int


ORDER_UNKNOWN = -1
"""Stands for a `question_display_order` that nobody tells."""


class AskedRow(NamedTuple):
    """Somebody who was sent a message.

    Attributes:
        message: its id.
        participant: the recipient's pseudonym.
        arm: the experiment's arm; empty for a message without arms.
        asked_at: when the service began the launch; if that is not known, when it had accepted it.
        is_read: whether the answers to the launch were ever read: `1` or `0`.
    """

    message: str
    participant: str
    arm: str
    asked_at: str
    is_read: str


class FeedRow(NamedTuple):
    """One result on its way to a copy, with what there is to know of its launch.

    Attributes:
        message: the id under which the launch is entered.
        arm: the experiment's arm; empty for a message without arms.
        started: when the service began the launch, on its own clock; empty if it is not known.
        launch_id: the ledger's number of the launch.
        result_guid: the service's name of it.
        participant: the participant's pseudonym.
        question_tag: as the service gave it, as everything that follows.
        question_text: as it was asked.
        question_display_order: the question's place, or `ORDER_UNKNOWN`.
        answer: `result_answer`.
        response: `result_response`.
        created: ISO 8601, the service's clock.
    """

    message: str
    arm: str
    started: str
    launch_id: int
    result_guid: str
    participant: str
    question_tag: str
    question_text: str
    question_display_order: int
    answer: str
    response: str
    created: str
