"""The audience: every source of a campaign's recipients as one stream, each phone once."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.campaign.model import Campaign, CsvRecipients, InlineRecipient, RecipientSource, Variables
from runner.campaign.phone import PhoneProblem, mask_written, parse_phone
from runner.campaign.table import Table, TableProblemError, open_table
from runner.source.diagnostic import Diagnostic, Problems

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Recipient:
    """A person to text.

    Attributes:
        phone: E.164.
        vars: template variables by name, blank ones left out.
        source: which of the campaign's sources named the phone first, counted from 0.
        file: where that is.
        line: the line in `file`, from 1.
    """

    phone: str
    vars: Variables
    source: int
    file: Path
    line: int


@dataclass(slots=True)
class AudienceTally:
    """What a pass over the audience has counted; `rows` = `duplicates` + recipients + rows with problems."""

    rows: int = 0
    duplicates: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    written: str
    region: str | None
    vars: Variables
    file: Path
    line: int
    column: int


def iterate_audience(
    campaign: Campaign, names: frozenset[str], problems: Problems, tally: AudienceTally
) -> Iterator[Recipient]:
    """Yield the campaign's recipients in the order of its files; the first mention of a phone wins.

    Memory grows with the distinct phones (eight bytes each and their share of a set), not with the rows.

    Args:
        campaign: whose audience.
        names: the variables that its texts refer to; other columns are not looked at.
        problems: receives what is wrong with rows and files; such rows are left out.
        tally: counts along.
    """
    seen: set[int] = set()
    shared = _leave_out_blank(campaign.vars)
    for index, source in enumerate(campaign.recipients):
        for entry in _iterate_entries(source, names, problems):
            tally.rows += 1
            phone = _parse_entry(entry, problems, "recipient-phone-invalid")
            if phone is None:
                continue
            number = int(phone[1:])
            if number in seen:
                tally.duplicates += 1
                continue
            seen.add(number)
            yield Recipient(phone, {**shared, **entry.vars}, index, entry.file, entry.line)


def read_excluded(campaign: Campaign, problems: Problems) -> frozenset[str]:
    """Return the phones, in E.164 form, that the campaign never texts.

    Args:
        campaign: whose `exclude` is read.
        problems: receives phones that cannot be read: an exclusion that is silently lost is a text too many.
    """
    phones = set()
    for source in campaign.exclude:
        for entry in _iterate_entries(source, frozenset(), problems):
            phone = _parse_entry(entry, problems, "exclude-phone-invalid")
            if phone is not None:
                phones.add(phone)
    return frozenset(phones)


def known_names(campaign: Campaign, source: int) -> list[str]:
    """Return the variables that recipients of a source can have, for messages about unknown ones."""
    entry = campaign.recipients[source]
    names = list(campaign.vars)
    if isinstance(entry, InlineRecipient):
        return names + list(entry.vars)
    try:
        with open_table(entry.path) as table:
            return names + [column for column in table.header if column]
    except TableProblemError:
        return names


def _parse_entry(entry: _Entry, problems: Problems, code: str) -> str | None:
    phone = parse_phone(entry.written, entry.region)
    if isinstance(phone, PhoneProblem):
        written = entry.written.strip()
        message = f"the phone {mask_written(written)!r} is refused: {phone.reason}"
        if not written:
            message = "the phone is blank"
        problems.add(Diagnostic("error", code, message, entry.file, entry.line, entry.column, phone.hint))
        return None
    return phone


def _iterate_entries(source: RecipientSource, names: frozenset[str], problems: Problems) -> Iterator[_Entry]:
    if isinstance(source, CsvRecipients):
        yield from _iterate_rows(source, names, problems)
        return
    place = source.position
    given = _leave_out_blank(source.vars)
    yield _Entry(source.phone, source.region, given, place.file, place.line, place.column)


def _iterate_rows(source: CsvRecipients, names: frozenset[str], problems: Problems) -> Iterator[_Entry]:
    try:
        with open_table(source.path) as table:
            if table.guess is not None:
                problems.add(table.guess)
            phone_index = table.find_column(source.phone_column)
            if phone_index is None:
                problems.add(_no_phone_column(source, table))
                return
            found = ((name, table.find_column(name)) for name in sorted(names))
            columns = [(name, index) for name, index in found if index is not None]
            for row in table.rows:
                cells = row.cells
                if len(cells) != len(table.header):
                    problems.add(table.width_problem(row))
                    continue
                given = {name: text for name, index in columns if (text := cells[index].strip())}
                yield _Entry(cells[phone_index], source.region, given, source.path, row.line, 1)
    except TableProblemError as error:
        problems.add(error.diagnostic)


def _no_phone_column(source: CsvRecipients, table: Table) -> Diagnostic:
    close = difflib.get_close_matches(source.phone_column, table.header, n=1)
    message = f"there is no column `{source.phone_column}`" + (
        f": did you mean `{close[0]}`?" if close else ""
    )
    hint = (
        f"name the column that holds the phone with `phone_column`; the file has: {', '.join(table.header)}"
    )
    return Diagnostic("error", "csv-phone-column", message, source.path, 1, 1, hint)


def _leave_out_blank(variables: Variables) -> Variables:
    return {
        name: value
        for name, value in variables.items()
        if value is not None and not (isinstance(value, str) and not value.strip())
    }
