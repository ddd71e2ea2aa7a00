"""Opens a file of recipients, whatever it is written in."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from runner.campaign.table import open_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from runner.campaign.recipients import FileRecipients
    from runner.campaign.table import Table


@contextmanager
def open_source(
    source: FileRecipients,
    names: Collection[str],
    location: str | None = None,
    groups: tuple[int, int] | None = None,
    row: int = 1,
) -> Iterator[Table]:
    """Open an audience file, and read its header.

    Args:
        source: the file.
        names: the variables that texts refer to. In Parquet, columns that nobody asks for are not read.
        location: where it is read, if not where the source says.
        groups: in Parquet, the first row group to read, and the one after the last; None for all.
        row: in Parquet, the number of the first row that is read, from 1.

    Raises:
        TableProblemError: it cannot be read.
    """
    where = location or source.location
    if source.format == "csv":
        with open_table(source.path, where) as table:
            yield table
        return
    # Imported here: an extra, and most audiences are CSV.
    from runner.campaign.parquet_table import open_parquet  # noqa: PLC0415

    with open_parquet(source.path, where, (*names, *_list_named(source)), groups, row) as table:
        yield table


def _list_named(source: FileRecipients) -> Iterator[str]:
    yield source.phone_column
    if source.timezone_column is not None:
        yield source.timezone_column
    if source.region_column is not None:
        yield source.region_column
    if source.consent is not None:
        yield source.consent.source_column
        if source.consent.date_column is not None:
            yield source.consent.date_column
