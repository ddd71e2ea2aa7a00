"""Parquet files as tables of texts, with values as in CSV; the only module that reads Parquet."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runner.audience.table import (
    MAX_CELL,
    Table,
    check_header,
    explain_stand_in,
    name_columns,
    normalize_name,
    table_problem,
)
from runner.source.stand_in import find_stand_in
from runner.source.storage import open_binary

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_BATCH_ROWS = 1 << 14
_START = 1 << 10
_BATCH_CHARACTERS = 1 << 24
_MAX_CHUNK = 1 << 28
"""The most uncompressed bytes of one column in one row group: Arrow holds them at once."""
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_EXACT_FLOAT = 2.0**53
_CAST = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_date,
    *_TEXTS,
    pa.types.is_null,
)
"""Types whose values Arrow writes as CSV files have them."""


def count_rows(location: str) -> list[int]:
    """Return the number of rows of each row group of a Parquet file.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is no Parquet file.
    """
    with open_binary(location) as stream:
        metadata = pq.ParquetFile(stream).metadata
        return [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]


@contextmanager
def open_parquet(
    file: Path, location: str, wanted: Collection[str], groups: tuple[int, int] | None = None, row: int = 1
) -> Iterator[Table]:
    """Open a Parquet file as a table.

    Whole numbers have no decimal point, whatever their type; dates and times are ISO 8601; null is blank.
    Wanted columns of other types, or with cells longer than in CSV files, are refused.

    Args:
        file: for messages.
        location: a path or a URL.
        wanted: the columns to read, without regard to case, blanks, `_` and `-`; others have blank cells.
        groups: the first row group to read, and the one after the last; None for all.
        row: the number of the first row, from 1, used for lines.

    Raises:
        TableProblemError: it cannot be read, or names a column twice.
    """
    try:
        with open_binary(location) as stream:
            source = pq.ParquetFile(stream)
            schema = source.schema_arrow
            header = [name.strip() for name in schema.names]
            check_header(file, 1, header)
            folded = set(map(normalize_name, wanted))
            names = [
                name
                for name, used in zip(schema.names, name_columns(header), strict=True)
                if normalize_name(name) in folded or normalize_name(used) in folded
            ]
            for name in names:
                _require_text(file, name, schema.field(name).type)
            numbers = range(*(groups or (0, source.num_row_groups)))
            _refuse_large(file, source.metadata, numbers, frozenset(names), row)
            # A short file can stand for gigabytes by repeating one long cell: repeated cells are kept once.
            texts = [name for name in names if any(fits(schema.field(name).type) for fits in _TEXTS)]
            source = pq.ParquetFile(stream, metadata=source.metadata, read_dictionary=texts)
            batches = source.iter_batches(_BATCH_ROWS, list(numbers), names, use_threads=False)
            yield Table(file, header, 1, None, _iterate_rows(file, batches, schema.names, row))
    except (pa.ArrowException, ValueError):
        with open_binary(location) as stream:
            stand_in = find_stand_in(stream.read(_START))
        if stand_in is not None:
            raise explain_stand_in(file, stand_in) from None
        raise table_problem(file, 1, "parquet-unreadable", "this file is not Parquet, or damaged") from None
    except OSError as error:
        words = f"this file cannot be read: {error.strerror or type(error).__name__}"
        raise table_problem(file, 1, "csv-unreadable", words) from None


def _require_text(file: Path, name: str, kind: pa.DataType) -> None:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(fits(kind) for fits in (*_CAST, pa.types.is_floating, pa.types.is_temporal)) or (
        pa.types.is_duration(kind) or pa.types.is_interval(kind)
    ):
        message = f"the column `{name}` is of the type {kind}, whose values are no cells of a table"
        raise table_problem(file, 1, "parquet-type", message, "write it as text, number, date or boolean")


def _refuse_large(
    file: Path, metadata: pq.FileMetaData, groups: range, names: frozenset[str], row: int
) -> None:
    for group in map(metadata.row_group, groups):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema in names and column.total_uncompressed_size > _MAX_CHUNK:
                words = f"the column `{column.path_in_schema}` of this row group"
                message = f"{words} is larger than {_MAX_CHUNK >> 20} MiB"
                raise table_problem(
                    file, row, "parquet-large", message, "write the file with smaller row groups"
                )
        row += group.num_rows


def _iterate_rows(
    file: Path, batches: Iterator[pa.RecordBatch], names: list[str], row: int
) -> Iterator[tuple[int, list[str]]]:
    for batch in batches:
        longest = sum(_measure_cells(file, column, row) for column in batch.columns)
        size = max(1, _BATCH_CHARACTERS // max(1, longest))
        for start in range(0, batch.num_rows, size):
            part = batch.slice(start, size)
            blank = [""] * part.num_rows
            read = {name: _write_cells(file, part.column(name), row) for name in part.schema.names}
            columns = [read.get(name, blank) for name in names]
            for cells in zip(*columns, strict=True):
                yield row, list(cells)
                row += 1


def _measure_cells(file: Path, column: pa.Array, row: int) -> int:
    """Return the length of the longest text in a column read as a dictionary; 0 for other columns."""
    if not pa.types.is_dictionary(column.type) or not any(fits(column.type.value_type) for fits in _TEXTS):
        return 0
    lengths = pc.utf8_length(column.dictionary)
    index = pc.index(pc.greater(lengths, MAX_CELL).take(column.indices), value=True).as_py()
    if index >= 0:
        message = f"a cell of this row is longer than {MAX_CELL:,} characters"
        raise table_problem(file, row + index, "parquet-cell", message, "shorten it, or leave the column out")
    return pc.max(lengths).as_py() or 0


def _write_cells(file: Path, column: pa.Array, row: int) -> list[str]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_floating(kind):
        return [_write_number(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        column = pc.cast(column, pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_time(kind):
        column = pc.cast(column, pa.time64("us"), safe=False)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return ["" if value is None else value.isoformat() for value in column.to_pylist()]
    texts = pc.fill_null(pc.cast(column, pa.string()), "")
    _refuse_nul(file, texts, row)
    written: list[str] = texts.to_pylist()
    return written


def _write_number(value: float | None) -> str:
    if value is None or value != value:  # noqa: PLR0124  not a number, which pandas writes for null
        return ""
    is_whole = value.is_integer() and abs(value) <= _EXACT_FLOAT
    return str(int(value)) if is_whole else repr(value)


def _refuse_nul(file: Path, texts: pa.Array, row: int) -> None:
    has_nul = pc.match_substring(texts, "\0")
    index = pc.index(has_nul, value=True).as_py()
    if index >= 0:
        message = "this row has a NUL character in it: the file is damaged, or no text"
        raise table_problem(file, row + index, "csv-nul", message, "write the file anew without it")
