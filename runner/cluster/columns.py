"""Columns of launches and of rows in files; the only module of the cluster that uses `pyarrow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runner.plan.digest import PRIME, SHARDS, SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date, datetime

_GROUP_ROWS = 1 << 14
"""Launches in memory at once, beside their file's bytes."""
_SHAPES = b"shapes"
_LAUNCHES = pa.schema(
    [
        pa.field("message", pa.string(), nullable=False),
        pa.field("arm", pa.string()),
        pa.field("until", pa.timestamp("us", tz="UTC")),
        pa.field("texts", pa.list_(pa.string()), nullable=False),
        pa.field("payload_digest", pa.binary(16), nullable=False),
        pa.field("phones", pa.list_(pa.int64()), nullable=False),
    ]
)
_FEW_VALUES = ["message", "arm", "until"]


class LaunchRow(NamedTuple):
    """A launch in a partition's file.

    Attributes:
        until: the end of the time to send it; None if there is none.
        texts: the personal texts, in the order of their slots.
        payload_digest: of the definition; 16 bytes.
        phones: E.164 as numbers.
    """

    message: str
    arm: str | None
    until: datetime | None
    texts: Sequence[str]
    payload_digest: bytes
    phones: Sequence[int]


class LaunchSheet:
    """A writer of launches into the bytes of a Parquet file; `shapes` are definitions with slots, as JSON."""

    def __init__(self, shapes: str) -> None:
        self._sink = pa.BufferOutputStream()
        # Personal texts rarely repeat, so a dictionary of them would only cost time.
        self._writer = pq.ParquetWriter(
            self._sink,
            _LAUNCHES.with_metadata({_SHAPES: shapes}),
            compression="zstd",
            compression_level=1,
            use_dictionary=_FEW_VALUES,
            write_statistics=False,
        )
        self._rows: list[LaunchRow] = []

    def add(self, row: LaunchRow) -> None:
        """Add one launch."""
        self._rows.append(row)
        if len(self._rows) == _GROUP_ROWS:
            self._write()

    def finish(self) -> memoryview:
        """Return the file's bytes."""
        self._write()
        self._writer.close()
        return memoryview(self._sink.getvalue())

    def _write(self) -> None:
        if not self._rows:
            return
        values = zip(*self._rows, strict=True)
        columns = [pa.array(value, field.type) for value, field in zip(values, _LAUNCHES, strict=True)]
        self._writer.write_batch(pa.record_batch(columns, schema=self._writer.schema))
        self._rows.clear()


class LaunchFile:
    """A reader of the bytes from `LaunchSheet.finish`.

    Attributes:
        shapes: the definitions without personal texts, as JSON.

    Raises:
        ValueError: the bytes are not a Parquet file of launches.
    """

    def __init__(self, data: bytes) -> None:
        try:
            self._file = pq.ParquetFile(pa.BufferReader(data))
        except pa.ArrowException as error:
            raise ValueError(str(error)) from None
        schema = self._file.schema_arrow
        if not schema.equals(_LAUNCHES) or not schema.metadata or _SHAPES not in schema.metadata:
            raise ValueError("it has other columns")
        self.shapes = schema.metadata[_SHAPES].decode()

    def __iter__(self) -> Iterator[LaunchRow]:
        for batch in self._file.iter_batches(_GROUP_ROWS):
            yield from map(
                LaunchRow._make, zip(*(column.to_pylist() for column in batch.columns), strict=True)
            )


class RowColumns(NamedTuple):
    """Rows of one file and one partition, by column.

    Attributes:
        numbers: phones, E.164 as numbers.
        sources: the indexes of their sources in the campaign's list.
        zones: IANA names; None to go by the region, or the number.
        regions: legal regions, ISO 3166 codes; None to go by the number.
        consents: whether consent is on record; None where the source says nothing of it.
        days: days of consent; None if they are not kept.
        texts: the values of variables, in the order of their names; None for blank ones.
    """

    numbers: list[int]
    lines: list[int]
    sources: list[int]
    zones: list[str | None]
    regions: list[str | None]
    consents: list[bool | None]
    days: list[date | None]
    texts: list[list[str | None]]


_OWN_COLUMNS: dict[str, pa.DataType] = {
    "number": pa.int64(),
    "line": pa.int64(),
    "source": pa.int32(),
    "zone": pa.string(),
    "region": pa.string(),
    "consent": pa.bool_(),
    "day": pa.date32(),
}
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


class RowSheet:
    """A writer of rows, each with `texts` variables, with one batch for each partition."""

    def __init__(self, texts: int) -> None:
        variables = [(f"v{index}", pa.string()) for index in range(texts)]
        self._schema = pa.schema([*_OWN_COLUMNS.items(), *variables])
        self._chunks: list[pa.RecordBatch] = []

    def add(self, columns: Sequence[Sequence[Any]]) -> None:
        """Add rows by column, in the order of `RowColumns`, each variable in a column of its own."""
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._chunks.append(pa.record_batch(arrays, schema=self._schema))

    def finish(self, partitions: int) -> memoryview:
        """Return the file's bytes, with each partition's rows together, in order."""
        table = pa.Table.from_batches(self._chunks, self._schema)
        self._chunks = []
        own = _find_partitions(table["number"], partitions)
        counts = {one["values"]: one["counts"] for one in pc.value_counts(own).to_pylist()}
        table = table.take(pc.array_sort_indices(own)).combine_chunks()
        sink = pa.BufferOutputStream()
        start = 0
        with pa.ipc.new_file(sink, self._schema, options=_LZ4) as writer:
            for partition in range(partitions):
                count = counts.get(partition, 0)
                part = table.slice(start, count).combine_chunks()
                writer.write_batch(
                    part.to_batches()[0] if count else pa.RecordBatch.from_pylist([], self._schema)
                )
                start += count
        return memoryview(sink.getvalue())


def _find_partitions(numbers: pa.ChunkedArray, partitions: int) -> pa.Array:
    """Return the partition of each phone, as `runner.plan.digest.partition_of` does."""
    joined = numbers.combine_chunks()
    rest = pc.subtract(joined, pc.multiply(pc.divide(joined, PRIME), PRIME))
    return pc.divide(pc.multiply(pc.shift_right(rest, SHIFT), partitions), SHARDS)


def read_partition(file: BinaryIO, partition: int) -> RowColumns:
    """Return the rows of one partition from an open file; only the needed parts are read."""
    columns = pa.ipc.open_file(file).get_batch(partition).columns
    own = [column.to_pylist() for column in columns[: len(_OWN_COLUMNS)]]
    return RowColumns._make((*own, [column.to_pylist() for column in columns[len(_OWN_COLUMNS) :]]))


def read_consents(file: BinaryIO, partition: int) -> Iterator[tuple[int, bool | None, date | None, int, int]]:
    """Yield the consent of one partition's rows: phone, consent, day, source and line."""
    rows = pa.ipc.open_file(file).get_batch(partition)
    names = ("number", "consent", "day", "source", "line")
    yield from zip(*(rows.column(name).to_pylist() for name in names), strict=True)


def read_numbers(file: BinaryIO, partition: int) -> list[int]:
    """Return the phones of one partition, E.164 as numbers."""
    numbers: list[int] = pa.ipc.open_file(file).get_batch(partition).column("number").to_pylist()
    return numbers
