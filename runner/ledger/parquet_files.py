"""Rows as Parquet files, by way of DuckDB: every installation has it, and a backup must not want for more.

Files of a bounded number of rows, so that neither writing nor reading them takes memory that grows.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import duckdb

from runner.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

ROWS_A_FILE = 250_000
MEMORY_LIMIT = "1GB"
_PORTION = 5_000


@dataclass(slots=True)
class ParquetWriter:
    """Writes the rows of one table to files `<table>-00000.parquet` and on. Use it as a context manager.

    Attributes:
        folder: this user's alone.
        table: the table's name.
        columns: the types of its columns, as DuckDB names them, by their names.
        rows_a_file: at most.
        files: those that are written: their names, with the rows of each.
    """

    folder: Path
    table: str
    columns: Mapping[str, str]
    rows_a_file: int = ROWS_A_FILE
    files: list[tuple[str, int]] = field(default_factory=list)
    _engine: duckdb.DuckDBPyConnection = field(init=False, repr=False)
    _waiting: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Begin with no rows."""
        self._engine = _open_engine(self.folder)

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write rows, a value a column.

        Raises:
            LedgerError: the disk is full.
        """
        waiting = list(rows)
        while waiting:
            room = self.rows_a_file - self._waiting
            self._keep(waiting[:room])
            waiting = waiting[room:]
            if self._waiting == self.rows_a_file:
                self._write()

    def _keep(self, rows: Sequence[Sequence[Any]]) -> None:
        with _translated(self.folder):
            if not self._waiting:
                typed = ", ".join(f'"{name}" {kind}' for name, kind in self.columns.items())
                self._engine.execute(f"CREATE OR REPLACE TABLE waiting ({typed})")
            arrays = ", ".join(
                f"unnest(${number}::{kind}[])" for number, kind in enumerate(self.columns.values(), start=1)
            )
            values = [list(one) for one in zip(*rows, strict=True)]
            self._engine.execute(f"INSERT INTO waiting SELECT {arrays}", values)
        self._waiting += len(rows)

    def _write(self) -> None:
        name = f"{self.table}-{len(self.files):05}.parquet"
        file = self.folder / name
        with _translated(self.folder):
            self._engine.execute(f"COPY waiting TO {_quote(file)} (FORMAT parquet, COMPRESSION zstd)")
        file.chmod(0o600)
        self.files.append((name, self._waiting))
        self._waiting = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if self._waiting and kind is None:
                self._write()
        finally:
            self._engine.close()


def iterate_rows(file: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a file in portions, each row by the names of its columns.

    Args:
        file: as `ParquetWriter` writes it.

    Raises:
        LedgerError: it is damaged.
    """
    engine = _open_engine(file.parent)
    try:
        with _translated(file.parent):
            engine.execute("FROM read_parquet($1)", [str(file)])
            columns = [column[0] for column in engine.description or ()]
            while rows := engine.fetchmany(_PORTION):
                yield [dict(zip(columns, row, strict=True)) for row in rows]
    finally:
        engine.close()


def _open_engine(folder: Path) -> duckdb.DuckDBPyConnection:
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY_LIMIT,
        "temp_directory": str(folder / ".spill"),
        # Nothing is fetched or loaded.
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(":memory:", config=settings)


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        said = " ".join(str(error).partition("\n")[0].split())
        raise LedgerError(
            f"the files in {folder} cannot be used: {said}", hint="make room on the disk, or export anew"
        ) from None


def _quote(file: Path) -> str:
    return "'" + str(file).replace("'", "''") + "'"
