"""Takes campaigns through a run: lock, settle, preflight, send, settle again, lockfile."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Self

from runner.cli.campaign_run import CampaignRun, RunOptions
from runner.cli.circumstances import CircumstanceReader
from runner.cli.console import Progress, count_words, note, show_progress, warn
from runner.cli.custody import Custody
from runner.cli.gone import find_gone
from runner.cli.planning import Planned, plan_campaign, plan_campaigns
from runner.cli.signals import stop_on_signals
from runner.deliver.diagnosis import diagnose_refusal
from runner.deliver.gate import Gate
from runner.deliver.pace import Pace
from runner.deliver.run import Delivery
from runner.deliver.settle import SettleSummary
from runner.errors import PlanChangedError, RunnerError, ServiceError
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.cli.failures import Failures
    from runner.cli.planning import PlannedHead
    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.deliver.summary import DeliverySummary
    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchState, Run
    from runner.ledger.recorded import Record
    from runner.plan.circumstances import Circumstances
    from runner.plan.model import PlannedLaunch, PlanOptions

_REFUSALS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
ROUNDS = 10
"""How often a run sends, and settles, before it leaves the rest to the next one."""


class DeliveryRun:
    """One `apply`: holds the locks of its campaigns and the connection to the service until it is closed.

    Args:
        workspace: where to send and record.
        ledger: open for writing.
        options: how to go about it.
        failures: takes campaigns that are left out.
    """

    def __init__(self, workspace: Workspace, ledger: Ledger, options: RunOptions, failures: Failures) -> None:
        self.failures = failures
        self._workspace = workspace
        self._ledger = ledger
        self._options = options
        self._custody = Custody(workspace, ledger, options)
        self._provenance: Run | None = None
        # One for all campaigns: what the service asks for holds for the next one too.
        self._pace = Pace(None, time.monotonic, self.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._custody.close()

    @property
    def stop(self) -> threading.Event:
        """Ends the run in good order once it is set."""
        return self._custody.stop

    @property
    def is_behind(self) -> bool:
        """Whether the state remote could not be told of everything; of a run that was closed."""
        return self._custody.is_behind

    def plan(self, scope: Scope, options: PlanOptions, reader: CircumstanceReader) -> Sequence[PlannedHead]:
        """Lock and settle campaigns, plan them, and look for launches that the record has lost.

        Args:
            scope: says which campaigns.
            options: what the user asks of the plan.
            reader: returns what else there is to know.

        Raises:
            RunnerError: they are wrong, another run holds the lock, or the service cannot be asked; of
                several campaigns, one that this is true of is left out.
        """
        return plan_campaigns(
            self._workspace,
            scope,
            options,
            self._enter,
            reader,
            self.failures,
            lambda item: self._check(item, options),
        )

    def settle_gone(self, scope: Scope) -> None:
        """Find out what campaigns have sent whose files are gone, and record it.

        Args:
            scope: says in which folders.

        Raises:
            RunnerError: as for `plan`.
        """
        gone = find_gone(self._workspace, scope, self._ledger, self.failures.claimed)
        self.failures.expect_more(len(gone))
        for campaign in gone:
            self.failures.attempt(campaign, partial(self._settle_gone, campaign))

    def _settle_gone(self, campaign: Campaign) -> None:
        self._custody.enter_settled(campaign, self._custody.enter)
        self._custody.rewrite_lockfile(campaign)

    def _enter(self, campaign: Campaign) -> Record:
        return self._custody.enter_settled(campaign, self._custody.enter)

    def _check(self, item: Planned, options: PlanOptions) -> Planned:
        """Look, before the first send, for launches that the service knows and the record doesn't.

        Returns:
            The plan; made anew where launches were adopted.

        Raises:
            ServiceError: the service cannot be asked, or its list proves nothing.
            InterruptedRunError: it was told to stop meanwhile.
        """
        # Before the next plan is made: a campaign that is left out takes nobody's turn.
        while self._custody.find_lost(item, item.planner):
            item = self._plan_again(item, options)
        return item

    def _plan_again(self, item: Planned, options: PlanOptions) -> Planned:
        planned = item.circumstances.planned
        reader = CircumstanceReader(self._workspace, self._ledger, item.circumstances.now)
        reader.note_records([(item.campaign, item.record)])
        return self._make_plan(item, options, reader.read(item.campaign, planned))

    def bring_forward(self, planned: Sequence[PlannedHead], options: PlanOptions) -> Sequence[PlannedHead]:
        """Return saved plans as of now: what is sent was to be sent then, and may be sent now.

        Raises:
            PlanChangedError: a campaign's files have changed meanwhile.
        """
        now = self._workspace.now()
        return [
            self._make_plan(
                item, options, replace(item.circumstances, now=now, planned_at=item.circumstances.now)
            )
            for item in map(_require_own, planned)
        ]

    def _make_plan(self, item: Planned, options: PlanOptions, circumstances: Circumstances) -> Planned:
        record = self._custody.enter(item.campaign)
        again = plan_campaign(self._workspace, item.campaign, record, options, circumstances, Problems())
        if again is None:
            raise PlanChangedError(
                f"the files of {item.campaign.name} have changed while it was planned",
                hint="run the same command again",
            )
        return again

    def deliver(self, planned: Sequence[PlannedHead], provenance: Run | None) -> list[CampaignRun]:
        """Send what is planned, settle what is unclear, and write the lockfiles.

        An interrupt ends it early, and never before the lockfiles are written.

        Args:
            planned: the plans.
            provenance: what the launches are recorded with.

        Raises:
            RunnerError: the ledger or a lockfile cannot be written.
        """
        self._provenance = provenance
        with stop_on_signals(self.stop):
            return self._deliver_all(planned)

    def _deliver_all(self, planned: Sequence[PlannedHead]) -> list[CampaignRun]:
        runs = [CampaignRun(item, adopted=self._custody.adopted[item.campaign.name]) for item in planned]
        for run in runs:
            self.failures.attempt(run.planned.campaign, partial(self._deliver_one, run, runs))
            run.ended_at = self._workspace.now()
            run.unresolved = self._custody.count_unsettled(run.planned.record)
        return runs

    def _deliver_one(self, run: CampaignRun, runs: Sequence[CampaignRun]) -> None:
        try:
            if run.planned.plan.recipients_to_send and not self._has_ended(runs):
                self._deliver(run)
        except BaseException:
            # What ended the run is what the user has to hear, not that the lockfile suffers from it too.
            with contextlib.suppress(RunnerError):
                self._custody.rewrite_lockfile(run.planned.campaign)
            raise
        self._custody.rewrite_lockfile(run.planned.campaign)

    def conclude(self, planned: Sequence[PlannedHead]) -> list[CampaignRun]:
        """Write the lockfiles without having sent anything.

        Raises:
            RunnerError: the ledger or a lockfile cannot be written.
        """
        runs = [CampaignRun(item, adopted=self._custody.adopted[item.campaign.name]) for item in planned]
        for run in runs:
            campaign = run.planned.campaign
            self.failures.attempt(campaign, partial(self._custody.rewrite_lockfile, campaign))
            run.unresolved = self._custody.count_unsettled(run.planned.record)
        return runs

    def _has_ended(self, runs: Sequence[CampaignRun]) -> bool:
        return self.stop.is_set() or any(run.summary.final_reply for run in runs)

    def _deliver(self, run: CampaignRun) -> None:
        self._send_and_settle(run)
        final = run.summary.final_reply
        if final is not None and final.status in _REFUSALS:
            client, _ = self._custody.open_service()
            run.diagnosis = diagnose_refusal(client, final.status)

    def _send_and_settle(self, run: CampaignRun) -> None:
        item, summary = _require_own(run.planned), run.summary
        launches = item.planner.iterate_launches()
        total = sum(message.to_send for message in item.plan.messages)
        accepted = -1
        for rounds_left in reversed(range(ROUNDS)):
            unclear = self._send(item, launches, total, summary)
            if not unclear:
                return
            found = self._settle(item)
            summary.settle(found.adopted, found.released)
            again = {key: launch for key, launch in unclear.items() if key in found.released}
            # A service that accepts nothing is not asked over and over.
            is_hopeless = accepted == summary.count("sent") or not rounds_left
            if not again or is_hopeless or self._has_ended([run]):
                return
            accepted = summary.count("sent")
            summary.forget(again)
            launches, total = iter(again.values()), sum(len(launch.phones) for launch in again.values())

    def _send(
        self, item: Planned, launches: Iterator[PlannedLaunch], total: int, summary: DeliverySummary
    ) -> dict[str, PlannedLaunch]:
        """Send launches, and return those of unknown outcome by their keys."""
        campaign = item.campaign
        campaign_id, key = item.record.require_entered()
        client, target = self._custody.open_service()
        self._pace.set_rate(min(filter(None, (target.rate, campaign.limits.rate)), default=None))
        with show_progress(f"Sending {campaign.name}", total, quiet=self._options.quiet) as progress:
            delivery = Delivery(
                ledger=self._ledger,
                target=self._workspace.target.name,
                campaign_id=campaign_id,
                campaign=campaign.name,
                key=key,
                send=client.send,
                pace=self._pace,
                stop=self.stop,
                concurrency=target.concurrency,
                now=self._workspace.now,
                observer=_Observer(progress, verbose=self._options.verbose),
                lock=self._custody.reserving.guard(self._custody.lock_of(campaign.name)),
                summary=summary,
                gate=Gate.of(
                    campaign, campaign_id, self._workspace.target.name, self._workspace.target.state_key
                ),
                settle_margin=campaign.limits.settle_margin,
                run=self._provenance,
            )
            delivery.run(self._custody.reserving.reserve(item, launches, self._provenance))
        return delivery.unclear

    def _settle(self, item: PlannedHead) -> SettleSummary:
        try:
            found = self._custody.inquiry.settle(item.campaign, item.record)
        except ServiceError as error:
            found = SettleSummary(failure=error)
        if found.failure is not None:
            warn(f"{item.campaign.name}: what is unclear cannot be settled now: {found.failure.message}")
        return found


def _require_own(item: PlannedHead) -> Planned:
    if not isinstance(item, Planned):
        raise TypeError(item.campaign.name)
    return item


class _Observer:
    """Shows outcomes while they come in."""

    def __init__(self, progress: Progress, *, verbose: bool) -> None:
        self._progress = progress
        self._verbose = verbose

    def observe_outcome(self, outcome: LaunchState, recipients: int, detail: str | None) -> None:
        self._progress.advance(recipients)
        if self._verbose:
            note(f"{outcome}: {count_words(recipients, 'recipient')}" + (f" ({detail})" if detail else ""))
