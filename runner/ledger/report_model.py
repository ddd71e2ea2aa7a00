"""Values that the ledger gives to reports, without SQL."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

from runner.document import Count, Part, Positive, build

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.ledger.model import Run


Problem = Literal["more_counted", "unreadable_results", "uncounted", "unlisted", "unreadable"]
"""The kinds of differences in the service's data about a launch's answers."""


class ListedDifference(Part, frozen=True):
    """A launch about whose answers the service contradicts itself, or says nothing.

    Attributes:
        project_launch_guid: the identifier that the service has given the launch.
        problem: more_counted: more results than are listed; unreadable_results: some that are listed cannot
            be read; uncounted: no count; unlisted: the launch is not listed; unreadable: its record cannot be
            read.
        counted: results that the service counts; None if it does not say.
        listed: results that it lists and that can be read; None if it does not list the launch.
        since: when that was first found: UTC, ISO 8601.
        accepted_at: when a person accepted just that (`runner reconcile --accept-differences`); None if
            nobody has: follow-ups that go by answers wait.
    """

    project_launch_guid: str
    problem: Problem
    counted: Count | None
    listed: Count | None
    since: str
    accepted_at: str | None


class LaunchDifference(ListedDifference, frozen=True):
    """A difference with its launch's number, and the last moment of agreement; None if never."""

    launch_id: int
    agreed_at: str | None = None

    def __str__(self) -> str:
        """Describe the difference and its age, without a full stop."""
        counted = "1 result counted" if self.counted == 1 else f"{self.counted} results counted"
        words = {
            "more_counted": f"{counted}, {self.listed} listed",
            "unreadable_results": f"{counted}, {self.listed} can be read",
            "uncounted": "it does not say how many results there are",
            "unlisted": "it does not list the launch",
            "unreadable": "its record of the launch cannot be read",
        }
        since = self.since[:16].replace("T", " ")
        return f"{self.project_launch_guid}: {words[self.problem]}, since {since} UTC"

    @property
    def hides_answers(self) -> bool:
        """True if there are unread answers, and no person has accepted that."""
        return self.problem == "unreadable_results" and self.accepted_at is None

    def is_like(self, other: LaunchDifference) -> bool:
        """Return whether it is the same difference, with the same counts."""
        return (self.problem, self.counted, self.listed) == (other.problem, other.counted, other.listed)


def list_differences(found: Iterable[LaunchDifference]) -> tuple[ListedDifference, ...]:
    """Return differences for documents."""
    return tuple(build(ListedDifference, one) for one in found)


@dataclass(frozen=True, slots=True)
class OpenDifferences:
    """The numbers of waiting and accepted differences of one message's launches.

    `first` has some of them: waiting ones first, oldest first, then accepted ones. `hidden` counts the
    waiting launches with invalid results.
    """

    waiting: int
    accepted: int
    first: tuple[LaunchDifference, ...]
    hidden: int = 0

    def __str__(self) -> str:
        """Describe the number that wait, at least one, and the oldest, without a full stop."""
        launches = "launch" if self.waiting == 1 else f"{self.waiting:,} launches, first"
        return f"{launches} {self.first[0]}"


class NamedCount(Part, frozen=True):
    """A count that is known of some launches only.

    Attributes:
        name: which count.
        count: how many.
        launches: how many launches it is of.
    """

    name: str
    count: Count
    launches: Positive


@dataclass(frozen=True, slots=True)
class MessageTotals:
    """Counts of one message over all its launches, as last reconciled.

    A count of the service is None unless it is known of every launch.

    Attributes:
        message: the message's id.
        launches: accepted launches.
        sent: recipients of accepted launches.
        unresolved: recipients of launches with unknown outcome.
        rejected: recipients of refused launches.
        queued: sessions of `sent` that wait for an earlier one of the same participant.
        active: sessions in progress.
        complete: sessions that have ended.
        renders: the service's `num_renders`.
        results: the service's `num_results`.
        first_sent_at: UTC, ISO 8601; None when nothing was sent.
        last_sent_at: UTC, ISO 8601; None when nothing was sent.
        reconciled_at: UTC, ISO 8601, of the launch reconciled longest ago; None if there is none.
        unread: launches that were never reconciled.
        partly_known: counts that are None here but known of some launches.
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
    results: int | None = 0
    first_sent_at: str | None = None
    last_sent_at: str | None = None
    reconciled_at: str | None = None
    unread: int = 0
    partly_known: tuple[NamedCount, ...] = ()

    @property
    def reconciled(self) -> int:
        """The launches that were reconciled."""
        return self.launches - self.unread

    def know_in_part(self, name: str, count: int) -> list[NamedCount]:
        """Return a count of the ledger if it covers only some launches, else nothing."""
        return [NamedCount(name, count, self.reconciled)] if self.unread and self.reconciled else []


class LaunchCharges(NamedTuple):
    """Accepted launches of a message that went to the same countries, with texts of the same sizes.

    Attributes:
        message: the message's id.
        countries: as `list_countries` writes them; None if not known.
        segments_least: of the smallest text; None if not known, or without any.
        segments_most: of the largest text.
        launches: how many.
        renders: of all of them, by the service's count; None if it is not known of each.
    """

    message: str
    countries: str | None
    segments_least: int | None
    segments_most: int | None
    launches: int
    renders: int | None

    @property
    def sizes(self) -> tuple[int, int] | None:
        """The SMS segments of the smallest and the largest text."""
        if self.segments_least is None or self.segments_most is None:
            return None
        return self.segments_least, self.segments_most


@dataclass(frozen=True, slots=True)
class AudienceRow:
    """The audience of a message in an `apply` (`planned_at`: UTC, ISO 8601).

    `dispositions` counts recipients by the plan's disposition; `none` is left out.
    """

    message: str
    planned_at: str
    recipients: int
    dispositions: Mapping[str, int]


class AppliedStep(Part, frozen=True):
    """The open step of a rollout in the last `apply`.

    Attributes:
        number: of the step, from 1.
        steps: how many there are.
        share: of the audience that is in it, as a fraction of 1.
        people: of the audience in it, texted or not.
    """

    number: Positive
    steps: Positive
    share: Fraction
    people: Count


class OptOutReply(NamedTuple):
    """A result that is evidence of an opt-out, of this `state`."""

    launch_id: int
    result_guid: str
    response: str
    state: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """The accepted launches of one run in a campaign, and their recipients."""

    run: Run
    launches: int
    recipients: int


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """The limits and price of a target's plan (`meta.plan`).

    `price_usd` is decimal text, or None. `renders_used` is as of the last reading.
    """

    name: str
    price_usd: str | None
    renders_max: int
    renders_used: int


@dataclass(frozen=True, slots=True)
class ResultVersion:
    """A version of the ledger's results.

    `edition` changes when rows are removed or moved, and differs between ledgers. `revision` is that of the
    latest transaction that inserted or changed results.
    """

    edition: str
    revision: int


ORDER_UNKNOWN = -1
"""The value of an unknown `question_display_order`."""


class ContactRow(NamedTuple):
    """A recipient of a launch that has reached people, or may have. Seven fields are `1` or `0`.

    Attributes:
        message: the message's id in the ledger.
        participant: the recipient's pseudonym.
        arm: the experiment's arm; empty for a message without arms.
        began: when the service began the launch, or, if unknown, accepted it.
        status: of the session, the service's word in capitals; empty if it gives none.
        is_sent: whether the launch was accepted; else its outcome is not known.
        is_read: whether the launch's answers were ever read.
        is_listed: whether the service lists the session.
        stopped: whether an opt-out ended or prevented the session.
        blocked: whether an earlier opt-out prevented it, so that nothing was rendered.
        replaced: whether a later send of the same account ended it.
        was_texted: whether the text has left the service; empty if that is not known.
        occasion: of the launch, such as the wave; empty if the message goes once.
    """

    message: str
    participant: str
    arm: str
    began: str
    status: str
    is_sent: str
    is_read: str
    is_listed: str
    stopped: str
    blocked: str
    replaced: str
    was_texted: str
    occasion: str = ""


class FeedRow(NamedTuple):
    """One result for a copy, with the data of its launch; times are of the service's clock, ISO 8601.

    `message` is the id in the ledger. `arm` and `started` may be empty. `participant` is a pseudonym.
    `question_display_order` may be `ORDER_UNKNOWN`. `answer` and `response` are `result_answer` and
    `result_response`; `non_answer` is why it answers nothing, empty for an answer.
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
    non_answer: str = ""
    occasion: str = ""
