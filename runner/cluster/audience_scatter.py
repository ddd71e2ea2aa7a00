"""The first half of planning: read an audience, and scatter its rows to partitions.

Each file is read by one worker. All rows of a phone meet in one partition, whatever file they come from, so
partitions are planned separately. Scattered rows are compressed pickles: who can write to the shared folder
can call any function on the cluster anyway (Dask's trust model).
"""

from __future__ import annotations

import pickle
import zlib
from array import array
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally, iterate_source, list_sources
from runner.campaign.model import FileRecipients
from runner.cluster.folder import open_job
from runner.plan.digest import SHARDS, partition_of
from runner.source.diagnostic import Problems
from runner.source.storage import measure_file
from runner.source.yaml import pause_collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.audience.audience import PlacedRow, Role
    from runner.campaign.model import Campaign, RecipientSource
    from runner.cluster.folder import SharedFolder
    from runner.execution import Executor

_FILE_ROWS = 1 << 16
"""The most rows of a scattered file, which a worker keeps in memory until it is written."""
_LEVEL = 1
"""Of compression: the fastest."""
ROWS_PER_PARTITION = 40_000
"""The most rows of a partition, unless there are too many: the least costs (docs/scale.md)."""
_FEWEST_PARTITIONS = 8
"""Of a small audience, so that workers which join later have something to do."""
_ROW_BYTES = 50
"""A low estimate: partitions that are too small cost less than those that are too large."""


def store_rows(folder: SharedFolder, name: str, parts: Sequence[Sequence[PlacedRow]]) -> None:
    """Write rows by partition to a file: the sizes of the parts, then each part."""
    packed = [zlib.compress(pickle.dumps(part, pickle.HIGHEST_PROTOCOL), _LEVEL) for part in parts]
    folder.write(name, b"".join((array("Q", map(len, packed)).tobytes(), *packed)))


def read_rows(folder: SharedFolder, name: str, partition: int, partitions: int) -> list[PlacedRow]:
    """Return the rows of one partition from a file; only that part is read."""
    sizes = array("Q")
    head = sizes.itemsize * partitions
    with folder.open(name) as file:
        sizes.frombytes(file.read(head))
        file.seek(head + sum(sizes[:partition]))
        packed = file.read(sizes[partition])
    rows: list[PlacedRow] = pickle.loads(zlib.decompress(packed))  # noqa: S301  see above
    return rows


@dataclass(slots=True)
class Scattered:
    """The result of reading some sources: counts without duplicates, and the names of the scattered files."""

    problems: Problems
    tally: AudienceTally
    files: list[str]


@pause_collector()
def scatter_sources(folder: SharedFolder, job_name: str, role: Role, sources: range, name: str) -> Scattered:
    """Write the rows of some sources to files of the shared folder, each with all partitions.

    The sources, by their indexes in the campaign's list, are one file, or inline recipients; `name` begins
    the files' names.
    """
    job, going = open_job(folder, job_name)
    names = going.names if role == "recipients" else frozenset[str]()
    found = Scattered(Problems(), AudienceTally(), [])
    parts: list[list[PlacedRow]] = [[] for _ in range(job.partitions)]
    held = 0

    def flush() -> None:
        nonlocal held
        if held:
            found.files.append(f"{name}-{len(found.files)}.rows")
            store_rows(folder, found.files[-1], parts)
            held = 0
            for part in parts:
                part.clear()

    for index in sources:
        for row in iterate_source(job.campaign, role, index, names, found.problems, found.tally):
            parts[partition_of(int(row[1]), job.partitions)].append((index, row))
            held += 1
            if held == _FILE_ROWS:
                flush()
    flush()
    return found


def choose_partitions(campaigns: Iterable[Campaign]) -> int:
    """Return the number of partitions, by rows alone: workers may join and leave meanwhile."""
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
) -> tuple[tuple[str, ...], AudienceTally]:
    """Scatter the rows of one list.

    Return the names of the scattered files, in the order of the audience, and the list's counts. `problems`
    are reported in that order.
    """
    sources = list_sources(campaign, role)
    parts: list[range] = []
    for is_file, group in groupby(range(len(sources)), lambda one: isinstance(sources[one], FileRecipients)):
        indexes = list(group)
        parts += [range(one, one + 1) for one in indexes] if is_file else [range(indexes[0], indexes[-1] + 1)]
    arguments = [(folder, job, role, part, f"{job}-{role}-{part.start}") for part in parts]
    found: dict[int, Scattered] = dict(cluster.run(scatter_sources, arguments))
    tally, files = AudienceTally(), list[str]()
    for place in range(len(parts)):
        problems.merge(found[place].problems)
        tally.merge(found[place].tally)
        files += found[place].files
    return tuple(files), tally
