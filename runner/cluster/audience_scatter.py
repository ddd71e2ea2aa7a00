"""Has an audience cut into slices, and the rows of all slices put where those of their partitions are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from runner.campaign.block_survey import survey_block
from runner.campaign.phone_column import Repairs
from runner.campaign.recipients import FileRecipients
from runner.campaign.slice_reader import note_repairs
from runner.campaign.slices import BLOCK_BYTES, join_slices, list_blocks, plan_slices
from runner.cluster.scatter import Scattered, scatter_slice
from runner.plan.shard import SHARDS
from runner.source.storage import measure_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from runner.campaign.block_survey import Role
    from runner.campaign.model import Campaign
    from runner.campaign.slices import Slice
    from runner.cluster.folder import SharedFolder
    from runner.cluster.task import Workers
    from runner.source.diagnostic import Problems

    Observe = Callable[[str, int, int], None]

ROWS_PER_PARTITION = 100_000
_ROW_BYTES = 50
"""A guess, rather too few: partitions that are too small cost less than those that are too large."""
_PARTITIONS_PER_SLOT = 2
_WANTED_SLICES = 64
_LEAST_BLOCK_BYTES = 16 << 20
_GROUP_ROWS = 100_000
"""A guess, of a row group of a Parquet file."""


@dataclass(frozen=True, slots=True)
class CutAudience:
    """An audience in slices.

    Attributes:
        recipients: the slices of its sources, in order.
        excluded: those of its exclusion lists.
    """

    recipients: tuple[Slice, ...]
    excluded: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class ScatteredRows:
    """Slices whose rows are where those of their partitions are.

    Attributes:
        files: their names, in the order of the audience.
        rows: how many there were, also those that could not be read.
        invalid: of them, those that are left out because they cannot be read.
    """

    files: tuple[str, ...]
    rows: int
    invalid: int


def cut_audience(
    cluster: Workers, campaign: Campaign, observe: Observe, block_bytes: int | None = None
) -> CutAudience:
    """Return an audience in slices.

    Args:
        cluster: surveys large files.
        campaign: whose audience.
        observe: is told of the stage, how much of it is done, and of how much.
        block_bytes: how much of a file one survey reads, and about how much a slice has; None to choose.
    """
    chosen = block_bytes or _choose_block_bytes(campaign)

    def cut(role: Role) -> tuple[Slice, ...]:
        blocks = list_blocks(campaign, role, chosen)
        surveys = {}
        for done, (place, survey) in enumerate(cluster.run(survey_block, [(each,) for each in blocks]), 1):
            surveys[blocks[place]] = survey
            observe("files surveyed", done, len(blocks))
        return tuple(plan_slices(campaign, role, surveys))

    return CutAudience(cut("recipients"), cut("exclude"))


def _choose_block_bytes(campaign: Campaign) -> int:
    """Return how much a slice has: less takes less memory, but each partition reads from every slice."""
    files = (source for source in campaign.recipients if isinstance(source, FileRecipients))
    size = sum(_measure(source.location) for source in files)
    return min(max(size // _WANTED_SLICES, _LEAST_BLOCK_BYTES), BLOCK_BYTES)


def _measure(location: str) -> int:
    try:
        return measure_file(location)
    except OSError:  # who reads it says so
        return 0


def choose_partitions(audiences: Iterable[CutAudience], slots: int) -> int:
    """Return how many partitions to plan in: of about 100,000 rows, and some for each of those who plan.

    Args:
        audiences: of all campaigns of a command.
        slots: how many tasks run at once.
    """
    rows = max((sum(map(_guess_rows, one.recipients)) for one in audiences), default=0)
    wanted = min(max(rows // ROWS_PER_PARTITION, _PARTITIONS_PER_SLOT * slots), SHARDS)
    return 1 << (wanted - 1).bit_length()


def _guess_rows(part: Slice) -> int:
    if part.kind == "csv":
        return (part.stop - part.start) // _ROW_BYTES
    if part.kind == "parquet":
        return (part.stop - part.start) * _GROUP_ROWS
    if part.kind == "inline":
        return part.stop - part.start
    return _measure(part.location) // _ROW_BYTES


def scatter_audience(
    cluster: Workers,
    folder: SharedFolder,
    job: str,
    campaign: Campaign,
    role: Role,
    slices: Sequence[Slice],
    problems: Problems,
    observe: Observe,
) -> ScatteredRows:
    """Have the rows of slices put where those of their partitions are.

    Args:
        cluster: reads the slices.
        folder: which all workers reach.
        job: the name of the job's file there.
        campaign: whose audience.
        role: which of its lists.
        slices: all slices of that list; those of a file that cannot be read in slices are read again, as one.
        problems: receives what is wrong with them, in the order of the audience.
        observe: is told of the stage, how much of it is done, and of how much.
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
    rows, invalid = (sum(getattr(found[each], name) for each in slices) for name in ("rows", "invalid"))
    return ScatteredRows(files, rows, invalid)


def _merge_problems(
    campaign: Campaign,
    role: Role,
    slices: Sequence[Slice],
    found: Mapping[Slice, Scattered],
    problems: Problems,
) -> None:
    repairs: dict[int, Repairs] = {}
    for each in slices:
        problems.merge(found[each].problems)
        if each.kind != "inline":
            repairs.setdefault(each.source, Repairs()).merge(found[each].repairs)
    for source, mended in repairs.items():
        note_repairs(campaign, role, source, mended, problems)
