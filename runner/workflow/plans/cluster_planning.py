"""Planning of campaigns on a cluster, with the context that workers do not read themselves."""

from __future__ import annotations

import secrets
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from runner.cluster.audience_scatter import choose_partitions
from runner.cluster.campaign_plan import PlanRequest, plan_on_cluster
from runner.cluster.launch_files import read_launches
from runner.cluster.plan_job import LedgerLookup
from runner.ledger.model import format_moment
from runner.ledger.people.earlier import find_depleted
from runner.ledger.people.history import has_open_launches
from runner.ledger.people.opt_outs import count_opt_outs
from runner.plan.planner import find_overdue
from runner.service.target import list_variables
from runner.workflow.plans.context_reader import PlanContextReader
from runner.workflow.plans.planning import PlanResult, plan_campaigns
from runner.workflow.workspace.clustering import open_chosen_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.campaign.model import Campaign
    from runner.cluster.dask_engine import Cluster
    from runner.cluster.folder import SharedFolder
    from runner.ledger.database import Ledger
    from runner.ledger.record.campaign_record import Record
    from runner.ledger.target_key import LedgerConnection
    from runner.plan.model import PlannedLaunch, PlanOptions
    from runner.plan.plan_context import PlanContext
    from runner.source.diagnostic import Problems
    from runner.workflow.delivery.apply_session import ApplySession
    from runner.workflow.failures import Failures
    from runner.workflow.plans.planning import MakePlan, NameCheck
    from runner.workflow.scope import Scope
    from runner.workflow.workspace.clustering import ClusterSettings
    from runner.workflow.workspace.workspace import Workspace


@dataclass(slots=True)
class ClusterPlanning:
    """Planning on a cluster.

    All workers must reach `folder`. `ledger` is None if there is none yet. With `keeps_launches` the launches
    are written to the folder.
    """

    workspace: Workspace
    ledger: Ledger
    reader: PlanContextReader
    cluster: Cluster
    folder: SharedFolder
    _: KW_ONLY
    keeps_launches: bool
    _partitions: int = field(default=0, init=False)

    def begin(self, campaigns: Sequence[Campaign]) -> MakePlan:
        """Split the audiences of all campaigns into the same partitions; return what plans each."""
        self._partitions = choose_partitions(campaigns)
        return self.make_plan

    def make_plan(
        self,
        campaign: Campaign,
        record: Record,
        options: PlanOptions,
        before: Sequence[PlanResult],
        problems: Problems,
    ) -> PlanResult | None:
        """Plan one campaign; return None if there are errors."""
        target, keeps = self.workspace.target, self.keeps_launches or options.keeps_people
        context = self.reader.read(campaign, leaves_people=True)
        request = PlanRequest(
            campaign,
            target.name,
            options,
            context,
            self._partitions,
            self._ask(campaign, record, context),
            tuple((item.campaign.name, item.plan.parts) for item in before if item.plan.parts),
            self.folder.within(f"plans-{secrets.token_hex(4)}") if keeps else None,
        )
        plan = plan_on_cluster(self.cluster, self.folder, request, problems)
        return None if plan is None else PlanResult(record=record, plan=plan, target=target)

    def _ask(self, campaign: Campaign, record: Record, context: PlanContext) -> LedgerLookup:
        """Return what workers look up of a campaign's people."""
        target, cap = self.workspace.target, campaign.policy.frequency_cap
        lookup = LedgerLookup(
            list_variables(target.name, self.workspace.targets)[-1],
            self.workspace.key,
            record.campaign_id,
            record.is_empty(),
            recent_since=None if cap is None else format_moment(context.now - cap.within),
        )
        with self.ledger.reading() as connection:
            counts = count_opt_outs(connection, target.name)
            return replace(
                lookup,
                has_opt_outs=any(counts.get(state) for state in ("confirmed", "doubtful")),
                has_open_launches=has_open_launches(connection, target.name),
                depleted=self._find_depleted(connection, campaign, record.campaign_id),
            )

    @staticmethod
    def _find_depleted(
        connection: LedgerConnection, campaign: Campaign, campaign_id: int | None
    ) -> tuple[int, ...]:
        after = campaign.list_earlier()
        if campaign_id is None or not after:
            return ()
        return find_depleted(connection, campaign_id, campaign.message_ids, after)


@dataclass(slots=True)
class ClusterPlans:
    """Plans campaigns for `apply` on a cluster; the ledger must be on PostgreSQL.

    This process sends: it reads the launches from the files that the workers have written. With `names`,
    campaigns that may have been renamed are refused.
    """

    session: ApplySession
    failures: Failures
    settings: ClusterSettings
    names: NameCheck | None
    _opened: tuple[Cluster, SharedFolder] | None = field(default=None, init=False)
    most_listed: ClassVar[int] = 10_000

    def _open_cluster(self) -> tuple[Cluster, SharedFolder]:
        """Return the connected cluster, and a folder for this run's intermediate files.

        Raises:
            RunnerError: it cannot be reached or started, or its workers do not fit.
        """
        if self._opened is None:
            opened = open_chosen_cluster(self.settings, self.session.workspace)
            self._opened = self.session.stack.enter_context(opened)
        return self._opened

    def plan(
        self, scope: Scope, options: PlanOptions, reader: PlanContextReader, *, is_held: bool
    ) -> Sequence[PlanResult]:
        """Load and plan campaigns, and show problems found; lock and settle them first unless `is_held`."""
        cluster, folder = self._open_cluster()
        find_record = self.session.enter if is_held else self.session.enter_settled
        planning = ClusterPlanning(
            self.session.workspace,
            self.session.ledger,
            reader,
            cluster,
            folder,
            keeps_launches=True,
        )
        return plan_campaigns(
            self.session.workspace,
            scope,
            options,
            partial(find_record, counts_only=True),
            reader,
            self.failures,
            begin=planning.begin,
            names=self.names,
        )

    def bring_forward(self, planned: Sequence[PlanResult], options: PlanOptions) -> Sequence[PlanResult]:
        """Return saved plans, which wait if replies are overdue by now; launches have their own deadlines."""
        workspace, now = self.session.workspace, self.session.workspace.now()
        reader = PlanContextReader(workspace, self.session.ledger, now)
        unread = reader.find_unread()
        overdue = [find_overdue(item.campaign, unread, now, options) for item in planned]
        return [
            item if found is None else replace(item, plan=replace(item.plan, unread=found))
            for item, found in zip(planned, overdue, strict=True)
        ]

    def iterate_launches(self, item: PlanResult) -> Iterable[PlannedLaunch]:
        """Yield the launches of a plan."""
        return read_launches(item.campaign, item.plan.parts)
