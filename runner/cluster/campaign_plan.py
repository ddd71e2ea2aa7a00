"""Planning of a campaign on a cluster: scatter its audience, plan partitions, add up.

Decisions and counts are made by the same code as in a plan of one process; launches are shared within a
partition only. All rows of a phone are in one partition, so its last consent is known there. Only the
partition's people are looked up in the ledger.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally, Recipient
from runner.audience.consent import ConsentChanges, RowConsent
from runner.audience.renumbering import list_forms
from runner.audience.rows import leave_out_blank
from runner.campaign.model import InlineRecipient
from runner.cluster.audience_scatter import scatter_audience
from runner.cluster.columns import read_consents, read_numbers, read_partition
from runner.cluster.launch_files import read_texted, write_partition
from runner.cluster.plan_job import PlanJob, look_up, open_job, store_job
from runner.plan.model import PlannedLaunch
from runner.plan.plan_counts import LaunchSizes, count_assignments
from runner.plan.planner import AudiencePass, Division, PlannedPartition, plan_partitions
from runner.source.diagnostic import Problems
from runner.source.yaml import pause_collector
from runner.text.payload import RowReporter, list_drafts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from runner.audience.audience import Role
    from runner.audience.consent import ConsentChange
    from runner.campaign.model import Campaign, Variables
    from runner.cluster.audience_scatter import Observe
    from runner.cluster.columns import RowColumns
    from runner.cluster.folder import SharedFolder
    from runner.cluster.plan_job import LedgerLookup
    from runner.execution import Executor
    from runner.plan.decisions import Assigned
    from runner.plan.model import CampaignPlan, PartFile, PlanOptions
    from runner.plan.plan_context import PlanContext
    from runner.text.payload import CompiledMessage, Payload

_PLACE_BITS = 40
"""Bits of a place: more lines than a file has."""


class PartitionAudience:
    """The people of one partition, each once, by their first row.

    Args:
        folder: the shared folder, with the scattered rows.
        names: the variables of the rows, sorted.
        files: the scattered files, in the order of the audience.

    Attributes:
        duplicates: repeated rows, up to the last person yielded.
        file_number: the place of that person's file.
    """

    def __init__(
        self,
        folder: SharedFolder,
        campaign: Campaign,
        names: Sequence[str],
        files: Sequence[str],
        partition: int,
    ) -> None:
        self._folder = folder
        self._campaign = campaign
        self._names = names
        self._files = files
        self._partition = partition
        self.duplicates = 0
        self.file_number = 0

    def iterate_people(self, last_day: date | None, problems: Problems) -> Iterator[Recipient]:
        """Yield the people in the order of the audience; note people whose last row has another consent.

        `last_day` is the latest valid day of consent; None if any day will do.
        """
        changes = self._find_consent_changes(last_day)
        shared = leave_out_blank(self._campaign.vars)
        sources = self._campaign.recipients
        places = [
            source.position.file if isinstance(source, InlineRecipient) else source.path for source in sources
        ]
        seen: set[int] = set()
        for file_number, name in enumerate(self._files):
            rows = self._read(name)
            self.file_number = file_number
            given = self._iterate_variables(rows)
            own = zip(*rows[:-1], given, strict=True)
            for number, line, source, zone, region, has_consent, day, variables in own:
                if number in seen:
                    self.duplicates += 1
                    continue
                seen.add(number)
                change = changes.get(number)
                if change is not None:
                    problems.add(change.note(sources, places[source], line))
                consent = (has_consent, day) if change is None else change.consent
                entire = {**shared, **variables} if shared else variables
                place = places[source]
                person = f"+{number}", entire, source, place, line, zone, region, *consent
                yield Recipient._make(person)

    def find_place(self, last: Recipient) -> int:
        """Return the place of the last person yielded, `last`, in the audience of all partitions."""
        # Several recipients of the campaign file may be in one line of it.
        is_inline = isinstance(self._campaign.recipients[last.source], InlineRecipient)
        return (self.file_number << _PLACE_BITS) + (last.source if is_inline else last.line)

    def list_phones(self) -> list[str]:
        """Return the phones of all rows, with other forms of theirs, each once, in no order."""
        numbers = {number for name in self._files for number in self._read_numbers(name)}
        return [form for number in numbers for form in list_forms(f"+{number}")]

    def _find_consent_changes(self, last_day: date | None) -> Mapping[int, ConsentChange]:
        changes = ConsentChanges(last_day)
        for name in self._files if self._campaign.policy.consent == "required" else ():
            with self._folder.open(name) as file:
                for number, consent, day, source, line in read_consents(file, self._partition):
                    changes.add(number, RowConsent(consent, day), source, line)
        return changes.found

    def _read(self, name: str) -> RowColumns:
        with self._folder.open(name) as file:
            return read_partition(file, self._partition)

    def _read_numbers(self, name: str) -> list[int]:
        with self._folder.open(name) as file:
            return read_numbers(file, self._partition)

    def _iterate_variables(self, rows: RowColumns) -> Iterator[Variables]:
        names = self._names
        if not rows.texts:
            # Texts have no variables; or the rows are inline recipients, whose values may be of any type.
            own = [_own_variables(source) for source in self._campaign.recipients]
            return (own[source] for source in rows.sources)
        if any(None in column for column in rows.texts):
            return (
                {name: text for name, text in zip(names, texts, strict=True) if text is not None}
                for texts in zip(*rows.texts, strict=True)
            )
        return (dict(zip(names, texts, strict=True)) for texts in zip(*rows.texts, strict=True))


def _own_variables(source: object) -> Variables:
    return leave_out_blank(source.vars) if isinstance(source, InlineRecipient) else {}


def read_excluded_numbers(folder: SharedFolder, files: Sequence[str], partition: int) -> frozenset[str]:
    """Return one partition's phones (E.164) from the scattered exclusion lists."""
    found: set[int] = set()
    for name in files:
        with folder.open(name) as file:
            found.update(read_numbers(file, partition))
    return frozenset(f"+{number}" for number in found)


_Alike = tuple[int, str | None, "datetime | None", str]


class LaunchGroups:
    """People grouped by their content, in one pass and in memory; `per_send` is the most of one launch."""

    def __init__(self, compiled: Sequence[CompiledMessage], per_send: int) -> None:
        self._compiled = compiled
        self._per_send = per_send
        self._groups: dict[_Alike, tuple[Payload, list[str]]] = {}

    def watch(self, assigned: Iterable[Assigned]) -> Iterator[Assigned]:
        """Yield what a pass yields, and keep what is to be sent now."""
        groups = self._groups
        for pair in assigned:
            recipient, assignments = pair
            for assignment in assignments:
                payload = assignment.payload
                if payload is not None:
                    alike = assignment.message, assignment.arm, assignment.until, payload.digest
                    group = groups.get(alike)
                    if group is None:
                        groups[alike] = payload, [recipient.phone]
                    else:
                        group[1].append(recipient.phone)
            yield pair

    def iterate_launches(self) -> Iterator[PlannedLaunch]:
        """Yield the launches, message by message, in the order of their first recipients."""
        groups = sorted(self._groups.items(), key=lambda group: group[0][0])
        for (index, arm, until, _), (payload, phones) in groups:
            message = self._compiled[index].renderers[arm].message
            for start in range(0, len(phones), self._per_send):
                people = tuple(phones[start : start + self._per_send])
                yield PlannedLaunch(message, payload, people, arm, until)


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """A partition of a campaign to plan. It can be pickled, and names nobody.

    Attributes:
        job: the name of the job's file there.
        recipients: the names of the scattered files there, in the order of the audience.
        excluded: those of the exclusion lists.
        limit: the most people who get something now; None for all.
        plans: earlier plans of the same run that text some of the same people: name, and the partition's
            file.
        out: the folder for the launches; None to write none.
    """

    folder: SharedFolder
    job: str
    recipients: tuple[str, ...]
    excluded: tuple[str, ...]
    partition: int
    limit: int | None = None
    plans: tuple[tuple[str, PartFile], ...] = ()
    out: SharedFolder | None = None


class PartitionPass:
    """A pass over one partition.

    Attributes:
        going: its settings.
        reporter: receives the problems of rows; those reported once are kept apart.
    """

    def __init__(self, task: PartitionTask) -> None:
        self._task = task
        self.job, compiled = open_job(task.folder, task.job)
        campaign = self.job.campaign
        self.audience = PartitionAudience(
            task.folder, campaign, sorted(compiled.names), task.recipients, task.partition
        )
        known, context = look_up(self.job, self.audience.list_phones)
        if context is not None:
            context = replace(context, planned=[read_texted(*plan) for plan in task.plans])
        self.going = AudiencePass(campaign, compiled.compiled, self.job.options, context)
        self.problems = Problems()
        self.reporter = RowReporter(campaign, self.problems, Problems())
        excluded = read_excluded_numbers(task.folder, task.excluded, task.partition)
        key = None if self.job.lookup is None else self.job.lookup.key
        self._decider = self.going.make_assigner(excluded, known, key)

    def iterate(self) -> Iterator[Assigned]:
        """Yield the partition's people with the decisions on them."""
        people = self.audience.iterate_people(self.going.last_day, self.problems)
        return self.going.iterate(people, self._decider, self.reporter, self._task.limit)


@pause_collector()
def plan_partition(task: PartitionTask) -> PlannedPartition:
    """Plan one partition.

    Raises:
        RunnerError: the ledger or the folder cannot be read or written.
    """
    own = PartitionPass(task)
    going, assigned = own.going, own.iterate()
    groups = None if task.out is None else LaunchGroups(going.compiled, going.per_send)
    assigned = assigned if groups is None else groups.watch(assigned)
    sizes = [LaunchSizes() for _ in going.compiled]
    counts = count_assignments(assigned, sizes, going.per_send)
    found = PlannedPartition(counts, own.problems, own.reporter.said, own.audience.duplicates)
    if groups is not None and task.out is not None:
        launches, drafts = groups.iterate_launches(), list_drafts(going.compiled)
        found.part = write_partition(task.out, going.campaign.name, task.partition, launches, drafts)
    return found


@pause_collector()
def rank_partition(task: PartitionTask, most: int) -> bytes:
    """Return the places in the audience of the first `most` people who get something now.

    The places are 64-bit numbers in order; the task must have no limit.
    """
    own = PartitionPass(task)
    places = (
        own.audience.find_place(recipient)
        for recipient, assignments in own.iterate()
        if any(assignment.counts for assignment in assignments)
    )
    return array("q", islice(places, most)).tobytes()


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A request to plan a campaign on a cluster.

    Attributes:
        context: the context, without what is to be looked up; None to go by the campaign's files alone.
        partitions: a power of two, the same for all campaigns of a command.
        lookup: the ledger of the campaign's people; None to look nothing up.
        plans: earlier plans of the same run that text some of the same people: name, and files by
            partition.
        out: the folder for the launches; None to write none.
    """

    campaign: Campaign
    target: str
    options: PlanOptions
    context: PlanContext | None
    partitions: int
    lookup: LedgerLookup | None = None
    plans: tuple[tuple[str, tuple[PartFile, ...]], ...] = ()
    out: SharedFolder | None = None


class CampaignPlanner:
    """A planner of campaigns on a cluster; `observe` receives each stage, the work done, and the total."""

    def __init__(self, cluster: Executor, folder: SharedFolder, observe: Observe) -> None:
        self._cluster = cluster
        self._folder = folder
        self._observe = observe

    def make_plan(self, request: PlanRequest, problems: Problems) -> CampaignPlan | None:
        """Plan a campaign; return None if there are errors, which `problems` receives as from one process.

        Raises:
            RunnerError: the cluster, the ledger or the folder cannot be used.
        """
        compile_texts = partial(AudiencePass.compile, request.campaign, request.options, request.context)
        divide = partial(self._divide, request)
        return plan_partitions(self._cluster, request.target, compile_texts, divide, problems, self._observe)

    def _divide(self, request: PlanRequest, going: AudiencePass, problems: Problems) -> Division:
        """Store the job, and scatter the audience."""
        campaign, limit = request.campaign, request.options.limit
        name = f"{campaign.name}.job"
        job = PlanJob(
            campaign,
            request.target,
            replace(request.options, limit=None),
            request.context,
            going.included,
            request.partitions,
            request.lookup,
        )
        store_job(self._folder, name, job)

        def scatter(role: Role) -> tuple[tuple[str, ...], AudienceTally]:
            return scatter_audience(
                self._cluster, self._folder, name, campaign, role, problems, self._observe
            )

        excluded, _ = scatter("exclude")
        recipients, audience = scatter("recipients")
        tasks = []
        for partition in range(request.partitions):
            plans = tuple((before, parts[partition]) for before, parts in request.plans)
            tasks.append(
                PartitionTask(self._folder, name, recipients, excluded, partition, None, plans, request.out)
            )
        if limit is not None:
            tasks = self._share_limit(tasks, limit)
        return Division(plan_partition, [(task,) for task in tasks], audience)

    def _share_limit(self, tasks: Sequence[PartitionTask], limit: int) -> list[PartitionTask]:
        """Return the tasks with their shares of a limit, which goes by the order of the audience."""
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
