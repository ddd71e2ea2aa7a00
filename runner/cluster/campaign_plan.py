"""Plans a campaign on a cluster: its audience cut, scattered, planned by partitions, and added up."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from runner.campaign.audience import AudienceTally
from runner.campaign.include import include_folder
from runner.campaign.template import TextCompiler
from runner.cluster.audience_scatter import scatter_audience
from runner.cluster.partition_plan import PartitionTask, plan_partition, rank_partition
from runner.cluster.plan_job import PlanJob, store_job
from runner.plan.counting import PlanCounts, add_up_plan, describe_empty
from runner.plan.passage import find_overdue, find_per_send
from runner.plan.shard import join_digests
from runner.plan.track import compile_tracks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign
    from runner.cluster.audience_scatter import CutAudience, Observe, ScatteredRows
    from runner.cluster.folder import SharedFolder
    from runner.cluster.partition_plan import PlannedPartition
    from runner.cluster.plan_job import RecordPlace
    from runner.cluster.plan_set import PartFile
    from runner.cluster.task import Workers
    from runner.plan.model import CampaignPlan, PlanOptions
    from runner.plan.track import Track
    from runner.source.diagnostic import Diagnostic, Problems


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A campaign to plan on a cluster.

    Attributes:
        campaign: the campaign.
        target: the target's name.
        options: what the user asks for.
        now: the moment for which is planned; None to look at the campaign's files alone.
        audience: in slices.
        partitions: how many there are: a power of two, the same for all campaigns of a command.
        record: where the ledger has its people; None to go by the files alone.
        plans: of campaigns that were planned before in the same run, and text people of this one: the
            name, the URL of the folder, and the files there, partition by partition.
        out: the URL of the folder to write the launches to; None to write none.
        planned_at: of a saved plan, the moment for which it was made.
    """

    campaign: Campaign
    target: str
    options: PlanOptions
    now: datetime | None
    audience: CutAudience
    partitions: int
    record: RecordPlace | None = None
    plans: tuple[tuple[str, str, tuple[PartFile, ...]], ...] = ()
    out: str | None = None
    planned_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PartitionedPlan:
    """A plan that a cluster has made.

    Attributes:
        plan: its counts.
        parts: the files of its launches, by partition; empty if none were to be written.
        terms: the digest of who gets it in which arm and until when.
    """

    plan: CampaignPlan
    parts: tuple[PartFile, ...]
    terms: str


class CampaignPlanner:
    """Plans campaigns on a cluster, one after the other.

    Args:
        cluster: does the work.
        folder: which all workers reach.
        observe: is told of each stage, how much of it is done, and of how much.
    """

    def __init__(self, cluster: Workers, folder: SharedFolder, observe: Observe) -> None:
        self._cluster = cluster
        self._folder = folder
        self._observe = observe

    def make_plan(self, request: PlanRequest, problems: Problems) -> PartitionedPlan | None:
        """Plan a campaign.

        Args:
            request: what to plan.
            problems: receives everything that is wrong with texts and audience, as from one process.

        Returns:
            The plan; None if there are errors.

        Raises:
            RunnerError: the cluster, the ledger or the folder cannot be used.
        """
        before = problems.error_count
        campaign = request.campaign
        tracks = self._store(request, problems)
        job = self._job(campaign)
        excluded = scatter_audience(
            self._cluster, self._folder, job, campaign, "exclude", request.audience.excluded, problems,
            self._observe,
        )  # fmt: skip
        rows = scatter_audience(
            self._cluster, self._folder, job, campaign, "recipients", request.audience.recipients, problems,
            self._observe,
        )  # fmt: skip
        tasks = [
            PartitionTask(
                self._folder,
                job,
                rows.files,
                excluded.files,
                partition,
                None,
                tuple((name, url, parts[partition]) for name, url, parts in request.plans),
                request.out,
            )
            for partition in range(request.partitions)
        ]
        if request.options.limit is not None:
            tasks = self._share_limit(tasks, request.options.limit)
        found = self._plan(tasks)
        _merge_problems(found, problems)
        if problems.error_count > before:
            return None
        return self._add_up(request, tracks, found, rows, problems)

    def _job(self, campaign: Campaign) -> str:
        return f"{campaign.name}.job"

    def _store(self, request: PlanRequest, problems: Problems) -> list[Track]:
        campaign, only = request.campaign, request.options.only
        compiler = TextCompiler(include_folder(campaign))
        tracks = [
            track
            for track in compile_tracks(campaign, compiler, problems)
            if only in (None, track.message.id)
        ]
        job = PlanJob(
            campaign,
            request.target,
            replace(request.options, limit=None),
            request.now,
            compiler.included,
            request.partitions,
            request.record,
            request.planned_at,
        )
        store_job(self._folder, self._job(campaign), job)
        return tracks

    def _share_limit(self, tasks: Sequence[PartitionTask], limit: int) -> list[PartitionTask]:
        """Return the tasks with what is theirs of a limit, which goes by the order of the audience."""
        places: list[array[int]] = [array("q") for _ in tasks]
        for done, (place, ranked) in enumerate(
            self._cluster.run(rank_partition, [(task, limit) for task in tasks]), 1
        ):
            places[place].frombytes(ranked)
            self._observe("partitions ranked", done, len(tasks))
        first = list(islice(merge(*places), limit))
        last = first[-1] if first else -1
        shares = [sum(place <= last for place in own) for own in places]
        return [replace(task, limit=share) for task, share in zip(tasks, shares, strict=True)]

    def _plan(self, tasks: Sequence[PartitionTask]) -> list[PlannedPartition]:
        found: dict[int, PlannedPartition] = {}
        for place, planned in self._cluster.run(plan_partition, [(task,) for task in tasks]):
            found[place] = planned
            self._observe("partitions planned", len(found), len(tasks))
        return [found[place] for place in range(len(tasks))]

    def _add_up(
        self,
        request: PlanRequest,
        tracks: Sequence[Track],
        found: Sequence[PlannedPartition],
        rows: ScatteredRows,
        problems: Problems,
    ) -> PartitionedPlan:
        counts = PlanCounts.start(len(tracks))
        for one in found:
            counts.merge(one.counts)
        audience = AudienceTally(rows.rows, sum(one.duplicates for one in found), rows.invalid)
        if not rows.rows:
            problems.add(describe_empty(request.campaign))
        plan = add_up_plan(
            request.campaign,
            request.target,
            tracks,
            counts,
            audience,
            find_per_send(request.campaign, request.options),
            request.now,
        )
        if request.record is not None:
            unread = (
                None
                if request.now is None
                else find_overdue(request.campaign, request.record.unread, request.now, request.options)
            )
            plan = replace(plan, pause=request.record.pause, unread=unread)
        parts = tuple(one.part for one in found if one.part is not None)
        return PartitionedPlan(plan, parts, join_digests([counts.terms]))


def _merge_problems(found: Sequence[PlannedPartition], problems: Problems) -> None:
    problems.merge_mixed([one.problems for one in found])
    said: dict[Diagnostic, tuple[tuple[int, int], Diagnostic]] = {}
    for one in found:
        for key, words in one.said.items():
            said[key] = min(said.get(key, words), words, key=lambda each: each[0])
    problems.extend(words for _, words in sorted(said.values(), key=lambda each: each[0]))
