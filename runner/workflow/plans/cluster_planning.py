"""Planning of campaigns on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from runner.cluster.audience_scatter import choose_partitions
from runner.cluster.campaign_plan import plan_on_cluster
from runner.cluster.plan_job import PlanJob
from runner.service.target import list_variables
from runner.workflow.plans.planning import PlanResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.campaign.model import Campaign
    from runner.cluster.dask_engine import Cluster
    from runner.cluster.folder import SharedFolder
    from runner.ledger.record.campaign_record import Record
    from runner.plan.model import PlanOptions
    from runner.source.diagnostic import Problems
    from runner.workflow.plans.context_reader import PlanContextReader
    from runner.workflow.plans.planning import MakePlan
    from runner.workflow.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ClusterPlanning:
    """Planning on a cluster, whose workers reach `folder`; with `keeps_launches` they are written there."""

    workspace: Workspace
    reader: PlanContextReader
    cluster: Cluster
    folder: SharedFolder
    keeps_launches: bool

    def begin(self, campaigns: Sequence[Campaign]) -> MakePlan:
        """Split the audiences of all campaigns into the same partitions; return what plans each."""
        return partial(self._make_plan, choose_partitions(campaigns))

    def _make_plan(
        self,
        partitions: int,
        campaign: Campaign,
        record: Record,
        options: PlanOptions,
        before: Sequence[PlanResult],
        problems: Problems,
    ) -> PlanResult | None:
        target = self.workspace.target
        job = PlanJob(
            campaign,
            target.name,
            options,
            self.reader.read(campaign),
            partitions,
            record.known,
            None if record.known.is_empty() else self.workspace.key,
            list_variables(target.name, self.workspace.targets)[-1],
            tuple((item.campaign.name, item.plan.parts) for item in before if item.plan.parts),
            keeps_launches=self.keeps_launches or options.keeps_people,
        )
        plan = plan_on_cluster(self.cluster, self.folder, job, problems)
        return None if plan is None else PlanResult(record=record, plan=plan, target=target)
