"""The second half of planning: one partition's people get what they get, and their launches a file.

The same code decides and counts as in a plan that one process makes; people share launches within their
partition alone.
"""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.campaign.row_problems import RowReporter
from runner.cluster.partition_audience import PartitionAudience, read_excluded_numbers
from runner.cluster.partition_record import read_partition_record
from runner.cluster.plan_job import open_job
from runner.cluster.plan_set import PartFile, read_texted, write_partition
from runner.plan.assigner import Assigner
from runner.plan.counting import PlanCounts, count_assignments
from runner.plan.gathering import LaunchGroups
from runner.plan.grouping import LaunchSizes
from runner.plan.passage import find_last_day, find_overdue, find_per_send, iterate_assignments
from runner.plan.shard import DeliveryDigest
from runner.source.collector import pause_collector
from runner.source.diagnostic import Diagnostic, Problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.cluster.folder import SharedFolder
    from runner.cluster.plan_job import OpenJob
    from runner.plan.passage import Assigned


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """One partition of a campaign to plan. It can be pickled, and names nobody.

    Attributes:
        folder: which all workers reach.
        job: the name of the job's file there.
        recipients: the names of the scattered slices there, in the order of the audience.
        excluded: the same of the exclusion lists.
        partition: which.
        limit: the most of these people who get something now; None for all.
        plans: of campaigns that were planned before in the same run, and text people of this one: the
            name, the URL of the folder, and the partition's file there.
        out: the URL of the folder to write the launches to; None to write none.
    """

    folder: SharedFolder
    job: str
    recipients: tuple[str, ...]
    excluded: tuple[str, ...]
    partition: int
    limit: int | None = None
    plans: tuple[tuple[str, str, PartFile], ...] = ()
    out: str | None = None


@dataclass(slots=True)
class PlannedPartition:
    """What has come of a partition. It can be pickled, and names nobody.

    Attributes:
        counts: of its people.
        duplicates: rows whose phone was mentioned before.
        problems: what is wrong with rows.
        said: what is said once for all partitions, as a `RowReporter` has it.
        part: the file of launches, if one was to be written.
    """

    counts: PlanCounts
    duplicates: int
    problems: Problems
    said: dict[Diagnostic, tuple[tuple[int, int], Diagnostic]] = field(default_factory=dict)
    part: PartFile | None = None


@pause_collector()
def plan_partition(task: PartitionTask) -> PlannedPartition:
    """Plan one partition.

    Raises:
        RunnerError: the ledger or the folder cannot be read or written.
    """
    job = open_job(task.folder, task.job)
    audience, problems = _open_audience(task, job), Problems()
    reporter = RowReporter(job.job.campaign, problems, Problems())
    assigned = _pass_over(task, job, audience, reporter, problems)
    per_send = find_per_send(job.job.campaign, job.job.options)
    sizes, terms = [LaunchSizes() for _ in job.tracks], DeliveryDigest()
    if task.out is None:
        counts = count_assignments(assigned, sizes, per_send, terms=terms)
        return PlannedPartition(counts, audience.duplicates, problems, reporter.said)
    drafts = {
        (track.message.id, arm): renderer.draft
        for track in job.tracks
        for arm, renderer in track.renderers.items()
    }
    groups = LaunchGroups(job.tracks, per_send)
    counts = count_assignments(groups.watch(assigned), sizes, per_send, terms=terms)
    name = job.job.campaign.name
    part = write_partition(task.out, name, task.partition, groups.iterate_launches(), drafts)
    return PlannedPartition(counts, audience.duplicates, problems, reporter.said, part)


@pause_collector()
def rank_partition(task: PartitionTask, most: int) -> bytes:
    """Return the places in the audience of the first of a partition's people who get something now.

    Args:
        task: the partition, without a limit.
        most: how many are of interest.

    Returns:
        Numbers of 64 bits, in order.
    """
    job = open_job(task.folder, task.job)
    audience = _open_audience(task, job)
    unseen = Problems()
    reporter = RowReporter(job.job.campaign, unseen)
    places = array("q")
    for recipient, assignments in _pass_over(task, job, audience, reporter, unseen):
        if any(assignment.counts for assignment in assignments):
            places.append(audience.find_place(recipient))
            if len(places) == most:
                break
    return places.tobytes()


def _open_audience(task: PartitionTask, job: OpenJob) -> PartitionAudience:
    return PartitionAudience(task.folder, job.job.campaign, job.names, task.recipients, task.partition)


def _pass_over(
    task: PartitionTask, job: OpenJob, audience: PartitionAudience, reporter: RowReporter, problems: Problems
) -> Iterator[Assigned]:
    campaign, options = job.job.campaign, job.job.options
    record = read_partition_record(
        job.job, audience.list_phones, [read_texted(*plan) for plan in task.plans], os.environ
    )
    assigner = Assigner(
        campaign,
        job.tracks,
        read_excluded_numbers(task.folder, task.excluded, task.partition),
        record.known,
        record.key,
        record.circumstances,
        ignore_time=options.ignore_time,
    )
    circumstances = record.circumstances
    pause, unread = None, None
    if circumstances is not None:
        pause = circumstances.pause
        unread = find_overdue(campaign, circumstances.unread, circumstances.now, options)
    last_day = find_last_day(campaign, circumstances)
    return iterate_assignments(
        audience.iterate_people(last_day, problems),
        assigner,
        reporter,
        limit=task.limit,
        last_day=last_day,
        is_paused=pause is not None,
        unread=unread,
    )
