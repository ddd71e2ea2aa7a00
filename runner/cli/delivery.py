"""Takes campaigns through a run: lock, settle, preflight, send, settle again, lockfile."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Self, TypeVar

from runner.cli.campaign_run import CampaignRun, RunOptions
from runner.cli.circumstances import CircumstanceReader
from runner.cli.console import Progress, count_words, note, show_progress, warn
from runner.cli.inquiry import Inquiry
from runner.cli.planning import Planned, plan_campaign, plan_campaigns
from runner.cli.reserving import Reserving
from runner.cli.signals import interrupt_run, stop_on_signals
from runner.deliver.diagnosis import diagnose_refusal
from runner.deliver.gate import Gate
from runner.deliver.pace import Pace
from runner.deliver.run import Delivery
from runner.deliver.settle import SettleSummary
from runner.errors import PlanChangedError, RunnerError, ServiceError
from runner.ledger.lockfile_writer import require_writable
from runner.ledger.unsettled import count_unsettled
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.cli.planning import PlannedHead
    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.deliver.match import Verdict
    from runner.deliver.summary import DeliverySummary
    from runner.ledger.database import Ledger
    from runner.ledger.lock import CampaignLock
    from runner.ledger.model import LaunchState, Run
    from runner.ledger.recorded import Record, RecordHead, SummedRecord
    from runner.plan.circumstances import Circumstances
    from runner.plan.model import PlannedLaunch, PlanOptions
    from runner.service.client import ServiceClient
    from runner.service.target import Target

_Found = TypeVar("_Found", "Record", "SummedRecord")
_REFUSALS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
ROUNDS = 10
"""How often a run sends, and settles, before it leaves the rest to the next one."""


class DeliveryRun:
    """One `apply`: holds the locks of its campaigns and the connection to the service until it is closed.

    Args:
        workspace: where to send and record.
        ledger: open for writing.
        options: how to go about it.
    """

    def __init__(self, workspace: Workspace, ledger: Ledger, options: RunOptions) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self._options = options
        self._stack = ExitStack()
        self._service: tuple[ServiceClient, Target] | None = None
        self._adopted: Counter[str] = Counter()
        self._records: dict[str, RecordHead] = {}
        self._locks: dict[str, CampaignLock] = {}
        self._provenance: Run | None = None
        self._reserving = Reserving(workspace, ledger)
        self.stop = threading.Event()
        # One for all campaigns: what the service asks for holds for the next one too.
        self._pace = Pace(None, time.monotonic, self.stop)
        window_s = options.settle_window_s
        self._inquiry = Inquiry(
            workspace,
            ledger,
            lambda: self._open_service()[0],
            self._locks.__getitem__,
            window_s=workspace.target.settle_window if window_s is None else window_s,
            stop=self.stop,
            quiet=options.quiet,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def is_behind(self) -> bool:
        """Whether the state remote could not be told of everything; of a run that was closed."""
        return self._reserving.is_behind

    def enter(self, campaign: Campaign) -> Record:
        """Lock a campaign, fill the ledger from its lockfile, and settle what earlier runs left open.

        Raises:
            RunLockedError: another run holds the lock.
            ServiceError: there is something to settle, and the service cannot be asked.
            InterruptedRunError: it was told to stop while it settled.
        """
        return self._enter_settled(campaign, self._enter)

    def _enter_settled(self, campaign: Campaign, enter: Callable[[Campaign], _Found]) -> _Found:
        """Lock a campaign, enter it, and settle what earlier runs left open."""
        self._lock(campaign)
        record = enter(campaign)
        if not record.is_unclear():
            return record
        found = self._inquiry.settle(campaign, record)
        self._adopted[campaign.name] += len(found.adopted)
        if found.adopted:
            # At once: whatever keeps this run from sending, the next one shall know.
            self.rewrite_lockfile(campaign)
        if self.stop.is_set():
            raise interrupt_run()
        return enter(campaign)

    def judge(self, campaign: Campaign) -> list[Verdict]:
        """Lock a campaign and return what the service's list says of its launches of unknown outcome.

        Raises:
            RunLockedError: another run holds the lock.
            ServiceError: there are such launches, and the service cannot be asked.
        """
        self._lock(campaign)
        return self._inquiry.judge(campaign, self._enter(campaign))

    def _lock(self, campaign: Campaign) -> None:
        self._reserving.hold(self._stack, self._options.lock_timeout_s)
        options = self._options
        lock = self._workspace.hold_lock(
            self._ledger, campaign, timeout_s=options.lock_timeout_s, quiet=options.quiet
        )
        self._locks[campaign.name] = self._stack.enter_context(lock)

    def _enter(self, campaign: Campaign) -> Record:
        record = self._records[campaign.name] = self._workspace.enter_record(self._ledger, campaign)
        return record

    def rewrite_lockfile(self, campaign: Campaign) -> None:
        """Write the lockfile of a campaign that this run has entered, and keep it on the state remote.

        Raises:
            LedgerError: the campaign's lock was lost: the lockfile is another run's now.
            LockfileError: it cannot be written.
        """
        self._locks[campaign.name].require_latched()
        self._workspace.rewrite_lockfile(self._ledger, campaign, self._records[campaign.name])
        self._reserving.keep(campaign, self._records[campaign.name])

    def plan(self, scope: Scope, options: PlanOptions, reader: CircumstanceReader) -> Sequence[PlannedHead]:
        """Lock and settle campaigns, plan them, and look for launches that the record has lost.

        Args:
            scope: says which campaigns.
            options: what the user asks of the plan.
            reader: returns what else there is to know.

        Raises:
            RunnerError: they are wrong, another run holds the lock, or the service cannot be asked.
        """
        return self.check(plan_campaigns(self._workspace, scope, options, self.enter, reader), options)

    def check(self, planned: Sequence[Planned], options: PlanOptions) -> list[Planned]:
        """Look, before the first send, for launches that the service knows and the record doesn't.

        Returns:
            The plans; made anew where launches were adopted.

        Raises:
            ServiceError: the service cannot be asked.
            InterruptedRunError: it was told to stop meanwhile.
        """
        return [self._check(item, options) if item.plan.recipients_to_send else item for item in planned]

    def _check(self, item: Planned, options: PlanOptions) -> Planned:
        campaign = item.campaign
        require_writable(self._workspace.identify(campaign).lockfile)
        has_waited = False
        while True:
            found = self._inquiry.find_lost(item, item.planner)
            if found.adopted:
                self._adopted[campaign.name] += found.adopted
                self.rewrite_lockfile(campaign)
                item = self._plan_again(item, options)
            elif has_waited or not found.blank:
                return item
            if not item.plan.recipients_to_send or not self._inquiry.wait_for_more(campaign, found):
                return item
            has_waited = True

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
        record = self._enter(item.campaign)
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
        runs = [CampaignRun(item, adopted=self._adopted[item.campaign.name]) for item in planned]
        for run in runs:
            try:
                if run.planned.plan.recipients_to_send and not self._has_ended(runs):
                    self._deliver(run)
            except BaseException:
                # What ended the run is what the user has to hear, not that the lockfile suffers from it too.
                with contextlib.suppress(RunnerError):
                    self.rewrite_lockfile(run.planned.campaign)
                raise
            self.rewrite_lockfile(run.planned.campaign)
            run.ended_at = self._workspace.now()
            run.unresolved = self._count_unresolved(run.planned.record)
        return runs

    def conclude(self, planned: Sequence[PlannedHead]) -> list[CampaignRun]:
        """Write the lockfiles without having sent anything.

        Raises:
            RunnerError: the ledger or a lockfile cannot be written.
        """
        runs = [CampaignRun(item, adopted=self._adopted[item.campaign.name]) for item in planned]
        for run in runs:
            self.rewrite_lockfile(run.planned.campaign)
            run.unresolved = self._count_unresolved(run.planned.record)
        return runs

    def _count_unresolved(self, record: RecordHead) -> int:
        campaign_id, _ = record.require_entered()
        with self._ledger.reading() as connection:
            return count_unsettled(connection, campaign_id)

    def _has_ended(self, runs: Sequence[CampaignRun]) -> bool:
        return self.stop.is_set() or any(run.summary.final_reply for run in runs)

    def _deliver(self, run: CampaignRun) -> None:
        self._send_and_settle(run)
        final = run.summary.final_reply
        if final is not None and final.status in _REFUSALS:
            client, _ = self._open_service()
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
        client, target = self._open_service()
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
                lock=self._reserving.guard(self._locks[campaign.name]),
                summary=summary,
                gate=Gate(
                    self._workspace.target.name,
                    self._workspace.target.state_key,
                    campaign.policy.frequency_cap,
                ),
                run=self._provenance,
            )
            delivery.run(self._reserving.reserve(item, launches, self._provenance))
        return delivery.unclear

    def _settle(self, item: PlannedHead) -> SettleSummary:
        try:
            return self._inquiry.settle(item.campaign, item.record)
        except ServiceError as error:
            warn(f"{item.campaign.name}: what is unclear cannot be settled now: {error.message}")
            return SettleSummary()

    def _open_service(self) -> tuple[ServiceClient, Target]:
        if self._service is None:
            opened = self._workspace.open_service(self._options.concurrency)
            self._service = self._stack.enter_context(opened)
        return self._service


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
