"""Columns of values on disk, as the cluster's processes hand them to each other: the door to `pyarrow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

_GROUP_ROWS = 1 << 14
"""Launches that are in memory at once, beside their file's bytes."""
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
    """One launch as a partition's file has it.

    Attributes:
        message: the message's id.
        arm: the experiment's arm; None for a message without.
        until: from when on it is not the time to send it any more; None if it always is.
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
    """Launches on their way into the bytes of a Parquet file.

    Args:
        shapes: JSON: what the texts belong into.
    """

    def __init__(self, shapes: str) -> None:
        self._sink = pa.BufferOutputStream()
        # Personal texts hardly ever come twice: a dictionary of them costs time and gains nothing.
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
    """The bytes of a partition's file, read.

    Args:
        data: as `LaunchSheet.finish` returned them.

    Attributes:
        shapes: JSON: what the texts belong into.

    Raises:
        ValueError: they are no Parquet file of launches.
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
