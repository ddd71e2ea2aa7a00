"""Planning of a campaign on a cluster: scatter its audience, plan partitions, add up.

Decisions and counts are made by the same code as in a plan of one process; launches are shared within a
partition only. All rows of a phone are in one partition, so its last consent is known there.

Workers write the launches to files in the run's folder, one for each partition, and the process that sends
reads them one after the other.
"""

from __future__ import annotations

import pickle
import secrets
import zlib
from array import array
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally, find_consent_changes, find_other_dates, unite_rows
from runner.cluster.audience_scatter import read_rows, scatter_audience
from runner.cluster.folder import open_job, store_job
from runner.errors import StorageError
from runner.plan.limits.cost import find_countries
from runner.plan.model import PlannedLaunch
from runner.plan.plan_context import TextedPeople
from runner.plan.plan_counts import LaunchSizes
from runner.plan.planner import AudiencePass, Division, PlannedPartition, plan_partitions
from runner.source.diagnostic import Problems
from runner.source.yaml import pause_collector
from runner.text.payload import Payload, RowReporter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from runner.audience.audience import PlacedRow, Role
    from runner.campaign.message_model import Message
    from runner.cluster.folder import PlanJob, SharedFolder
    from runner.execution import Executor
    from runner.plan.decisions import Assigned
    from runner.plan.model import CampaignPlan
    from runner.source.money import Prices
    from runner.text.outgoing import Definition
    from runner.timing.schedule import FrequencyCap

    _Kind = tuple[str | None, datetime | None, str, tuple[FrequencyCap, ...]]
    _StoredLaunch = tuple[Message, tuple[Definition, str], tuple[str, ...], _Kind]
    _Alike = tuple[int, _Kind, str, tuple[str, ...]]

_LEVEL = 1
"""Of compression: the fastest."""


@pause_collector()
def plan_partition(
    folder: SharedFolder, name: str, recipients: Sequence[str], excluded: Sequence[str], partition: int
) -> PlannedPartition:
    """Plan one partition of a stored job, from scattered files in the order of the audience."""
    job, whole = open_job(folder, name)

    def read(files: Sequence[str]) -> list[PlacedRow]:
        return [row for file in files for row in read_rows(folder, file, partition, job.partitions)]

    rows, tally = read(recipients), AudienceTally()
    planned = [_read_texted(before, files[partition]) for before, files in job.before]
    going = AudiencePass(job.campaign, whole.compiled, job.options, replace(job.context, planned=planned))
    problems = Problems()
    reporter = RowReporter(job.campaign, problems, Problems())
    barred = frozenset(phone for _, (_, phone, *_) in read(excluded))
    decider = going.make_assigner(barred, job.known, job.key)
    changes = find_consent_changes(job.campaign, going.last_consent, rows)
    repeated = unite_rows(job.campaign, rows, Problems(), AudienceTally(), keeps_repeats=True)
    others = find_other_dates(job.campaign, repeated)
    people = unite_rows(job.campaign, rows, problems, tally, changes, others)
    assigned = going.iterate(people, decider, reporter, None)
    groups: dict[_Alike, tuple[Payload, list[str]]] = {}
    assigned = _gather(assigned, groups, going.prices) if job.keeps_launches else assigned
    counts = going.count(assigned, [LaunchSizes() for _ in going.compiled], decider)
    found = PlannedPartition(counts, problems, reporter.said, tally.duplicates)
    if job.keeps_launches:
        content = pickle.dumps(_list_launches(groups, going), pickle.HIGHEST_PROTOCOL)
        file = f"{name}-{partition:05}.launches"
        folder.write(file, zlib.compress(content, _LEVEL))
        found.part = f"{folder.path}/{file}"
    return found


def _gather(
    assigned: Iterable[Assigned], groups: dict[_Alike, tuple[Payload, list[str]]], prices: Prices | None
) -> Iterator[Assigned]:
    """Yield what a pass yields, and keep in `groups` who gets the same now."""
    for pair in assigned:
        recipient, assignments = pair
        countries = find_countries(recipient.phone) if prices else ()
        for assignment in assignments:
            payload = assignment.payload
            if payload is not None:
                kind = assignment.arm, assignment.until, assignment.occasion, assignment.caps
                alike = assignment.message, kind, payload.digest, countries
                groups.setdefault(alike, (payload, []))[1].append(recipient.phone)
        yield pair


def _list_launches(
    groups: Mapping[_Alike, tuple[Payload, list[str]]], going: AudiencePass
) -> list[_StoredLaunch]:
    """Return the launches, message by message, in the order of their first recipients."""
    return [
        (
            going.compiled[index].renderers[kind[0]].message,
            # Plain tuples are written and read much faster than values of our own.
            (payload.definition, payload.digest),
            tuple(phones[start : start + going.per_send]),
            kind,
        )
        for (index, kind, *_), (payload, phones) in sorted(groups.items(), key=lambda group: group[0][0])
        for start in range(0, len(phones), going.per_send)
    ]


def read_launches(parts: Iterable[str]) -> Iterator[PlannedLaunch]:
    """Yield the planned launches of a campaign's partitions; memory grows with the largest file only."""
    for part in parts:
        try:
            content = Path(part).read_bytes()
        except OSError as error:
            raise StorageError(
                f"{part} cannot be read: {error.strerror}",
                hint="everything that was sent is recorded; run the same command again",
            ) from None
        # Write access to the folder equals access to the scheduler, which can call any function.
        launches: list[_StoredLaunch] = pickle.loads(zlib.decompress(content))  # noqa: S301
        for message, payload, phones, kind in launches:
            yield PlannedLaunch(message, Payload(*payload, 0, None), phones, *kind)


def _read_texted(campaign: str, part: str) -> TextedPeople:
    """Return the people texted by a partition's launches."""
    texted, asked = array("Q"), array("Q")
    for launch in read_launches([part]):
        numbers = [int(phone[1:]) for phone in launch.phones]
        texted.extend(numbers)
        if launch.message.questions:
            asked.extend(numbers)
    return TextedPeople(campaign, texted, asked)


def plan_on_cluster(
    cluster: Executor, folder: SharedFolder, job: PlanJob, problems: Problems
) -> CampaignPlan | None:
    """Plan a campaign; return None if there are errors, which `problems` receives as from one process."""
    compile_texts = partial(AudiencePass.compile, job.campaign, job.options, job.context)
    return plan_partitions(
        cluster, job.target, compile_texts, partial(_divide, cluster, folder, job), problems
    )


def _divide(
    cluster: Executor, folder: SharedFolder, job: PlanJob, going: AudiencePass, problems: Problems
) -> Division:
    """Store the job, and scatter the audience."""
    # A campaign may be planned twice by one command, and tasks of the first time may still be running.
    name = f"{job.campaign.name}-{secrets.token_hex(4)}"
    store_job(folder, name, replace(job, included=going.included))

    def scatter(role: Role) -> tuple[tuple[str, ...], AudienceTally]:
        return scatter_audience(cluster, folder, name, job.campaign, role, problems)

    excluded, _ = scatter("exclude")
    recipients, audience = scatter("recipients")
    tasks = [(folder, name, recipients, excluded, partition) for partition in range(job.partitions)]
    return Division(plan_partition, tasks, audience)
