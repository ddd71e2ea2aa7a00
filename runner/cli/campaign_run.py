"""What a run is asked for, and what it did, campaign by campaign."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.deliver.summary import DeliverySummary

if TYPE_CHECKING:
    from runner.cli.planning import Planned
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
    """

    planned: Planned
    summary: DeliverySummary = field(default_factory=DeliverySummary)
    adopted: int = 0
    unresolved: int = 0
    diagnosis: Diagnosis | None = None

    @property
    def not_tried(self) -> int:
        """Deliveries of the plan that no launch of this run stands for: the run ended before their turn."""
        planned = sum(message.to_send for message in self.planned.plan.messages)
        tried = sum(launch.recipients for launch in self.summary.launches)
        summary = self.summary
        return planned - tried - summary.deferred - summary.opted_out - summary.capped

    @property
    def deferred(self) -> int:
        """Deliveries that wait for their time: by the plan, and because their hours ended during the run."""
        by_plan = sum(message.deferred for message in self.planned.plan.messages)
        return by_plan + self.summary.deferred + self.summary.recipients_too_late
