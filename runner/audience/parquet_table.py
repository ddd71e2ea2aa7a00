"""Parquet files as tables of texts, with values as in CSV; the only module that reads audiences' Parquet."""

from __future__ import annotations

import glob
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb

from runner.audience.table import (
    Table,
    check_header,
    explain_stand_in,
    name_columns,
    normalize_name,
    table_problem,
)
from runner.source.stand_in import find_stand_in
from runner.source.storage import is_url, open_binary, reach

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_START = 1 << 10
_MEMORY_MIB = 512
_BATCH_ROWS = 1 << 8
_MAX_CELL = 10_000
"""Characters of a cell, as of a rendered text: a short file can stand for gigabytes of longer ones."""
_SOURCE = "read_parquet(?, file_row_number = true, hive_partitioning = false)"
_EXACT_FLOAT = 2**53
_PLAIN = re.compile(
    r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|DECIMAL.*|BOOLEAN|DATE|TIME(?:_NS)?|VARCHAR|UUID|ENUM.*|\"NULL\""
)
"""Types whose values DuckDB writes as CSV files have them."""


@contextmanager
def open_parquet(file: Path, location: str, wanted: Collection[str]) -> Iterator[Table]:
    """Open a Parquet file as a table.

    Whole numbers have no decimal point, whatever their type; dates and times are ISO 8601, moments in UTC;
    null is blank. Wanted columns of other types, or with too long cells, are refused.

    Args:
        file: for messages.
        location: a path or a URL.
        wanted: the columns to read, without regard to case, blanks, `_` and `-`; others have blank cells.

    Raises:
        TableProblemError: it cannot be read, or names a column twice.
    """
    try:
        with open_binary(location) as stream:
            stand_in = find_stand_in(stream.read(_START))
        if stand_in is not None:
            raise explain_stand_in(file, stand_in)
        with _connect(location) as (connection, place):
            header = [name.strip() for name in _read_names(connection, place)]
            check_header(file, 1, header)
            folded = set(map(normalize_name, wanted))
            kinds = connection.execute(f"DESCRIBE SELECT * FROM {_SOURCE}", [place]).fetchall()
            used = zip(header, name_columns(header), kinds, strict=False)  # the last kind is the row's
            cells = [
                _write_cell(file, name, kind[0], kind[1])
                if not folded.isdisjoint((normalize_name(name), normalize_name(known)))
                else "''"
                for name, known, kind in used
            ]
            _refuse_cells(file, connection, place, [cell for cell in cells if cell != "''"])
            yield Table(file, header, 1, _iterate_rows(connection, place, cells))
    except duckdb.OutOfMemoryException:
        message = f"this file takes more than {_MEMORY_MIB} MiB to read"
        hint = "write it with smaller row groups"
        raise table_problem(file, 1, "parquet-large", message, hint) from None
    except (duckdb.Error, ValueError):
        raise table_problem(file, 1, "parquet-unreadable", "this file is not Parquet, or damaged") from None
    except OSError as error:
        words = f"this file cannot be read: {error.strerror or type(error).__name__}"
        raise table_problem(file, 1, "csv-unreadable", words) from None


@contextmanager
def _connect(location: str) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    settings: dict[str, Any] = {
        "memory_limit": f"{_MEMORY_MIB}MiB",
        "threads": 1,
        # Queries cannot fetch or load anything.
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    with duckdb.connect(":memory:", config=settings) as connection:
        connection.execute("SET enable_progress_bar = false")
        if not is_url(location):
            # What is a pattern to DuckDB is a name here.
            yield connection, glob.escape(location)
            return
        with reach(location) as (system, _):
            connection.register_filesystem(system)
        yield connection, location


def _read_names(connection: duckdb.DuckDBPyConnection, place: str) -> list[str]:
    """Return the names of a file's columns as they are written: DuckDB gives a repeated one another."""
    statement = "SELECT name, coalesce(num_children, 0) FROM parquet_schema(?)"
    names, inner = list[str](), 0
    for name, children in connection.execute(statement, [place]).fetchall()[1:]:
        names += [] if inner else [name]
        inner += children - bool(inner)
    return names


def _write_cell(file: Path, name: str, column: str, kind: str) -> str:
    """Return the SQL of a column's text."""
    quoted = '"' + column.replace('"', '""') + '"'
    text = f"{quoted}::VARCHAR"
    if kind in ("FLOAT", "DOUBLE"):
        whole = f"{quoted} = trunc({quoted}) AND abs({quoted}) <= {_EXACT_FLOAT}"
        text = (
            f"CASE WHEN isnan({quoted}) THEN '' WHEN {whole} THEN {quoted}::BIGINT::VARCHAR ELSE {text} END"
        )
    elif kind.startswith("TIMESTAMP"):
        zone = "+00:00" if "TZ" in kind or "ZONE" in kind else ""
        text = f"replace({quoted}::TIMESTAMP::VARCHAR, ' ', 'T') || '{zone}'"
    elif not _PLAIN.fullmatch(kind):
        message = f"the column `{name}` is of the type {kind}, whose values are no cells of a table"
        raise table_problem(file, 1, "parquet-type", message, "write it as text, number, date or boolean")
    return f"coalesce({text}, '')"


def _refuse_cells(file: Path, connection: duckdb.DuckDBPyConnection, place: str, cells: list[str]) -> None:
    """Refuse the first row that has a cell which is too long, or a NUL in one."""
    long = " OR ".join(f"length({cell}) > {_MAX_CELL}" for cell in cells) or "false"
    torn = " OR ".join(f"contains({cell}, chr(0))" for cell in cells) or "false"
    first = "min(file_row_number) FILTER"
    statement = f"SELECT {first} ({long}), {first} ({torn}) FROM {_SOURCE}"
    found = connection.execute(statement, [place]).fetchone() or (None, None)
    if found[0] is not None:
        message = f"a cell of this row is longer than {_MAX_CELL:,} characters"
        hint = "shorten it, or leave the column out"
        raise table_problem(file, found[0] + 1, "parquet-cell", message, hint)
    if found[1] is not None:
        message = "this row has a NUL character in it: the file is damaged, or no text"
        raise table_problem(file, found[1] + 1, "csv-nul", message, "write the file anew without it")


def _iterate_rows(
    connection: duckdb.DuckDBPyConnection, place: str, cells: list[str]
) -> Iterator[tuple[int, list[str]]]:
    statement = f"SELECT file_row_number + 1, {', '.join(cells)} FROM {_SOURCE}"
    found = connection.execute(statement, [place])
    while batch := found.fetchmany(_BATCH_ROWS):
        for line, *texts in batch:
            yield line, texts
