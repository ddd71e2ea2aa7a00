"""Planning of a campaign on a cluster: scatter its audience, plan partitions, add up.

Decisions and counts are made by the same code as in a plan of one process; launches are shared within a
partition only. All rows of a phone are in one partition, so its last consent is known there. Only the
partition's people are looked up in the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally, Recipient
from runner.audience.consent import ConsentChanges
from runner.audience.renumbering import list_forms
from runner.audience.rows import leave_out_blank
from runner.campaign.model import InlineRecipient
from runner.cluster.audience_scatter import read_rows, scatter_audience
from runner.cluster.launch_files import LaunchGroups, read_texted, write_partition
from runner.cluster.plan_job import PlanJob, look_up, open_job, store_job
from runner.plan.plan_counts import LaunchSizes, count_assignments
from runner.plan.planner import AudiencePass, Division, PlannedPartition, plan_partitions
from runner.source.diagnostic import Problems
from runner.source.yaml import pause_collector
from runner.text.payload import RowReporter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from runner.audience.audience import Role
    from runner.audience.consent import ConsentChange
    from runner.campaign.model import Campaign
    from runner.cluster.audience_scatter import ScatteredRow
    from runner.cluster.folder import SharedFolder
    from runner.cluster.plan_job import LedgerLookup
    from runner.execution import Executor
    from runner.plan.model import CampaignPlan, PartFile, PlanOptions
    from runner.plan.plan_context import PlanContext


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """A partition of a campaign to plan. It can be pickled, and names nobody.

    Attributes:
        job: the name of the job's file there.
        recipients: the names of the scattered files there, in the order of the audience.
        excluded: those of the exclusion lists.
        plans: earlier plans of the same run that text some of the same people: name, and the partition's
            file.
        out: the folder for the launches; None to write none.
    """

    folder: SharedFolder
    job: str
    recipients: tuple[str, ...]
    excluded: tuple[str, ...]
    partition: int
    plans: tuple[tuple[str, PartFile], ...] = ()
    out: SharedFolder | None = None


class PartitionAudience:
    """The people of one partition, each once, by their first row.

    Attributes:
        excluded: the phones (E.164) of the exclusion lists.
        duplicates: repeated rows, up to the last person yielded.
    """

    def __init__(self, task: PartitionTask, campaign: Campaign, partitions: int) -> None:
        def read(files: tuple[str, ...]) -> list[ScatteredRow]:
            named = (read_rows(task.folder, name, task.partition, partitions) for name in files)
            return [row for rows in named for row in rows]

        self._campaign = campaign
        self._rows = read(task.recipients)
        self.excluded = frozenset(phone for _, (_, phone, *_) in read(task.excluded))
        self.duplicates = 0

    def list_phones(self) -> list[str]:
        """Return the phones of all rows, with other forms of theirs, each once, in no order."""
        phones = {phone for _, (_, phone, *_) in self._rows}
        return [form for phone in phones for form in list_forms(phone)]

    def iterate_people(self, last_day: date | None, problems: Problems) -> Iterator[Recipient]:
        """Yield the people in the order of the audience; note people whose last row has another consent.

        `last_day` is the latest valid day of consent; None if any day will do.
        """
        changes = self._find_consent_changes(last_day)
        shared = leave_out_blank(self._campaign.vars)
        sources = self._campaign.recipients
        places = [one.position.file if isinstance(one, InlineRecipient) else one.path for one in sources]
        seen: set[str] = set()
        for index, (line, phone, given, timezone, region, own) in self._rows:
            if phone in seen:
                self.duplicates += 1
                continue
            seen.add(phone)
            change, place = changes.get(int(phone)), places[index]
            if change is not None:
                problems.add(change.note(sources, place, line))
            consent = own if change is None else change.consent
            variables = {**shared, **given} if shared else given
            yield Recipient._make((phone, variables, index, place, line, timezone, region, *consent))

    def _find_consent_changes(self, last_day: date | None) -> Mapping[int, ConsentChange]:
        changes = ConsentChanges(last_day)
        for index, (line, phone, *_, consent) in (
            self._rows if self._campaign.policy.consent == "required" else ()
        ):
            changes.add(int(phone), consent, index, line)
        return changes.found


@pause_collector()
def plan_partition(task: PartitionTask) -> PlannedPartition:
    """Plan one partition.

    Raises:
        RunnerError: the ledger or the folder cannot be read or written.
    """
    job, compiled = open_job(task.folder, task.job)
    campaign = job.campaign
    audience = PartitionAudience(task, campaign, job.partitions)
    known, context = look_up(job, audience.list_phones)
    context = replace(context, planned=[read_texted(*plan) for plan in task.plans])
    going = AudiencePass(campaign, compiled.compiled, job.options, context)
    problems = Problems()
    reporter = RowReporter(campaign, problems, Problems())
    key = None if job.lookup is None else job.lookup.key
    decider = going.make_assigner(audience.excluded, known, key)
    assigned = going.iterate(audience.iterate_people(going.last_day, problems), decider, reporter, None)
    groups = LaunchGroups()
    sizes = [LaunchSizes() for _ in going.compiled]
    counts = count_assignments(
        assigned if task.out is None else groups.watch(assigned), sizes, going.per_send
    )
    found = PlannedPartition(counts, problems, reporter.said, audience.duplicates)
    if task.out is not None:
        launches = groups.list_launches(going.compiled, going.per_send)
        found.part = write_partition(task.out, campaign.name, task.partition, launches)
    return found


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A request to plan a campaign on a cluster.

    Attributes:
        options: the plan's options, without a limit.
        context: the context, without what is to be looked up.
        partitions: a power of two, the same for all campaigns of a command.
        lookup: the ledger of the campaign's people; None to look nothing up.
        plans: earlier plans of the same run that text some of the same people: name, and files by
            partition.
        out: the folder for the launches; None to write none.
    """

    campaign: Campaign
    target: str
    options: PlanOptions
    context: PlanContext
    partitions: int
    lookup: LedgerLookup | None = None
    plans: tuple[tuple[str, tuple[PartFile, ...]], ...] = ()
    out: SharedFolder | None = None


def plan_on_cluster(
    cluster: Executor, folder: SharedFolder, request: PlanRequest, problems: Problems
) -> CampaignPlan | None:
    """Plan a campaign; return None if there are errors, which `problems` receives as from one process.

    Raises:
        RunnerError: the cluster, the ledger or the folder cannot be used.
    """
    compile_texts = partial(AudiencePass.compile, request.campaign, request.options, request.context)
    divide = partial(_divide, cluster, folder, request)
    return plan_partitions(cluster, request.target, compile_texts, divide, problems)


def _divide(
    cluster: Executor,
    folder: SharedFolder,
    request: PlanRequest,
    going: AudiencePass,
    problems: Problems,
) -> Division:
    """Store the job, and scatter the audience."""
    campaign = request.campaign
    name = f"{campaign.name}.job"
    context, partitions = request.context, request.partitions
    job = PlanJob(campaign, request.options, context, going.included, partitions, request.lookup)
    store_job(folder, name, job)

    def scatter(role: Role) -> tuple[tuple[str, ...], AudienceTally]:
        return scatter_audience(cluster, folder, name, campaign, role, problems)

    excluded, _ = scatter("exclude")
    recipients, audience = scatter("recipients")
    tasks = []
    for partition in range(partitions):
        plans = tuple((before, parts[partition]) for before, parts in request.plans)
        tasks.append((PartitionTask(folder, name, recipients, excluded, partition, plans, request.out),))
    return Division(plan_partition, tasks, audience)
