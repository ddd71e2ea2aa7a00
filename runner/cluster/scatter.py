"""The first half of planning: the rows of one slice of an audience, put where those of their partitions are.

So a phone's rows come together, wherever they stand in whatever file, and the people of a partition can be
planned by themselves: each once, by their first mention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.campaign.audience import AudienceTally
from runner.campaign.phone_column import Repairs
from runner.campaign.slice_reader import BrokenSliceError, iterate_slice
from runner.cluster.columns import RowSheet
from runner.cluster.plan_job import open_job
from runner.source.collector import pause_collector
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from runner.campaign.slice_reader import AudienceRow
    from runner.campaign.slices import Slice
    from runner.cluster.folder import SharedFolder

_GROUP = 1 << 13
_INLINE = "inline"


@dataclass(slots=True)
class Scattered:
    """What was found in a slice.

    Attributes:
        problems: what is wrong with its rows.
        rows: how many there are, also those that cannot be read.
        repairs: what phones were mended of.
        invalid: of the rows, those that are left out because they cannot be read.
    """

    problems: Problems
    rows: int
    repairs: Repairs
    invalid: int


@pause_collector()
def scatter_slice(folder: SharedFolder, job_name: str, part: Slice, file: str) -> Scattered | None:
    """Put the rows of a slice into a file with one batch for each partition.

    Args:
        folder: which all workers reach.
        job_name: of the job's file there.
        part: the slice.
        file: the name of the file to write there.

    Returns:
        What was found; None if the slice cannot be read by itself.
    """
    job = open_job(folder, job_name)
    names = () if part.role == "exclude" or part.kind == _INLINE else job.names
    problems, tally, repairs = Problems(), AudienceTally(), Repairs()
    sheet = RowSheet(len(names))
    rows: list[AudienceRow] = []
    try:
        for row in iterate_slice(job.job.campaign, part, frozenset(names), problems, tally, repairs):
            rows.append(row)
            if len(rows) == _GROUP:
                _add(sheet, rows, names)
                rows.clear()
    except BrokenSliceError:
        return None
    if rows:
        _add(sheet, rows, names)
    folder.write(file, sheet.finish(job.job.partitions))
    return Scattered(problems, tally.rows, repairs, tally.invalid)


def _add(sheet: RowSheet, rows: list[AudienceRow], names: tuple[str, ...]) -> None:
    sources, lines, phones, given, zones, regions, consents = zip(*rows, strict=True)
    consented, days = zip(*consents, strict=True)
    texts = [[one.get(name) for one in given] for name in names]
    sheet.add([list(map(int, phones)), lines, sources, zones, regions, consented, days, *texts])
