"""Reads what one source of recipients says, row after row; phones are left as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.consent_record import UNSAID, Consent, ConsentRecord, read_consent
from runner.campaign.recipients import InlineRecipient, Variables
from runner.campaign.zone_column import ZoneColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.audience_columns import FoundColumns
    from runner.campaign.table import Table
    from runner.source.diagnostic import Problems

Entry = tuple[str, int, Variables, str | None, Consent]
"""A phone as written, its line, and what goes with it: variables, time zone, what it says of consent."""


def read_inline(source: InlineRecipient, problems: Problems, *, reads_consent: bool) -> Entry:
    """Return what a recipient in the campaign file says.

    Args:
        source: the recipient.
        problems: receives what is wrong with the time zone.
        reads_consent: whether the campaign's policy asks for consent.
    """
    place = source.position
    zones = ZoneColumn(place.file, place.column, problems)
    timezone = None if source.timezone is None else zones.read(source.timezone, place.line)
    given = source.consent if reads_consent else None
    consent = UNSAID if given is None else read_consent(given.source, given.date)
    return source.phone, place.line, leave_out_blank(source.vars), timezone, consent


def iterate_rows(
    table: Table, columns: FoundColumns, names: frozenset[str], problems: Problems, *, reads_consent: bool
) -> Iterator[Entry]:
    """Yield what the rows of a table say.

    Args:
        table: open.
        columns: those with meanings of their own.
        names: the variables that texts refer to; other columns are not looked at.
        problems: receives what is wrong with rows; one of another width than the header is left out.
        reads_consent: whether the campaign's policy asks for consent.

    Raises:
        TableProblemError: the table cannot be read beyond some line.
    """
    found = ((name, table.find_column(name)) for name in sorted(names))
    variables = [(name, index) for name, index in found if index is not None]
    zones = ZoneColumn(table.file, 1, problems)
    phone, zone = columns.phone, columns.timezone
    record = None
    if reads_consent and columns.consent_source is not None:
        record = ConsentRecord(table.file, columns.consent_source, columns.consent_date, problems)
    width = len(table.header)
    for line, cells in table.rows:
        if len(cells) != width:
            problems.add(table.width_problem(line, cells))
            continue
        given = {name: text for name, index in variables if (text := cells[index].strip())}
        timezone = None if zone is None else zones.read(cells[zone], line)
        consent = UNSAID if record is None else record.read(cells, line)
        yield cells[phone], line, given, timezone, consent


def leave_out_blank(variables: Variables) -> Variables:
    """Return variables without those that say nothing."""
    return {
        name: value
        for name, value in variables.items()
        if value is not None and not (isinstance(value, str) and not value.strip())
    }
