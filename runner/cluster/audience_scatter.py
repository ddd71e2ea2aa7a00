"""The first half of planning: read an audience, and scatter its rows to partitions.

Each file is read by one worker. All rows of a phone meet in one partition, whatever file they come from, so
partitions are planned separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally, iterate_source, list_sources
from runner.campaign.model import FileRecipients
from runner.cluster.columns import RowSheet
from runner.cluster.plan_job import open_job
from runner.plan.digest import SHARDS
from runner.source.diagnostic import Problems
from runner.source.storage import measure_file
from runner.source.yaml import pause_collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.audience.audience import Role, Row
    from runner.campaign.model import Campaign, RecipientSource
    from runner.cluster.folder import SharedFolder
    from runner.execution import Executor

    Observe = Callable[[str, int, int], None]

_GROUP = 1 << 13
_FILE_ROWS = 1 << 18
"""The most rows of a scattered file, which a worker keeps in memory until it is written."""
ROWS_PER_PARTITION = 40_000
"""The most rows of a partition, unless there are too many: the least costs (docs/scale.md)."""
_FEWEST_PARTITIONS = 8
"""Of a small audience, so that workers which join later have something to send."""
_ROW_BYTES = 50
"""A low estimate: partitions that are too small cost less than those that are too large."""


@dataclass(slots=True)
class Scattered:
    """The result of reading some sources: counts without duplicates, and the names of the scattered files."""

    problems: Problems
    tally: AudienceTally
    files: list[str]


@pause_collector()
def scatter_sources(folder: SharedFolder, job_name: str, role: Role, sources: range, name: str) -> Scattered:
    """Write the rows of some sources to files of the shared folder, each with one batch for each partition.

    The sources, by their indexes in the campaign's list, are one file, or inline recipients; `name` begins
    the files' names.
    """
    job, going = open_job(folder, job_name)
    listed = list_sources(job.campaign, role)
    is_file = isinstance(listed[sources.start], FileRecipients)
    names = tuple(sorted(going.names)) if role == "recipients" and is_file else ()
    found = Scattered(Problems(), AudienceTally(), [])
    sheet, held = RowSheet(len(names)), 0
    rows: list[tuple[int, Row]] = []

    def flush(*, ends: bool) -> None:
        nonlocal sheet, held
        if rows:
            _add(sheet, rows, names)
            held += len(rows)
            rows.clear()
        if held >= _FILE_ROWS or (ends and (held or not found.files)):
            found.files.append(f"{name}-{len(found.files)}.arrow")
            folder.write(found.files[-1], sheet.finish(job.partitions))
            sheet, held = RowSheet(len(names)), 0

    for index in sources:
        for row in iterate_source(job.campaign, role, index, frozenset(names), found.problems, found.tally):
            rows.append((index, row))
            if len(rows) == _GROUP:
                flush(ends=False)
    flush(ends=True)
    return found


def _add(sheet: RowSheet, rows: list[tuple[int, Row]], names: tuple[str, ...]) -> None:
    sources, own = zip(*rows, strict=True)
    lines, phones, given, zones, regions, consents = zip(*own, strict=True)
    consented, days = zip(*consents, strict=True)
    texts = [[one.get(name) for one in given] for name in names]
    sheet.add([list(map(int, phones)), lines, sources, zones, regions, consented, days, *texts])


def choose_partitions(campaigns: Iterable[Campaign]) -> int:
    """Return the number of partitions, by rows alone: workers may join and leave before they are sent."""
    rows = max((sum(map(_guess_rows, one.recipients)) for one in campaigns), default=0)
    wanted = min(max(-(-rows // ROWS_PER_PARTITION), _FEWEST_PARTITIONS), SHARDS)
    return 1 << (wanted - 1).bit_length()


def _guess_rows(source: RecipientSource) -> int:
    if isinstance(source, FileRecipients):
        return measure_file(source.location) // _ROW_BYTES
    return 1


def scatter_audience(
    cluster: Executor,
    folder: SharedFolder,
    job: str,
    campaign: Campaign,
    role: Role,
    problems: Problems,
    observe: Observe,
) -> tuple[tuple[str, ...], AudienceTally]:
    """Scatter the rows of one list.

    Return the names of the scattered files, in the order of the audience, and the list's counts. `problems`
    are reported in that order. `observe` receives the stage, the work done, and the total.
    """
    sources = list_sources(campaign, role)
    parts: list[range] = []
    for is_file, group in groupby(range(len(sources)), lambda one: isinstance(sources[one], FileRecipients)):
        indexes = list(group)
        parts += [range(one, one + 1) for one in indexes] if is_file else [range(indexes[0], indexes[-1] + 1)]
    arguments = [(folder, job, role, part, f"{job}-{role}-{part.start}") for part in parts]
    found: dict[int, Scattered] = {}
    for place, scattered in cluster.run(scatter_sources, arguments):
        found[place] = scattered
        observe("files read", len(found), len(parts))
    tally, files = AudienceTally(), list[str]()
    for place in range(len(parts)):
        problems.merge(found[place].problems)
        tally.merge(found[place].tally)
        files += found[place].files
    return tuple(files), tally
