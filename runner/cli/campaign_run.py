"""What a run is asked for, and what it did, campaign by campaign."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.deliver.summary import DeliverySummary

if TYPE_CHECKING:
    from datetime import datetime

    from runner.cli.planning import PlannedHead
    from runner.deliver.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run goes about its work.

    Attributes:
        concurrency: `--concurrency`; None for the target's.
        settle_window_s: how long a launch may take to be listed, in seconds; None for the target's.
        lock_timeout_s: how long to wait for a campaign's lock, in seconds.
        quiet: say nothing on standard error but errors.
        verbose: say every outcome.
    """

    concurrency: int | None = None
    settle_window_s: float | None = None
    lock_timeout_s: float = 0.0
    quiet: bool = False
    verbose: bool = False


@dataclass(slots=True)
class CampaignRun:
    """What a run did with one campaign.

    Attributes:
        planned: the plan that was sent, or would have been.
        summary: the launches of this run.
        adopted: launches of earlier runs that turned out to be sent.
        unresolved: recipients whose outcome is not known after the run.
        diagnosis: the likely cause, if the service refused to send.
        ended_at: when it was done; any aware time.
    """

    planned: PlannedHead
    summary: DeliverySummary = field(default_factory=DeliverySummary)
    adopted: int = 0
    unresolved: int = 0
    diagnosis: Diagnosis | None = None
    ended_at: datetime | None = None

    @property
    def to_send(self) -> int:
        """Deliveries that the plan was to make."""
        return sum(message.to_send for message in self.planned.plan.messages)

    @property
    def sends_several_each(self) -> bool:
        """Whether the plan sends somebody more than one message: its deliveries are no people then."""
        return self.to_send != self.planned.plan.recipients_to_send

    @property
    def counts_texts(self) -> bool:
        """Whether one person may stand for several of the deliveries that were not made."""
        waiting = sum(bool(message.deferred or message.expired) for message in self.planned.plan.messages)
        return self.sends_several_each or waiting > 1

    @property
    def not_tried(self) -> int:
        """Deliveries of the plan that no launch of this run stands for: the run ended before their turn."""
        summary = self.summary
        left_out = summary.deferred + summary.opted_out + summary.capped
        left_out += summary.open_session + summary.waiting
        return self.to_send - summary.recipients_tried - left_out

    @property
    def deferred(self) -> int:
        """Deliveries that wait for their time: by the plan, and because their hours ended during the run."""
        return 0 if self._is_over else self._waiting

    @property
    def open_session(self) -> int:
        """Deliveries that wait for the end of an open survey: by the plan, or of one that was sent since."""
        by_plan = sum(message.open_session for message in self.planned.plan.messages)
        return by_plan + self.summary.open_session

    @property
    def no_rule(self) -> int:
        """Deliveries that are not made since the legal hours of their place are not known."""
        return sum(message.no_rule for message in self.planned.plan.messages)

    @property
    def expired(self) -> int:
        """Deliveries that are too late for ever: by the plan, and because the campaign ended meanwhile."""
        by_plan = sum(message.expired for message in self.planned.plan.messages)
        return by_plan + (self._waiting if self._is_over else 0)

    @property
    def _waiting(self) -> int:
        by_plan = sum(message.deferred for message in self.planned.plan.messages)
        return by_plan + self.summary.deferred + self.summary.recipients_too_late

    @property
    def _is_over(self) -> bool:
        expires = self.planned.campaign.schedule.expires
        return expires is not None and self.ended_at is not None and self.ended_at >= expires
