"""The first half of planning: cut an audience into slices, and scatter their rows to partitions.

All rows of a phone meet in one partition, whatever file they come from, so partitions are planned separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally
from runner.audience.findings import Findings
from runner.audience.slices import (
    BLOCK_BYTES,
    BrokenSliceError,
    find_cuts,
    iterate_slice,
    join_slices,
    list_large,
    note_findings,
    plan_slices,
)
from runner.campaign.model import FileRecipients
from runner.cluster.columns import RowSheet
from runner.cluster.plan_job import open_job
from runner.plan.digest import SHARDS
from runner.source.diagnostic import Problems
from runner.source.storage import measure_file
from runner.source.yaml import pause_collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from runner.audience.audience import Role
    from runner.audience.slices import Slice, SlicedRow
    from runner.campaign.model import Campaign
    from runner.cluster.folder import SharedFolder
    from runner.execution.executor import Executor

    Observe = Callable[[str, int, int], None]

_GROUP = 1 << 13
_INLINE = "inline"


@dataclass(slots=True)
class Scattered:
    """The findings in a slice.

    Attributes:
        tally: the counts, without duplicates.
        findings: those in its rows.
    """

    problems: Problems
    tally: AudienceTally
    findings: Findings


@pause_collector()
def scatter_slice(folder: SharedFolder, job_name: str, part: Slice, file: str) -> Scattered | None:
    """Write the rows of a slice to a file of the shared folder, with one batch for each partition.

    Return None if the slice cannot be read by itself.
    """
    job, going = open_job(folder, job_name)
    names = () if part.role == "exclude" or part.kind == _INLINE else tuple(sorted(going.names))
    problems, tally, findings = Problems(), AudienceTally(), Findings()
    sheet = RowSheet(len(names))
    rows: list[SlicedRow] = []
    try:
        for row in iterate_slice(job.campaign, part, frozenset(names), problems, tally, findings):
            rows.append(row)
            if len(rows) == _GROUP:
                _add(sheet, rows, names)
                rows.clear()
    except BrokenSliceError:
        return None
    if rows:
        _add(sheet, rows, names)
    folder.write(file, sheet.finish(job.partitions))
    return Scattered(problems, tally, findings)


def _add(sheet: RowSheet, rows: list[SlicedRow], names: tuple[str, ...]) -> None:
    sources, lines, phones, given, zones, regions, consents = zip(*rows, strict=True)
    consented, days = zip(*consents, strict=True)
    texts = [[one.get(name) for one in given] for name in names]
    sheet.add([list(map(int, phones)), lines, sources, zones, regions, consented, days, *texts])


ROWS_PER_PARTITION = 40_000
"""The most rows of a partition, unless there are too many: the least costs (docs/scale.md)."""
_FEWEST_PARTITIONS = 8
"""Of a small audience, so that workers which join later have something to send."""
_ROW_BYTES = 50
"""A low estimate: partitions that are too small cost less than those that are too large."""
_WANTED_SLICES = 64
_LEAST_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class CutAudience:
    """An audience in slices: those of its sources in order, and those of its exclusion lists."""

    recipients: tuple[Slice, ...]
    excluded: tuple[Slice, ...]


def cut_audience(
    cluster: Executor, campaign: Campaign, observe: Observe, block_bytes: int | None = None
) -> CutAudience:
    """Return an audience in slices; large files are looked through on the cluster.

    `observe` receives the stage, the work done, and the total. `block_bytes` is the approximate size of a
    slice; None to choose.
    """
    chosen = block_bytes or _choose_block_bytes(campaign)

    def cut(role: Role) -> tuple[Slice, ...]:
        large = list_large(campaign, role, chosen)
        cuts = {}
        for done, (place, found) in enumerate(cluster.run(find_cuts, [(each, chosen) for each in large]), 1):
            cuts[large[place]] = found
            observe("files cut", done, len(large))
        return tuple(plan_slices(campaign, role, cuts))

    return CutAudience(cut("recipients"), cut("exclude"))


def _choose_block_bytes(campaign: Campaign) -> int:
    """Return the size of slices: small ones take less memory, but each partition reads from every slice."""
    files = (source for source in campaign.recipients if isinstance(source, FileRecipients))
    size = sum(measure_file(source.location) for source in files)
    return min(max(size // _WANTED_SLICES, _LEAST_BLOCK_BYTES), BLOCK_BYTES)


def choose_partitions(audiences: Iterable[CutAudience]) -> int:
    """Return the number of partitions, by rows alone: workers may join and leave before they are sent."""
    rows = max((sum(map(_guess_rows, one.recipients)) for one in audiences), default=0)
    wanted = min(max(-(-rows // ROWS_PER_PARTITION), _FEWEST_PARTITIONS), SHARDS)
    return 1 << (wanted - 1).bit_length()


def _guess_rows(part: Slice) -> int:
    if part.kind == "csv":
        return (part.stop - part.start) // _ROW_BYTES
    if part.kind in ("parquet", "inline"):
        return part.stop - part.start
    return measure_file(part.location) // _ROW_BYTES


def scatter_audience(
    cluster: Executor,
    folder: SharedFolder,
    job: str,
    campaign: Campaign,
    role: Role,
    slices: Sequence[Slice],
    problems: Problems,
    observe: Observe,
) -> tuple[tuple[str, ...], AudienceTally]:
    """Scatter the rows of all slices of one list; a file that cannot be sliced is read again, as one.

    Return the names of the scattered slices, in the order of the audience, and their counts. `problems` are
    reported in that order. `observe` receives the stage, the work done, and the total.
    """
    names: dict[Slice, str] = {}
    found: dict[Slice, Scattered] = {}
    numbers = count()
    while waiting := [each for each in slices if each not in found]:
        for each in waiting:
            names[each] = f"{job}-{role}-{next(numbers)}.arrow"
        arguments = [(folder, job, each, names[each]) for each in waiting]
        for place, scattered in cluster.run(scatter_slice, arguments):
            if scattered is None:
                slices = join_slices(slices, waiting[place])
            else:
                found[waiting[place]] = scattered
            observe("slices read", sum(one in found for one in slices), len(slices))
    _merge_problems(campaign, role, slices, found, problems)
    files = tuple(names[each] for each in slices)
    tally = AudienceTally()
    for each in slices:
        tally.merge(found[each].tally)
    return files, tally


def _merge_problems(
    campaign: Campaign,
    role: Role,
    slices: Sequence[Slice],
    found: Mapping[Slice, Scattered],
    problems: Problems,
) -> None:
    findings: dict[int, Findings] = {}
    for each in slices:
        problems.merge(found[each].problems)
        if each.kind != "inline":
            findings.setdefault(each.source, Findings()).merge(found[each].findings)
    for source, mended in findings.items():
        note_findings(campaign, role, source, mended, problems)
