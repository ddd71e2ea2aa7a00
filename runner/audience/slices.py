"""Slices of an audience that can be read separately, with the rows, lines and problems of a whole reading.

A CSV file is cut at line ends outside quotes, by the number of quotes before them. Reading a slice to its
end proves the cut behind it: if a strict reader is then inside quotes, a stray quote misled the count, and
the whole file is read in one slice instead. Files that are not UTF-8 are one slice.
"""

from __future__ import annotations

import io
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from runner.audience.audience import Role, SourcePart, iterate_source, list_sources, open_phone_column
from runner.audience.encoding import choose_encoding, is_utf8_name
from runner.audience.rows import open_source
from runner.audience.table import COMMA, Dialect, TableProblemError, continue_table, open_table, read_table
from runner.campaign.model import FileRecipients
from runner.source.storage import measure_file, open_binary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.audience.audience import AudienceTally
    from runner.audience.consent import RowConsent
    from runner.audience.findings import Findings
    from runner.audience.table import Table
    from runner.campaign.model import Campaign, Variables
    from runner.source.diagnostic import Problems


_BREAK = rb"(?:\r\n|\n|\r(?!\n))"
_FROM_OUTSIDE = re.compile(rb'(?:[^"\r\n]+|"[^"]*")*+' + _BREAK)
"""Text up to the first line's end outside quotes, starting outside quotes."""
_FROM_INSIDE = re.compile(rb'[^"]*+"(?:[^"\r\n]+|"[^"]*")*+' + _BREAK)
BLOCK_BYTES = 64 << 20
"""The approximate size of a slice."""
SLICE_ROWS = 1 << 18


class Cut(NamedTuple):
    """A place where a file can be cut: the offset behind a line's end, and the line that begins there."""

    offset: int
    line: int


def find_cuts(location: str, block_bytes: int = BLOCK_BYTES) -> list[Cut]:
    """Return the first place to cut a CSV file at in each block but the first; raises OSError."""
    cuts = []
    offset = quotes = breaks = 0
    with open_binary(location) as stream:
        while block := _read_block(stream, block_bytes):
            pattern = _FROM_INSIDE if quotes % 2 else _FROM_OUTSIDE
            if offset and (found := pattern.match(block)):
                cuts.append(Cut(offset + found.end(), breaks + _count_breaks(found[0]) + 1))
            quotes += block.count(b'"')
            breaks += _count_breaks(block)
            offset += len(block)
    return cuts


def _read_block(stream: BinaryIO, size: int) -> bytes:
    block = stream.read(size)
    while block.endswith(b"\r") and (more := stream.read(1)):  # CRLF is one line end
        block += more
    return block


def _count_breaks(content: bytes) -> int:
    return content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of an audience. It can be pickled, and has no personal data.

    Attributes:
        role: the list that its source is in.
        source: the source's index in that list; of inline recipients, the first one's.
        kind: `inline` recipients, a `whole` file, bytes of a `csv` file, or rows of a `parquet` file.
        location: the file's absolute path, or its URL; empty for inline recipients.
        start: the first byte or row, from 0; of inline recipients, the index of the first one's source.
        stop: the one after the last.
        line: its first line, or row, from 1.
        header: the columns' names of a CSV file with several slices.
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


def list_large(campaign: Campaign, role: Role, block_bytes: int = BLOCK_BYTES) -> list[str]:
    """Return the locations of the UTF-8 files in a list of sources that are longer than one block."""
    found = [
        source.location
        for source in list_sources(campaign, role)
        if isinstance(source, FileRecipients) and source.format == "csv" and is_utf8_name(source.encoding)
    ]
    return [location for location in dict.fromkeys(found) if measure_file(location) > block_bytes]


def plan_slices(
    campaign: Campaign, role: Role, cuts: Mapping[str, Sequence[Cut]], slice_rows: int = SLICE_ROWS
) -> list[Slice]:
    """Return the slices of a list of sources, in the order of the audience.

    `cuts` are those of each file from `list_large`; Parquet files are divided by `slice_rows`.
    """
    slices: list[Slice] = []
    for index, source in enumerate(list_sources(campaign, role)):
        if isinstance(source, FileRecipients):
            if source.format == "parquet":
                slices += _divide_rows(role, index, source, slice_rows)
            else:
                slices += _cut_file(role, index, source, cuts.get(source.location, ()))
        elif slices and slices[-1].kind == "inline":
            slices[-1] = replace(slices[-1], stop=index + 1)
        else:
            slices.append(Slice(role, index, "inline", start=index, stop=index + 1))
    return slices


def join_slices(slices: Sequence[Slice], broken: Slice) -> list[Slice]:
    """Return slices with all of a broken one's source replaced by one of the whole file."""
    joined: list[Slice] = []
    for each in slices:
        if (each.role, each.source) != (broken.role, broken.source):
            joined.append(each)
        elif each.start == 0:
            joined.append(Slice(each.role, each.source, "whole", each.location))
    return joined


def _cut_file(role: Role, index: int, source: FileRecipients, cuts: Sequence[Cut]) -> list[Slice]:
    whole = [Slice(role, index, "whole", source.location)]
    try:
        with open_binary(source.location) as stream:
            is_utf8 = choose_encoding(stream.read(4), source.encoding).startswith("utf-8")
        if not cuts or not is_utf8:
            return whole
        with open_table(source.path, source.location, source.encoding) as table:
            header, dialect = tuple(table.header), Dialect(table.delimiter, skips_blanks=table.skips_blanks)
    except (OSError, TableProblemError):
        return whole
    places = [Cut(0, 1), *cuts, Cut(measure_file(source.location), 0)]
    return [
        Slice(role, index, "csv", source.location, start, stop, line, header, dialect)
        for (start, line), (stop, _) in pairwise(places)
        if start < stop
    ]


def _divide_rows(role: Role, index: int, source: FileRecipients, slice_rows: int) -> Iterator[Slice]:
    """Yield slices of the rows of a Parquet file."""
    # Imported here: most audiences are CSV.
    from runner.audience.parquet_table import count_rows  # noqa: PLC0415

    location = source.location
    try:
        count = count_rows(location)
    except (OSError, ValueError):
        count = 0
    if not count:
        # Reading the file reports the problem.
        yield Slice(role, index, "whole", location)
    for start in range(0, count, slice_rows):
        yield Slice(role, index, "parquet", location, start, min(start + slice_rows, count), start + 1)


class BrokenSliceError(Exception):
    """An error of a slice that cannot be read separately: read its file whole, by `join_slices`."""


class SlicedRow(NamedTuple):
    """A row whose phone could be read.

    Attributes:
        source: the index of its source in the campaign's list.
        line: the line in the source's file, or the row of a Parquet file, from 1.
        phone: E.164.
        vars: the variables of this row alone, without blank ones and the campaign's own.
        timezone: an IANA name; None to go by the region, or the number.
        region: the legal region from `check_region`; None to go by the number.
        consent: on record, if the policy requires it.
    """

    source: int
    line: int
    phone: str
    vars: Variables
    timezone: str | None
    region: str | None
    consent: RowConsent


def iterate_slice(
    campaign: Campaign,
    part: Slice,
    names: frozenset[str],
    problems: Problems,
    tally: AudienceTally,
    findings: Findings,
) -> Iterator[SlicedRow]:
    """Yield the rows of a slice whose phones can be read, with duplicates, in order.

    All slices of a list together give the rows, lines and problems of `iterate_audience` (`read_excluded`),
    if `Problems.merge` joins their problems in that order. A file's first slice also reports the problems of
    the file. `findings` counts those in files, for `Findings.merge` and `note_findings`; those of inline
    recipients are noted at once.

    Raises:
        BrokenSliceError: the slice cannot be read separately; discard the results of all slices of its
            source.
    """
    wanted = names if part.role == "recipients" else frozenset[str]()
    for index in range(part.start, part.stop) if part.kind == "inline" else (part.source,):
        source, own = list_sources(campaign, part.role)[index], None
        if isinstance(source, FileRecipients):
            table = None if part.kind == "whole" else _open_slice(source, part, wanted)
            own = SourcePart(table, not part.start, findings)
        try:
            for row in iterate_source(campaign, part.role, index, wanted, problems, tally, own):
                yield SlicedRow._make((index, *row))
        except TableProblemError:
            # A table ends at its error: later slices would go on, or report it again.
            raise BrokenSliceError from None


def note_findings(
    campaign: Campaign, role: Role, source: int, findings: Findings, problems: Problems
) -> None:
    """Note the findings in all slices of a source, by its index in its list, once."""
    open_phone_column(campaign, role, source, problems, findings).note_findings()


@contextmanager
def _open_slice(source: FileRecipients, part: Slice, names: frozenset[str]) -> Iterator[Table]:
    if part.kind == "parquet":
        with open_source(source, names, (part.start, part.stop)) as table:
            yield table
        return
    try:
        with open_binary(part.location) as raw:
            raw.seek(part.start)
            content = io.BytesIO(raw.read(part.stop - part.start))
    except OSError:
        raise BrokenSliceError from None
    with io.TextIOWrapper(content, "utf-8" if part.start else "utf-8-sig") as stream:
        if part.start:
            yield continue_table(source.path, stream, list(part.header), part.dialect, part.line)
            return
        table = read_table(source.path, stream, str(source.path))
        found = Dialect(table.delimiter, skips_blanks=table.skips_blanks)
        if (tuple(table.header), found) != (part.header, part.dialect):
            raise BrokenSliceError
        yield table
