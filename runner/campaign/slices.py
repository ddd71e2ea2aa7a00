"""An audience in slices, each of which can be read by itself: by another process, or on another machine.

A CSV file is cut at line breaks outside quotes, as far as a count of quotes tells: a survey of its
blocks gives the counts. Who reads a slice to its end proves the cut behind it: a strict reader that is then
inside quotes shows that the count was led astray, by a stray quote for instance, and the file is read in one
slice instead. So slices are never wrong. A file that is not plain UTF-8 is one slice from the start.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from runner.campaign.block_survey import Block, BlockSurvey, Role
from runner.campaign.dialect import COMMA, Dialect
from runner.campaign.encoding import is_utf8, is_utf8_name
from runner.campaign.recipients import FileRecipients
from runner.campaign.table import TableProblemError, read_table
from runner.source.storage import measure_file, open_binary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.campaign.recipients import RecipientSource

BLOCK_BYTES = 64 << 20
"""How much of a file one survey reads, and about how much a slice has."""
SLICE_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of an audience. It can be pickled, and names nobody.

    Attributes:
        role: the list that its source stands in.
        source: the source's place in that list, from 0; of recipients in the campaign file, the first one's.
        kind: `inline` recipients, a `whole` file, bytes of a `csv` file, or row groups of a `parquet` file.
        location: the file's absolute path, or its URL; empty for inline recipients.
        start: the first byte or row group; of inline recipients, the place of the first one's source.
        stop: the one after the last.
        line: the line, or row, that it begins with, from 1.
        header: the names of the columns of a CSV file that has several slices.
        dialect: of such a file.
    """

    role: Role
    source: int
    kind: Literal["inline", "whole", "csv", "parquet"]
    location: str = ""
    start: int = 0
    stop: int = 0
    line: int = 1
    header: tuple[str, ...] = ()
    dialect: Dialect = COMMA


def list_blocks(campaign: Campaign, role: Role, block_bytes: int = BLOCK_BYTES) -> list[Block]:
    """Return the blocks of CSV files that have to be surveyed: of files that are longer than one block.

    Args:
        campaign: whose audience.
        role: which of its lists.
        block_bytes: how long a block is.
    """
    blocks = []
    for index, source in enumerate(list_sources(campaign, role)):
        if isinstance(source, FileRecipients) and source.format == "csv" and is_utf8_name(source.encoding):
            location = source.location
            size = _measure(location)
            starts = range(0, size, block_bytes) if size > block_bytes else ()
            blocks += [
                Block(role, index, location, start, min(start + block_bytes, size)) for start in starts
            ]
    return blocks


def plan_slices(
    campaign: Campaign, role: Role, surveys: Mapping[Block, BlockSurvey], slice_rows: int = SLICE_ROWS
) -> list[Slice]:
    """Return the slices of a list of sources, in the order of the audience.

    Args:
        campaign: whose audience.
        role: which of its lists.
        surveys: of every block that `list_blocks` names.
        slice_rows: how many rows a slice of a Parquet file has at least, if its row groups are smaller.
    """
    blocks: dict[int, list[tuple[Block, BlockSurvey]]] = {}
    for block, survey in surveys.items():
        if block.role == role:
            blocks.setdefault(block.source, []).append((block, survey))
    slices: list[Slice] = []
    for index, source in enumerate(list_sources(campaign, role)):
        if isinstance(source, FileRecipients):
            surveyed = sorted(blocks.get(index, ()), key=lambda pair: pair[0].start)
            if source.format == "parquet":
                slices += _divide_groups(role, index, source, slice_rows)
            else:
                slices += _cut_file(role, index, source, surveyed)
        elif slices and slices[-1].kind == "inline":
            slices[-1] = replace(slices[-1], stop=index + 1)
        else:
            slices.append(Slice(role, index, "inline", start=index, stop=index + 1))
    return slices


def join_slices(slices: Sequence[Slice], broken: Slice) -> list[Slice]:
    """Return slices with those of a broken one's source replaced by one that is the whole file."""
    joined: list[Slice] = []
    for each in slices:
        if (each.role, each.source) != (broken.role, broken.source):
            joined.append(each)
        elif each.start == 0:
            joined.append(Slice(each.role, each.source, "whole", each.location))
    return joined


def list_sources(campaign: Campaign, role: Role) -> tuple[RecipientSource, ...]:
    """Return one of a campaign's lists of sources."""
    return campaign.recipients if role == "recipients" else campaign.exclude


def _measure(location: str) -> int:
    try:
        return measure_file(location)
    except OSError:
        # Who reads the file says what is wrong with it.
        return 0


def _cut_file(
    role: Role, index: int, source: FileRecipients, surveyed: Sequence[tuple[Block, BlockSurvey]]
) -> list[Slice]:
    whole = [Slice(role, index, "whole", source.location)]
    if not surveyed or not _is_plain_text(survey for _, survey in surveyed):
        return whole
    try:
        with open_binary(source.location) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as stream:
            table = read_table(source.path, stream, str(source.path))
    except (OSError, TableProblemError):
        return whole
    places = [(0, 1), *_list_cuts(surveyed), (surveyed[-1][0].stop, 0)]
    header, dialect = tuple(table.header), Dialect(table.delimiter, skips_blanks=table.skips_blanks)
    return [
        Slice(role, index, "csv", source.location, start, stop, line, header, dialect)
        for (start, line), (stop, _) in pairwise(places)
        if start < stop
    ]


def _divide_groups(role: Role, index: int, source: FileRecipients, slice_rows: int) -> Iterator[Slice]:
    """Yield the row groups of a Parquet file, neighbours together until they have enough rows."""
    # Imported here: an extra, and most audiences are CSV.
    from runner.campaign.parquet_table import count_rows  # noqa: PLC0415

    location = source.location
    try:
        counts = count_rows(location)
    except (OSError, ValueError):
        counts = []
    if not counts:
        # Who reads it says what is wrong with it.
        yield Slice(role, index, "whole", location)
    first, row, rows = 0, 1, 0
    for number, count in enumerate(counts, start=1):
        rows += count
        if rows >= slice_rows or number == len(counts):
            yield Slice(role, index, "parquet", location, first, number, row)
            first, row, rows = number, row + rows, 0


def _list_cuts(surveyed: Sequence[tuple[Block, BlockSurvey]]) -> Iterator[tuple[int, int]]:
    """Yield the places at which a file is cut: the offset, and the line that begins there, from 1."""
    quotes = breaks = 0
    is_half = False
    for block, survey in surveyed:
        # The halves of a CRLF that two blocks share are one line end.
        breaks -= is_half and survey.begins_with_lf
        cut = survey.cut_inside if quotes % 2 else survey.cut_outside
        if block.start and cut is not None:
            yield block.start + cut.offset, breaks + cut.breaks + 1
        quotes += survey.quotes
        breaks += survey.breaks
        is_half = survey.ends_with_cr


def _is_plain_text(surveys: Iterable[BlockSurvey]) -> bool:
    """Return whether a file is UTF-8 without NUL, as far as its blocks and the seams between them tell."""
    seam = b""
    for survey in surveys:
        seam += survey.head
        if not survey.is_text or (not survey.is_seam_alone and not is_utf8(seam)):
            return False
        seam = seam if survey.is_seam_alone else survey.tail
    return not seam
