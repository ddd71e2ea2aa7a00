"""Takes campaigns through a run on a cluster: all as in `delivery`, but that workers send."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from runner.cli.circumstances import CircumstanceReader
from runner.cli.cluster_planning import ClusterPlanning
from runner.cli.cluster_rounds import ClusterRounds
from runner.cli.clustering import open_chosen_cluster
from runner.cli.console import note, show_progress
from runner.cli.delivery import DeliveryRun
from runner.cluster.coordinator import Coordinator
from runner.cluster.plan_set import PlanSet, digest_part, require_planned
from runner.cluster.run_summary import RunSummary
from runner.cluster.sending import SendingOrder
from runner.cluster.worker_access import WorkerTarget
from runner.deliver.breaker import Breaker
from runner.plan.model import PlanOptions
from runner.plan.passage import find_overdue
from runner.plan.planner import Planner
from runner.service.target import list_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.cli.campaign_run import CampaignRun, RunOptions
    from runner.cli.clustering import ClusterSettings
    from runner.cli.failures import Failures
    from runner.cli.planning import PlannedHead
    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.cluster.engine import Cluster
    from runner.cluster.folder import SharedFolder
    from runner.cluster.sending import PartitionReport
    from runner.ledger.database import Ledger
    from runner.ledger.lease_wait import LiveLeases
    from runner.ledger.recorded import SummedRecord
    from runner.plan.model import Offer


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How a run uses its cluster.

    Attributes:
        settings: where it is.
        lease_s: how long a worker's hold on a partition lasts unless it is renewed, in seconds.
        saved: the plan set to send; None to send what this run has planned.
    """

    settings: ClusterSettings
    lease_s: float
    saved: PlanSet | None = None


class ClusterDelivery(DeliveryRun):
    """One `apply` on a cluster: holds the locks of its campaigns, and has workers send.

    Args:
        workspace: where to send and record.
        ledger: open for writing; on PostgreSQL.
        options: how to go about it.
        failures: takes campaigns that are left out.
        cluster_options: how to use the cluster.
    """

    def __init__(
        self,
        workspace: Workspace,
        ledger: Ledger,
        options: RunOptions,
        failures: Failures,
        cluster_options: ClusterOptions,
    ) -> None:
        super().__init__(workspace, ledger, options, failures)
        self._cluster_options = cluster_options
        self._plan_set: PlanSet | None = None
        self._terms: Mapping[str, str] = {}
        self._opened: tuple[Cluster, SharedFolder] | None = None

    def open_cluster(self) -> tuple[Cluster, SharedFolder]:
        """Return the cluster, connected, and a folder for this run's intermediate files.

        Raises:
            RunnerError: it cannot be reached, or started, or its workers are not as they have to be.
        """
        if self._opened is None:
            settings = self._cluster_options.settings
            opened = open_chosen_cluster(settings, self._workspace, self._list_secrets())
            self._opened = self._custody.keep_open(opened)
        return self._opened

    def _list_secrets(self) -> dict[str, str]:
        """Return the credentials of the embedded sandbox, by variable: they are made when it starts."""
        if self._workspace.target.base_url is not None:
            return {}
        _, target = self._custody.open_service()
        if target.credentials is None:
            return {}
        username, api_key, _ = list_variables(target.name, self._workspace.targets)
        return {username: target.credentials.username, api_key: target.credentials.api_key}

    def plan(self, scope: Scope, options: PlanOptions, reader: CircumstanceReader) -> Sequence[PlannedHead]:
        """Lock and settle campaigns, plan them on the cluster, and look for launches that are not on record.

        Raises:
            RunnerError: they are wrong, another run holds the lock, or the service or the cluster fails.
        """
        planned = self._plan(scope, options, reader, self._enter_new)
        while any(self._is_overtaken(item) for item in planned):
            planned = self._plan(scope, options, reader, self._custody.enter_summed)
        return planned

    def _is_overtaken(self, item: PlannedHead) -> bool:
        """Return whether to plan anew: launches were adopted, or the campaign is left out from now on."""
        return self.failures.attempt(item.campaign, partial(self._find_lost, item)) is not False

    def _require_parts(self, saved: PlanSet, planned: Sequence[PlannedHead]) -> None:
        """Refuse a plan set that sends anything else than this run has planned: before its first send."""
        cluster, _ = self.open_cluster()
        for item in planned:
            name = item.campaign.name
            campaign, count = replace(item.campaign, recipients=(), exclude=()), saved.partitions(name)
            # Each task is told of its own file alone, of what may be thousands.
            tasks = [
                (replace(saved, parts={name: (part,)}), campaign, partition, count)
                for partition, part in enumerate(saved.parts[name])
            ]
            found = [digests for _, digests in cluster.run(digest_part, tasks)]
            require_planned(saved.url, name, found, item.plan.digest, self._terms[name])

    def bring_forward(self, planned: Sequence[PlannedHead], options: PlanOptions) -> Sequence[PlannedHead]:
        """Return saved plans as they are, unless replies are overdue by now.

        Each launch says until when it may be sent.
        """
        if self._cluster_options.saved is not None:
            self._require_parts(self._cluster_options.saved, planned)
        now = self._workspace.now()
        unread = CircumstanceReader(self._workspace, self._ledger, now).find_unread()
        overdue = [find_overdue(item.campaign, unread, now, options) for item in planned]
        return [
            item if found is None else replace(item, plan=item.plan.wait_for(found))
            for item, found in zip(planned, overdue, strict=True)
        ]

    def _enter_new(self, campaign: Campaign) -> SummedRecord:
        return self._custody.enter_settled(campaign, self._custody.enter_summed)

    def _plan(
        self,
        scope: Scope,
        options: PlanOptions,
        reader: CircumstanceReader,
        find_record: Callable[[Campaign], SummedRecord],
    ) -> Sequence[PlannedHead]:
        cluster, folder = self.open_cluster()
        moment = reader.now
        planning = ClusterPlanning(
            self._workspace, self._ledger, reader, moment, cluster, folder, self.failures, find_record
        )
        is_saved = self._cluster_options.saved is not None
        url = f"{folder.url}/plan-{secrets.token_hex(4)}"
        plans = planning.plan(scope, options, None if is_saved else url)
        self._terms = plans.terms
        self._plan_set = PlanSet(url, (), options.only, options.limit, moment, "", plans.parts)
        return plans.planned

    def _find_lost(self, item: PlannedHead) -> bool:
        """Adopt or hold what the service knows and the record doesn't; return whether to plan anew."""
        return self._custody.find_lost(item, _LatePlanner(self._workspace, self._ledger, item.campaign))

    def _send_and_settle(self, run: CampaignRun) -> None:
        item = run.planned
        summary = run.summary = RunSummary()
        cluster, _ = self.open_cluster()
        plan_set = self._cluster_options.saved or self._plan_set
        if plan_set is None:
            raise ValueError(item.campaign.name)
        run_id = secrets.token_hex(8)
        lock = self._custody.lock_of(item.campaign.name)
        coordinator = Coordinator(
            self._ledger, cluster, lock, run_id, self._cluster_options.lease_s, self.stop
        )
        with coordinator.begin(self._workspace.target.name):
            rounds = ClusterRounds(self, coordinator, run, self._make_order(item, plan_set, run_id))
            rounds.run(list(range(plan_set.partitions(item.campaign.name))))
        if summary.final_reply is None and rounds.failure is not None:
            raise rounds.failure

    def _make_order(self, item: PlannedHead, plan_set: PlanSet, run_id: str) -> SendingOrder:
        if self._provenance is None:
            raise ValueError(item.campaign.name)
        _, target = self._custody.open_service()
        campaign_id, _ = item.record.require_entered()
        cluster, _ = self.open_cluster()
        tasks = min(cluster.slots, plan_set.partitions(item.campaign.name))
        concurrency = max(1, target.concurrency // max(1, tasks))
        names = list_variables(target.name, self._workspace.targets)
        return SendingOrder(
            run_id=run_id,
            round=0,
            plan_set=plan_set,
            # Without the audience: people's numbers don't travel with orders.
            campaign=replace(item.campaign, recipients=(), exclude=()),
            campaign_id=campaign_id,
            target=WorkerTarget.strip(target, names),
            concurrency=concurrency,
            failures=Breaker.for_concurrency(concurrency * tasks).limit,
            rate=min(filter(None, (target.rate, item.campaign.limits.rate)), default=None),
            lease_s=self._cluster_options.lease_s,
            ahead=self._workspace.find_ahead(),
            run=self._provenance,
        )

    def refresh(self, run: CampaignRun, order: SendingOrder, reports: Sequence[PartitionReport]) -> None:
        """Have a run's summary say what the ledger says by now."""
        summary = run.summary
        if isinstance(summary, RunSummary):
            summary.refresh(self._ledger, order.campaign_id, order.run.id, order.run_id, reports)

    def send_round(
        self, coordinator: Coordinator, order: SendingOrder, partitions: Sequence[int], total: int
    ) -> list[PartitionReport]:
        """Have partitions sent, and show how far that is.

        Args:
            coordinator: of the campaign.
            order: what to send.
            partitions: their numbers.
            total: recipients, at most.
        """
        name = order.campaign.name
        with show_progress(f"Sending {name}", total, quiet=self._options.quiet) as progress:
            return coordinator.send_round(
                order, partitions, progress.advance, lambda live: self._say_waiting(name, live)
            )

    def _say_waiting(self, campaign: str, live: LiveLeases) -> None:
        if not self._options.quiet:
            note(
                f"{campaign}: a worker was lost that may still send: waiting for {live.holder}, "
                f"{live.left_s:.0f} s at most."
            )

    def settle_round(self, item: PlannedHead) -> frozenset[str]:
        """Settle what is unclear, if anything is; return the keys of launches that are free again.

        Raises:
            LedgerError: the campaign's lock was lost: what is unclear may be what another run is sending.
        """
        self._custody.lock_of(item.campaign.name).require_latched()
        is_clear = not self._custody.count_unsettled(item.record)
        return frozenset() if is_clear else self._settle(item).released

    def has_ended(self, run: CampaignRun) -> bool:
        """Return whether nothing more is to be sent."""
        return self._has_ended([run])


@dataclass(frozen=True, slots=True)
class _LatePlanner:
    """Says what recipients would get, in this process: asked only of launches that no record tells of.

    Attributes:
        workspace: names the target.
        ledger: is read.
        campaign: the campaign.
    """

    workspace: Workspace
    ledger: Ledger
    campaign: Campaign

    def find_payloads(self, phones: set[str] | None) -> dict[str, list[Offer]]:
        """Return what some recipients lack, by phone, whether it would be sent now or not."""
        record = self.workspace.read_record(self.ledger, self.campaign)
        name = self.workspace.target.name
        planner = Planner(self.campaign, name, record.known, record.key, PlanOptions())
        return planner.find_payloads(phones)
