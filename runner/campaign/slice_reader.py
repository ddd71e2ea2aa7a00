"""Reads slices of an audience: the rows, lines and problems are those that reading all of it gives."""

from __future__ import annotations

import io
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from runner.campaign.audience import EXCLUDED_PHONE, RECIPIENT_PHONE, open_phone_column
from runner.campaign.audience_columns import find_columns
from runner.campaign.audience_rows import iterate_rows, read_inline
from runner.campaign.dialect import Dialect
from runner.campaign.invalid_rows import RowProblems
from runner.campaign.recipients import FileRecipients, InlineRecipient
from runner.campaign.slices import list_sources
from runner.campaign.source_table import open_source
from runner.campaign.table import TableProblemError, continue_table, read_table
from runner.source.diagnostic import Problems
from runner.source.storage import FileRange, open_binary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.audience import AudienceTally
    from runner.campaign.audience_rows import Entry
    from runner.campaign.block_survey import Role
    from runner.campaign.consent_record import Consent
    from runner.campaign.model import Campaign
    from runner.campaign.phone_column import Repairs
    from runner.campaign.recipients import Variables
    from runner.campaign.slices import Slice
    from runner.campaign.table import Table

_BUFFER_BYTES = 1 << 17
_CODES: dict[Role, str] = {"recipients": RECIPIENT_PHONE, "exclude": EXCLUDED_PHONE}


class BrokenSliceError(Exception):
    """A slice cannot be read by itself: its file has to be read in one, by `join_slices`."""


class AudienceRow(NamedTuple):
    """A row whose phone could be read.

    Attributes:
        source: the place of its source in the campaign's list.
        line: from 1: the line in the source's file; the row of a Parquet file.
        phone: E.164.
        vars: the variables of this row alone, blank ones left out: the campaign's own are not among them.
        timezone: an IANA name; None to go by the region, or the number.
        region: where they are by law, as `check_region` returned it; None to go by the number.
        consent: what is on record, where the campaign's policy asks for it.
    """

    source: int
    line: int
    phone: str
    vars: Variables
    timezone: str | None
    region: str | None
    consent: Consent


def iterate_slice(
    campaign: Campaign,
    part: Slice,
    names: frozenset[str],
    problems: Problems,
    tally: AudienceTally,
    repairs: Repairs,
) -> Iterator[AudienceRow]:
    """Yield the rows of a slice whose phones can be read, in their order; nothing is left out as a duplicate.

    The slices of a list give, one after the other, what `iterate_audience` (`read_excluded`) sees, with the
    same lines and problems, when `Problems.merge` joins their problems in that order.

    Args:
        campaign: whose audience.
        part: one of its slices.
        names: the variables that texts refer to; ignored for `exclude`.
        problems: receives what is wrong with the slice's rows, and of a file's first slice with the file.
        tally: counts `rows` and `invalid`.
        repairs: counts what phones were mended of. `Repairs.merge` joins those of the slices of one source,
            in their order; `note_repairs` then says it. Recipients in the campaign file have it said at once.

    Raises:
        BrokenSliceError: the slice cannot be read by itself; what the arguments have received is to be
            thrown away, for all slices of its source.
    """
    sources = list_sources(campaign, part.role)
    reads_consent = part.role == "recipients" and campaign.policy.consent == "required"
    wanted = names if part.role == "recipients" else frozenset[str]()
    for index in range(part.start, part.stop) if part.kind == "inline" else (part.source,):
        source = sources[index]
        rows = RowProblems(source, problems)
        phones = open_phone_column(source, _CODES[part.role], rows)
        if isinstance(source, FileRecipients):
            entries = _iterate_file(source, part, wanted, rows, problems, reads_consent=reads_consent)
            phones = replace(phones, repairs=repairs)
        else:
            entries = iter([read_inline(source, rows, reads_consent=reads_consent)])
        read_phone = phones.read
        for written, line, given, timezone, region, consent in rows.iterate(entries):
            phone = read_phone(written, line)
            if phone is not None and not rows.is_left_out(line):
                yield AudienceRow._make((index, line, phone, given, timezone, region, consent))
        tally.rows += rows.rows
        tally.invalid += rows.invalid
        if isinstance(source, InlineRecipient):
            phones.note_repairs()


def note_repairs(campaign: Campaign, role: Role, source: int, repairs: Repairs, problems: Problems) -> None:
    """Note what the phones of a source were mended of, once for all of its slices.

    Args:
        campaign: whose audience.
        role: which of its lists.
        source: the source's place in that list, from 0.
        repairs: of all of its slices.
        problems: receives the notes.
    """
    column = open_phone_column(list_sources(campaign, role)[source], _CODES[role], problems)
    replace(column, repairs=repairs).note_repairs()


def _iterate_file(
    source: FileRecipients,
    part: Slice,
    names: frozenset[str],
    rows: Problems,
    problems: Problems,
    *,
    reads_consent: bool,
) -> Iterator[Entry]:
    try:
        with _open_slice(source, part, names) as table:
            if not part.start:
                problems.extend(table.iterate_notes())
            # What the header lacks is said once, by who reads the first slice.
            columns = find_columns(source, table, Problems() if part.start else problems)
            if columns is not None:
                yield from iterate_rows(
                    table, columns, names, rows, country=source.region, reads_consent=reads_consent
                )
    except TableProblemError as error:
        # A table ends where it is wrong: the slices behind would go on, or say it once more.
        if part.kind in ("csv", "parquet"):
            raise BrokenSliceError from None
        problems.add(error.diagnostic)


@contextmanager
def _open_slice(source: FileRecipients, part: Slice, names: frozenset[str]) -> Iterator[Table]:
    if part.kind != "csv":
        groups = (part.start, part.stop) if part.kind == "parquet" else None
        with open_source(source, names, part.location, groups, part.line) as table:
            yield table
        return
    try:
        raw = open_binary(part.location)
    except OSError:
        raise BrokenSliceError from None
    span = io.BufferedReader(FileRange(raw, part.start, part.stop), _BUFFER_BYTES)
    with io.TextIOWrapper(span, "utf-8" if part.start else "utf-8-sig", newline="") as stream:
        if part.start:
            yield continue_table(source.path, stream, list(part.header), part.dialect, part.line)
            return
        table = read_table(source.path, stream, str(source.path))
        found = Dialect(table.delimiter, skips_blanks=table.skips_blanks)
        if (tuple(table.header), found) != (part.header, part.dialect):
            raise BrokenSliceError
        yield table
