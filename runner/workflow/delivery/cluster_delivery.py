"""Planning and sending on a cluster, by workers that each take partitions."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from runner.cluster.plan_set import digest_part, require_planned
from runner.cluster.sending import Coordinator, SendingOrder
from runner.cluster.worker_access import WorkerTarget
from runner.delivery.pace import Breaker
from runner.plan.manifest import PlanSet
from runner.plan.planner import find_overdue
from runner.service.target import list_variables
from runner.workflow.observer import note
from runner.workflow.plans.cluster_planning import ClusterPlanning
from runner.workflow.plans.context_reader import PlanContextReader
from runner.workflow.plans.planning import plan_campaigns
from runner.workflow.workspace.clustering import open_chosen_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.cluster.dask_engine import Cluster
    from runner.cluster.folder import SharedFolder
    from runner.ledger.locks.partition_lease import LiveLeases
    from runner.ledger.model import Run
    from runner.plan.model import PlanOptions
    from runner.workflow.delivery.apply_session import ApplySession
    from runner.workflow.failures import Failures
    from runner.workflow.plans.planning import NameCheck, PlanResult
    from runner.workflow.scope import Scope
    from runner.workflow.workspace.clustering import ClusterSettings


class ClusterApply:
    """Plans and sends campaigns on a cluster; the ledger must be on PostgreSQL.

    `saved` is the plan set to send, None to plan now; with `names`, campaigns that may have been renamed are
    refused.
    """

    most_listed = 10_000

    def __init__(
        self,
        session: ApplySession,
        failures: Failures,
        settings: ClusterSettings,
        saved: PlanSet | None,
        names: NameCheck | None,
    ) -> None:
        self._session = session
        self._workspace = session.workspace
        self._failures = failures
        self._settings = settings
        self._saved = saved
        self._names = names
        self._plan_set = saved
        self._opened: tuple[Cluster, SharedFolder] | None = None

    def _open_cluster(self) -> tuple[Cluster, SharedFolder]:
        """Return the connected cluster, and a folder for this run's intermediate files.

        Raises:
            RunnerError: it cannot be reached or started, or its workers do not fit.
        """
        if self._opened is None:
            opened = open_chosen_cluster(self._settings, self._workspace, self._list_secrets())
            self._opened = self._session.keep_open(opened)
        return self._opened

    def _list_secrets(self) -> dict[str, str]:
        """Return the embedded sandbox's credentials by variable, which are made when it starts."""
        if self._workspace.target.base_url is not None:
            return {}
        _, target = self._session.open_service()
        if target.credentials is None:
            return {}
        username, api_key, _ = list_variables(target.name, self._workspace.targets)
        return {username: target.credentials.username, api_key: target.credentials.api_key}

    def plan(
        self, scope: Scope, options: PlanOptions, reader: PlanContextReader, *, is_held: bool
    ) -> Sequence[PlanResult]:
        """Load and plan campaigns, and show problems found."""
        cluster, folder = self._open_cluster()
        find_record = self._session.enter if is_held else self._session.enter_settled
        is_saved = self._saved is not None
        own = folder.within(f"plan-{secrets.token_hex(4)}")
        maker = ClusterPlanning(
            self._workspace,
            self._session.ledger,
            reader,
            cluster,
            folder,
            None if is_saved else own,
            environment=self._settings.environment,
            quiet=scope.quiet,
        )
        planned = plan_campaigns(
            self._workspace,
            scope,
            options,
            partial(find_record, counts_only=True),
            reader,
            self._failures,
            maker=maker,
            names=self._names,
        )
        if not is_saved:
            parts = {item.campaign.name: item.plan.parts for item in planned if item.plan.parts}
            self._plan_set = PlanSet(own.url, (), options.only, options.limit, reader.now, "", parts)
        return planned

    def bring_forward(self, planned: Sequence[PlanResult], options: PlanOptions) -> Sequence[PlanResult]:
        """Return saved plans unchanged, unless replies are overdue by now; launches have their own deadlines.

        Raises:
            PlanChangedError: a plan set differs from this run's plan.
        """
        if self._saved is not None:
            self._require_parts(self._saved, planned)
        now = self._workspace.now()
        reader = PlanContextReader(self._workspace, self._session.ledger, now)
        reader.note_records([(item.campaign, item.record) for item in planned])
        unread = reader.find_unread()
        overdue = [find_overdue(item.campaign, unread, now, options) for item in planned]
        return [
            item if found is None else replace(item, plan=item.plan.wait_for(found))
            for item, found in zip(planned, overdue, strict=True)
        ]

    def _require_parts(self, saved: PlanSet, planned: Sequence[PlanResult]) -> None:
        cluster, _ = self._open_cluster()
        for item in planned:
            name = item.campaign.name
            campaign, count = replace(item.campaign, recipients=(), exclude=()), saved.partitions(name)
            # Each task gets its own file's name only, out of possibly thousands.
            tasks = [
                (replace(saved, parts={name: (part,)}), campaign, partition, count)
                for partition, part in enumerate(saved.parts[name])
            ]
            found = [digests for _, digests in cluster.of_campaign(name).run(digest_part, tasks)]
            require_planned(saved.url, name, found, item.plan.digest, item.plan.terms)

    @contextmanager
    def open_sender(self, item: PlanResult, run: Run) -> Iterator[Coordinator]:
        """Yield the coordinator of workers that send a plan."""
        cluster, _ = self._open_cluster()
        name = item.campaign.name
        order = self._make_order(item, run)
        coordinator = Coordinator(
            self._session.ledger,
            cluster.of_campaign(name),
            self._session.lock_of(name),
            order,
            self._session.stop,
            lambda live: self._say_waiting(name, live),
        )
        with coordinator.begin():
            yield coordinator

    def _make_order(self, item: PlanResult, run: Run) -> SendingOrder:
        campaign, plan_set = item.campaign, self._plan_set
        if plan_set is None:
            raise ValueError(campaign.name)
        _, target = self._session.open_service()
        campaign_id, _ = item.record.require_entered()
        return SendingOrder(
            run_id=secrets.token_hex(8),
            round=0,
            plan_set=plan_set,
            # Without the audience, so that phone numbers stay out of orders.
            campaign=replace(campaign, recipients=(), exclude=()),
            campaign_id=campaign_id,
            target=WorkerTarget.strip(
                target,
                list_variables(target.name, self._workspace.targets),
                self._settings.environment,
            ),
            concurrency=target.concurrency,
            failures=Breaker.for_concurrency(target.concurrency).limit,
            rate=min(filter(None, (target.rate, campaign.limits.rate)), default=None),
            lease_s=self._session.options.lease_s,
            ahead=self._workspace.ahead,
            run=run,
        )

    def _say_waiting(self, campaign: str, live: LiveLeases) -> None:
        if not self._session.scope.quiet:
            note(
                f"{campaign}: a worker was lost that may still send: waiting for {live.holder}, "
                f"{live.left_s:.0f} s at most."
            )
