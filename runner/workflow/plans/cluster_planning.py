"""Planning of campaigns on a cluster, with the context that workers do not read themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.cluster.audience_scatter import choose_partitions
from runner.cluster.campaign_plan import plan_on_cluster
from runner.cluster.plan_job import LedgerLookup, PlanJob
from runner.ledger.model import format_moment
from runner.ledger.people.history import find_depleted
from runner.service.target import list_variables
from runner.workflow.plans.planning import PlanResult

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign
    from runner.cluster.dask_engine import Cluster
    from runner.cluster.folder import SharedFolder
    from runner.ledger.database import Ledger
    from runner.ledger.record.campaign_record import Record
    from runner.plan.model import PlanOptions
    from runner.source.diagnostic import Problems
    from runner.workflow.plans.context_reader import PlanContextReader
    from runner.workflow.plans.planning import MakePlan
    from runner.workflow.workspace.workspace import Workspace


@dataclass(slots=True)
class ClusterPlanning:
    """Planning on a cluster, whose workers reach `folder`; with `keeps_launches` they are written there."""

    workspace: Workspace
    ledger: Ledger
    reader: PlanContextReader
    cluster: Cluster
    folder: SharedFolder
    keeps_launches: bool
    _partitions: int = field(default=0, init=False)

    def begin(self, campaigns: Sequence[Campaign]) -> MakePlan:
        """Split the audiences of all campaigns into the same partitions; return what plans each."""
        self._partitions = choose_partitions(campaigns)
        return self._make_plan

    def _make_plan(
        self,
        campaign: Campaign,
        record: Record,
        options: PlanOptions,
        before: Sequence[PlanResult],
        problems: Problems,
    ) -> PlanResult | None:
        context = self.reader.read(campaign, leaves_people=True)
        job = PlanJob(
            campaign,
            self.workspace.target.name,
            options,
            context,
            self._partitions,
            self._ask(campaign, record, context.now),
            tuple((item.campaign.name, item.plan.parts) for item in before if item.plan.parts),
            keeps_launches=self.keeps_launches or options.keeps_people,
        )
        plan = plan_on_cluster(self.cluster, self.folder, job, problems)
        return None if plan is None else PlanResult(record=record, plan=plan, target=self.workspace.target)

    def _ask(self, campaign: Campaign, record: Record, now: datetime) -> LedgerLookup:
        """Return what workers look up of a campaign's people."""
        cap, after = campaign.policy.frequency_cap, campaign.list_earlier()
        campaign_id, depleted = None if record.is_empty() else record.campaign_id, tuple[int, ...]()
        if campaign_id is not None and after:
            with self.ledger.reading() as connection:
                depleted = find_depleted(connection, campaign_id, campaign.message_ids, after)
        return LedgerLookup(
            list_variables(self.workspace.target.name, self.workspace.targets)[-1],
            self.workspace.key,
            campaign_id,
            None if cap is None else format_moment(now - cap.within),
            depleted,
        )
