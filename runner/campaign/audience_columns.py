"""Finds the columns of an audience file that the campaign names, and says which of them it lacks."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.recipients import FileRecipients
    from runner.campaign.table import Table
    from runner.source.diagnostic import Problems


@dataclass(frozen=True, slots=True)
class FoundColumns:
    """The indexes of the columns with meanings of their own; None for one that the campaign doesn't name."""

    phone: int
    timezone: int | None
    region: int | None
    consent_source: int | None
    consent_date: int | None


def find_columns(source: FileRecipients, table: Table, problems: Problems) -> FoundColumns | None:
    """Find the columns of an audience file; None if one is not there.

    Args:
        source: names the columns.
        table: the file.
        problems: receives those that are missing, all of them.
    """
    indexes = {}
    is_complete = True
    for field, name, code, hint in _list_wanted(source):
        indexes[field] = index = table.find_column(name)
        if index is None:
            is_complete = False
            problems.add(_missing(name, table, code, hint))
    phone = indexes["phone"]
    if phone is None or not is_complete:
        return None
    return FoundColumns(
        phone,
        indexes.get("timezone"),
        indexes.get("region"),
        indexes.get("consent_source"),
        indexes.get("consent_date"),
    )


def _list_wanted(source: FileRecipients) -> Iterator[tuple[str, str, str, str]]:
    """Yield field, name, and for its absence the code and what to do, of every column that is named."""
    hint = "name the column that holds the phone with `phone_column`"
    yield "phone", source.phone_column, "csv-phone-column", hint
    if source.timezone_column is not None:
        hint = "name the column that holds the time zone with `timezone_column`"
        yield "timezone", source.timezone_column, "csv-timezone-column", hint
    if source.region_column is not None:
        hint = "name the column that holds the country or state with `region_column`"
        yield "region", source.region_column, "csv-region-column", hint
    if source.consent is not None:
        hint = "name the column that says where people agreed with `consent.source_column`"
        yield "consent_source", source.consent.source_column, "csv-consent-column", hint
        if source.consent.date_column is not None:
            hint = "name the column that says when people agreed with `consent.date_column`"
            yield "consent_date", source.consent.date_column, "csv-consent-column", hint


def _missing(name: str, table: Table, code: str, hint: str) -> Diagnostic:
    close = difflib.get_close_matches(name, table.header, n=1)
    message = f"there is no column `{name}`" + (f": did you mean `{close[0]}`?" if close else "")
    hint = f"{hint}; the file has: {', '.join(table.header)}"
    return Diagnostic("error", code, message, table.file, table.line, 1, hint)
