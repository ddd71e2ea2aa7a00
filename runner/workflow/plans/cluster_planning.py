"""Planning of campaigns on a cluster, and its requirements."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from runner.audience.sealing import require_plain
from runner.cluster.address import Address, parse_address
from runner.cluster.audience_scatter import choose_partitions
from runner.cluster.campaign_plan import plan_on_cluster
from runner.cluster.folder import PlanJob
from runner.errors import ConfigurationError, UsageError, write_install_hint
from runner.plan.survey import survey_audience
from runner.service.target import find_key_variable
from runner.workflow.plans.planning import PlanResult
from runner.workflow.workspace.folders import make_state_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from runner.campaign.model import Campaign
    from runner.cluster.dask_engine import Cluster
    from runner.cluster.folder import SharedFolder
    from runner.ledger.record.campaign_record import Record
    from runner.plan.model import PlanOptions
    from runner.source.diagnostic import Problems
    from runner.workflow.plans.context_reader import PlanContextReader
    from runner.workflow.plans.planning import MakePlan
    from runner.workflow.scope import Scope
    from runner.workflow.workspace.workspace import Workspace

_LIBRARIES = ("distributed", "fsspec")


def choose_cluster(scope: Scope, workspace: Workspace, limit: int | None) -> ClusterPlanning | None:
    """Return the cluster that plans, without a limit of recipients; None for a single process.

    Options override the environment, which overrides `targets.yaml`.
    """
    text = scope.cluster or workspace.target.cluster
    if text is None:
        return None
    address = parse_address(text, insecure=scope.insecure_cluster)
    if limit is not None:
        raise UsageError(
            "--limit goes by the order of the whole audience, which a cluster does not know",
            hint="leave out --limit, or plan in one process, without --cluster",
        )
    if any(find_spec(library) is None for library in _LIBRARIES):
        raise ConfigurationError(
            "--cluster needs Dask and fsspec, which are not installed",
            hint=write_install_hint("cluster"),
        )
    return ClusterPlanning(workspace, address, scope.scratch)


@dataclass(slots=True)
class ClusterPlanning:
    """Planning on the cluster at an address; `scratch` is its folder for intermediate files, if given."""

    workspace: Workspace
    address: Address
    scratch: str | None
    _opened: tuple[Cluster, SharedFolder] | None = field(default=None, init=False)

    def begin(
        self,
        stack: ExitStack,
        reader: PlanContextReader,
        campaigns: Sequence[Campaign],
        *,
        keeps_launches: bool,
    ) -> MakePlan:
        """Split the audiences of all campaigns into the same partitions; return what plans each.

        The cluster is connected, the first time, until `stack` is closed. With `keeps_launches` workers write
        the launches to files.
        """
        if self._opened is None:
            self._opened = self._open(stack)
        cluster, folder = self._opened
        partitions, target = choose_partitions(campaigns), self.workspace.target

        def make_plan(
            campaign: Campaign,
            record: Record,
            options: PlanOptions,
            before: Sequence[PlanResult],
            problems: Problems,
        ) -> PlanResult | None:
            require_plain(campaign)
            known, key = record.known, self.workspace.key
            job = PlanJob(
                campaign,
                target.name,
                options,
                survey_audience(campaign, known, key, reader.read(campaign)),
                partitions,
                known,
                None if known.is_empty() else key,
                self._variable,
                tuple((item.campaign.name, item.plan.parts) for item in before if item.plan.parts),
                keeps_launches=keeps_launches or options.keeps_people,
            )
            plan = plan_on_cluster(cluster, folder, job, problems)
            return None if plan is None else PlanResult(record=record, plan=plan, target=target)

        return make_plan

    def _open(self, stack: ExitStack) -> tuple[Cluster, SharedFolder]:
        """Connect to the cluster, with a new folder, which is removed at the end.

        Only workers with the same version and state key, and access to the folder, are used.
        """
        # Imported here: optional, and slow to import.
        from runner.cluster.dask_engine import check_workers, open_cluster
        from runner.cluster.folder import open_scratch

        # Workers plan: they need no credentials of the service, and no ledger.
        secret = self.workspace.environ.get(self._variable)
        given = {self._variable: secret} if secret else {}
        folder = stack.enter_context(open_scratch(self.scratch or make_state_folder() / "cluster"))
        cluster = stack.enter_context(open_cluster(self.address, given))
        check_workers(cluster, folder, self.workspace.key, self._variable)
        return cluster, folder

    @property
    def _variable(self) -> str:
        """The environment variable with the state key."""
        return find_key_variable(self.workspace.target.name, self.workspace.targets)
