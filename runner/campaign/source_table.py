"""Opens a file of recipients, whatever it is written in."""

from __future__ import annotations

import contextlib
import io
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runner.campaign.encoding import is_utf8_name
from runner.campaign.table import TableProblemError, open_table, read_table
from runner.source.storage import open_binary

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from runner.campaign.recipients import FileRecipients
    from runner.campaign.table import Table

_BEGINNING = 1 << 16


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
        names: the variables that texts refer to. In Parquet, columns that nobody asks for are not read; in
            CSV, it does not matter how bytes that nobody asks for would read.
        location: where it is read, if not where the source says.
        groups: in Parquet, the first row group to read, and the one after the last; None for all.
        row: in Parquet, the number of the first row that is read, from 1.

    Raises:
        TableProblemError: it cannot be read.
    """
    where = location or source.location
    if source.format == "csv":
        with open_table(source.path, where, source.encoding, is_rendered=bool(names)) as table:
            yield table
        return
    # Imported here: an extra, and most audiences are CSV.
    from runner.campaign.parquet_table import open_parquet  # noqa: PLC0415

    with open_parquet(source.path, where, (*names, *_list_named(source)), groups, row) as table:
        yield table


def read_header(source: FileRecipients) -> list[str]:
    """Return the columns of an audience file, from its beginning alone if that tells; none if it is wrong."""
    try:
        if source.format == "csv" and is_utf8_name(source.encoding):
            with open_binary(source.location) as stream:
                start = stream.read(_BEGINNING)
            with contextlib.suppress(UnicodeDecodeError, TableProblemError):
                text = io.TextIOWrapper(io.BytesIO(start[: start.rfind(b"\n") + 1]), "utf-8-sig", newline="")
                return [name for name in read_table(source.path, text, source.location).header if name]
        with open_source(source, ()) as table:
            return [name for name in table.header if name]
    except (OSError, TableProblemError):
        return []


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
