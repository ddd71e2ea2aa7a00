"""Reads what one source of recipients says, row after row; phones are left as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.consent_record import UNSAID, Consent, ConsentRecord, read_consent
from runner.campaign.place_columns import open_regions, open_zones
from runner.campaign.recipients import InlineRecipient, Variables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.audience_columns import FoundColumns
    from runner.campaign.table import Table
    from runner.source.diagnostic import Problems

Entry = tuple[str, int, Variables, str | None, str | None, Consent]
"""A phone as written, its line, and what goes with it: variables, time zone, region, and word of consent."""


def read_inline(source: InlineRecipient, problems: Problems, *, reads_consent: bool) -> Entry:
    """Return what a recipient in the campaign file says.

    Args:
        source: the recipient.
        problems: receives what is wrong with the time zone and the region.
        reads_consent: whether the campaign's policy asks for consent.
    """
    place = source.position
    zones = open_zones(place.file, place.column, problems)
    regions = open_regions(place.file, place.column, problems, None)
    timezone = None if source.timezone is None else zones.read(source.timezone, place.line)
    region = None if source.region is None else regions.read(source.region, place.line)
    given = source.consent if reads_consent else None
    consent = UNSAID if given is None else read_consent(given.source, given.date)
    return source.phone, place.line, leave_out_blank(source.vars), timezone, region, consent


def iterate_rows(
    table: Table,
    columns: FoundColumns,
    names: frozenset[str],
    problems: Problems,
    *,
    country: str | None,
    reads_consent: bool,
) -> Iterator[Entry]:
    """Yield what the rows of a table say.

    Args:
        table: open.
        columns: those with meanings of their own.
        names: the variables that texts refer to; other columns are not looked at.
        problems: receives what is wrong with rows; one of another width than the header is left out.
        country: of the numbers in national form, and of states without a country; None if none is said.
        reads_consent: whether the campaign's policy asks for consent.

    Raises:
        TableProblemError: the table cannot be read beyond some line.
    """
    found = ((name, table.find_column(name)) for name in sorted(names))
    variables = [(name, index) for name, index in found if index is not None]
    zones = open_zones(table.file, 1, problems)
    regions = open_regions(table.file, 1, problems, country)
    phone, zone, place = columns.phone, columns.timezone, columns.region
    record = None
    if reads_consent and columns.consent_source is not None:
        record = ConsentRecord(table.file, columns.consent_source, columns.consent_date, problems)
    width = len(table.header)
    quoted = [] if table.skips_blanks else [index for _, index in variables]
    for line, cells in table.rows:
        if len(cells) != width:
            problems.add(table.width_problem(line, cells))
            continue
        for index in quoted:
            if cells[index].startswith(' "'):
                problems.add(table.quote_problem(line))
        given = {name: text for name, index in variables if (text := cells[index].strip())}
        timezone = None if zone is None else zones.read(cells[zone], line)
        region = None if place is None else regions.read(cells[place], line)
        consent = UNSAID if record is None else record.read(cells, line)
        yield cells[phone], line, given, timezone, region, consent


def leave_out_blank(variables: Variables) -> Variables:
    """Return variables without those that say nothing."""
    return {
        name: value
        for name, value in variables.items()
        if value is not None and not (isinstance(value, str) and not value.strip())
    }
