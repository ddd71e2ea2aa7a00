"""What the ledger tells reports, as values: no SQL here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.ledger.model import Run


@dataclass(frozen=True, slots=True)
class MessageTotals:
    """Counts of one message over all its launches, as last reconciled.

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
        reconciled_at: UTC, ISO 8601, of the oldest reconciled launch; None when one was never reconciled.
    """

    message: str
    launches: int = 0
    sent: int = 0
    unresolved: int = 0
    rejected: int = 0
    queued: int = 0
    active: int = 0
    complete: int = 0
    renders: int = 0
    questions: int = 0
    results: int = 0
    first_sent_at: str | None = None
    last_sent_at: str | None = None
    reconciled_at: str | None = None

    def add(self, other: MessageTotals) -> MessageTotals:
        """Return the counts of this and of what the message counted under another id."""
        summed = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}
        sends = [at for at in (self.first_sent_at, other.first_sent_at) if at is not None]
        latest = [at for at in (self.last_sent_at, other.last_sent_at) if at is not None]
        reconciled = [totals.reconciled_at for totals in (self, other) if totals.launches]
        known = [at for at in reconciled if at is not None]
        return MessageTotals(
            self.message,
            **summed,
            first_sent_at=min(sends, default=None),
            last_sent_at=max(latest, default=None),
            reconciled_at=min(known, default=None) if len(known) == len(reconciled) else None,
        )


_SUMMED = [name for name, kind in MessageTotals.__annotations__.items() if kind == "int"]


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
        question_display_order: the question's place.
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
