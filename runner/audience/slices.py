"""Slices of an audience that can be read separately, with the rows, lines and problems of a whole reading.

A CSV file is cut at line breaks outside quotes, by the quotes that surveys of its blocks count. Reading a
slice to its end proves the cut behind it: if a strict reader is then inside quotes, a stray quote misled the
count, and the whole file is read in one slice instead. Files that are not plain UTF-8 are one slice.
"""

from __future__ import annotations

import codecs
import io
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from runner.audience.audience import (
    EXCLUDED_PHONE,
    RECIPIENT_PHONE,
    SourcePart,
    iterate_source,
    open_phone_column,
)
from runner.audience.encoding import WORKBOOKS, is_utf8, is_utf8_name
from runner.audience.rows import open_source
from runner.audience.table import COMMA, Dialect, TableProblemError, continue_table, read_table
from runner.campaign.model import FileRecipients
from runner.source.stand_in import CONFLICT
from runner.source.storage import FileRange, measure_file, open_binary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.audience.audience import AudienceTally
    from runner.audience.consent import RowConsent
    from runner.audience.findings import Findings
    from runner.audience.table import Table
    from runner.campaign.model import Campaign, RecipientSource, Variables
    from runner.source.diagnostic import Problems


Role = Literal["recipients", "exclude"]
"""The list of the campaign that a source stands in."""

_BREAK = rb"(?:\r\n|\n|\r(?!\n|\Z))"
"""A line's end; a CR that ends the block may be half of one."""
_FROM_OUTSIDE = re.compile(rb'(?:[^"\r\n]+|"[^"]*")*+' + _BREAK)
"""Text up to the first line's end outside quotes, starting outside quotes."""
_FROM_INSIDE = re.compile(rb'[^"]*+"(?:[^"\r\n]+|"[^"]*")*+' + _BREAK)
_PORTION = 1 << 20
_CONTINUATION = range(0x80, 0xC0)
"""Bytes of a UTF-8 sequence after its first (RFC 3629, section 3); there are three at most."""
BLOCK_BYTES = 64 << 20
"""Bytes of one survey, and the approximate size of a slice."""
SLICE_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a file to survey. It can be pickled, and has no personal data.

    Attributes:
        role: the list that the file is in.
        source: its index in that list.
        location: the file's absolute path, or its URL.
        start: its first byte.
        stop: the byte after its last one.
    """

    role: Role
    source: int
    location: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A place behind a line's end where a block can be cut, as bytes and line ends before it."""

    offset: int
    breaks: int


@dataclass(frozen=True, slots=True)
class BlockSurvey:
    """The counts of a block.

    Attributes:
        quotes: quotation marks.
        breaks: line ends: CRLF, LF or CR; the halves of one that is cut in two count once each.
        begins_with_lf: whether its first byte is LF.
        ends_with_cr: whether its last byte is CR.
        cut_outside: the first cut if the block begins outside quotes, if any.
        cut_inside: the first cut if it begins inside quotes, if any.
        head: its first bytes that belong to a character of the block before.
        tail: its last bytes that belong to a character of the block behind.
        is_seam_alone: whether the block is nothing but `head`.
        is_text: whether all else is UTF-8, without NUL, and no spreadsheet's own file.
    """

    quotes: int
    breaks: int
    begins_with_lf: bool
    ends_with_cr: bool
    cut_outside: Cut | None
    cut_inside: Cut | None
    head: bytes
    tail: bytes
    is_seam_alone: bool
    is_text: bool


def survey_block(block: Block) -> BlockSurvey:
    """Count everything in a block that cuts depend on; raises OSError if it cannot be read."""
    with open_binary(block.location) as stream:
        stream.seek(block.start)
        return survey_bytes(stream.read(block.stop - block.start))


def survey_bytes(content: bytes) -> BlockSurvey:
    """Count everything that cuts depend on in some bytes of a file."""
    head = content[:3]
    head = head[: next((i for i, byte in enumerate(head) if byte not in _CONTINUATION), len(head))]
    tail = _find_tail(content, len(head))
    return BlockSurvey(
        quotes=content.count(b'"'),
        breaks=_count_breaks(content),
        begins_with_lf=content.startswith(b"\n"),
        ends_with_cr=content.endswith(b"\r"),
        cut_outside=_find_cut(_FROM_OUTSIDE, content),
        cut_inside=_find_cut(_FROM_INSIDE, content),
        head=head,
        tail=tail or b"",
        is_seam_alone=len(head) == len(content),
        is_text=tail is not None
        and 0 not in content
        and not content.startswith(WORKBOOKS)
        and CONFLICT not in content,
    )


def _count_breaks(content: bytes) -> int:
    return content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")


def _find_cut(pattern: re.Pattern[bytes], content: bytes) -> Cut | None:
    found = pattern.match(content)
    return None if found is None else Cut(found.end(), _count_breaks(content[: found.end()]))


def _find_tail(content: bytes, start: int) -> bytes | None:
    """Return the bytes of an incomplete last character; None if the bytes before are not UTF-8."""
    if content.isascii():
        return b""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for offset in range(start, len(content), _PORTION):
            decoder.decode(content[offset : offset + _PORTION])
    except UnicodeDecodeError:
        return None
    return decoder.getstate()[0]


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of an audience. It can be pickled, and has no personal data.

    Attributes:
        role: the list that its source is in.
        source: the source's index in that list; of inline recipients, the first one's.
        kind: `inline` recipients, a `whole` file, bytes of a `csv` file, or row groups of a `parquet` file.
        location: the file's absolute path, or its URL; empty for inline recipients.
        start: the first byte or row group; of inline recipients, the index of the first one's source.
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


def list_blocks(campaign: Campaign, role: Role, block_bytes: int = BLOCK_BYTES) -> list[Block]:
    """Return the blocks to survey: those of CSV files in the list `role` that are longer than one block."""
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

    `surveys` are those of every block from `list_blocks`; small row groups of Parquet files are joined until
    they have `slice_rows` rows.
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
    """Return slices with all of a broken one's source replaced by one of the whole file."""
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
        # Reading the file reports the problem.
        return 0


def _cut_file(
    role: Role, index: int, source: FileRecipients, surveyed: Sequence[tuple[Block, BlockSurvey]]
) -> list[Slice]:
    whole = [Slice(role, index, "whole", source.location)]
    if not surveyed or not _is_plain_text(survey for _, survey in surveyed):
        return whole
    try:
        with open_binary(source.location) as raw, io.TextIOWrapper(raw, "utf-8-sig") as stream:
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
    """Yield the row groups of a Parquet file, joined with neighbours until they have enough rows."""
    # Imported here: an extra, and most audiences are CSV.
    from runner.audience.parquet_table import count_rows  # noqa: PLC0415

    location = source.location
    try:
        counts = count_rows(location)
    except (OSError, ValueError):
        counts = []
    if not counts:
        # Reading the file reports the problem.
        yield Slice(role, index, "whole", location)
    first, row, rows = 0, 1, 0
    for number, count in enumerate(counts, start=1):
        rows += count
        if rows >= slice_rows or number == len(counts):
            yield Slice(role, index, "parquet", location, first, number, row)
            first, row, rows = number, row + rows, 0


def _list_cuts(surveyed: Sequence[tuple[Block, BlockSurvey]]) -> Iterator[tuple[int, int]]:
    """Yield the offset of each cut in a file, and the line that begins there, from 1."""
    quotes = breaks = 0
    is_half = False
    for block, survey in surveyed:
        # A CRLF that two blocks share is one line end.
        breaks -= is_half and survey.begins_with_lf
        cut = survey.cut_inside if quotes % 2 else survey.cut_outside
        if block.start and cut is not None:
            yield block.start + cut.offset, breaks + cut.breaks + 1
        quotes += survey.quotes
        breaks += survey.breaks
        is_half = survey.ends_with_cr


def _is_plain_text(surveys: Iterable[BlockSurvey]) -> bool:
    """Return whether a file is UTF-8 without NUL, by its blocks and the seams between them."""
    seam = b""
    for survey in surveys:
        seam += survey.head
        if not survey.is_text or (not survey.is_seam_alone and not is_utf8(seam)):
            return False
        seam = seam if survey.is_seam_alone else survey.tail
    return not seam


_BUFFER_BYTES = 1 << 17
_CODES: dict[Role, str] = {"recipients": RECIPIENT_PHONE, "exclude": EXCLUDED_PHONE}


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
        before: the phone that earlier versions read in it, if that was another.
    """

    source: int
    line: int
    phone: str
    vars: Variables
    timezone: str | None
    region: str | None
    consent: RowConsent
    before: str | None


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
    sources = list_sources(campaign, part.role)
    reads_consent = part.role == "recipients" and campaign.policy.consent == "required"
    wanted = names if part.role == "recipients" else frozenset[str]()
    for index in range(part.start, part.stop) if part.kind == "inline" else (part.source,):
        source, own = sources[index], None
        if isinstance(source, FileRecipients):
            table = None if part.kind == "whole" else _open_slice(source, part, wanted)
            own = SourcePart(table, not part.start, findings)
        try:
            for row in iterate_source(
                source,
                _CODES[part.role],
                wanted,
                problems,
                tally,
                reads_consent=reads_consent,
                part=own,
                landlines=campaign.policy.landlines,
            ):
                yield SlicedRow._make((index, *row))
        except TableProblemError:
            # A table ends at its error: later slices would go on, or report it again.
            raise BrokenSliceError from None


def note_findings(
    campaign: Campaign, role: Role, source: int, findings: Findings, problems: Problems
) -> None:
    """Note the findings in all slices of a source, by its index in its list, once."""
    column = open_phone_column(list_sources(campaign, role)[source], _CODES[role], problems)
    replace(column, findings=findings).note_findings()


@contextmanager
def _open_slice(source: FileRecipients, part: Slice, names: frozenset[str]) -> Iterator[Table]:
    if part.kind == "parquet":
        with open_source(source, names, part.location, (part.start, part.stop), part.line) as table:
            yield table
        return
    try:
        raw = open_binary(part.location)
    except OSError:
        raise BrokenSliceError from None
    span = io.BufferedReader(FileRange(raw, part.start, part.stop), _BUFFER_BYTES)
    with io.TextIOWrapper(span, "utf-8" if part.start else "utf-8-sig") as stream:
        if part.start:
            yield continue_table(source.path, stream, list(part.header), part.dialect, part.line)
            return
        table = read_table(source.path, stream, str(source.path))
        found = Dialect(table.delimiter, skips_blanks=table.skips_blanks)
        if (tuple(table.header), found) != (part.header, part.dialect):
            raise BrokenSliceError
        yield table
