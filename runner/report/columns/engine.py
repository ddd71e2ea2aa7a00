"""The analytical engine: DuckDB, in this process, with bounded memory and spilling to disk.

Results depend neither on the number of threads nor on the order of reading: write no statement for which they
would. Rows reach the engine by way of a file: a million in the time of a thousand inserts.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import duckdb

from runner.errors import RunnerError, describe_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


SPILL = "spill"
"""The folder for data beyond the memory limit; removed when the engine ends normally."""
STAGED = "staged.csv"
"""The file of rows on their way to the engine."""
MEMORY_LIMIT = "1GB"
"""The memory that the engine may use before it spills; ten million results need no more."""

_HINT = "make room on the disk; the folder can be removed, it is filled again from the ledger"


class Engine:
    """A connection to the engine, as a context manager, with a folder for data beyond its memory limit.

    The folder is of this user alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": str(folder / SPILL),
            "preserve_insertion_order": False,
            # Queries cannot fetch or load anything.
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with self._translated():
            self._connection = duckdb.connect(":memory:", config=settings)
            self._connection.execute("SET TimeZone = 'UTC'")

    def run(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> None:
        """Run a statement without a result.

        Raises:
            RunnerError: the disk is full, or the files cannot be read.
        """
        with self._translated():
            self._connection.execute(statement, values or None)

    def rows(
        self, statement: str, values: Sequence[object] | Mapping[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement's result: groups, so not many; in order, if they are counted.

        Raises:
            RunnerError: as for `run`.
        """
        with self._translated():
            return self._connection.execute(statement, values or None).fetchall()

    def iterate(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement's result, without all of them in memory; run no other meanwhile.

        Raises:
            RunnerError: as for `run`.
        """
        with self._translated():
            found = self._connection.execute(statement)
            while rows := found.fetchmany(10_000):
                yield from rows

    def load(
        self,
        table: str,
        columns: Sequence[str],
        rows: Iterable[tuple[object, ...]],
        derive: Callable[[str], str] = str,
    ) -> None:
        """Make a table of rows, as text, with null for None, temporary unless it names a database.

        `derive` returns the table's statement, given one that selects the rows.

        Raises:
            RunnerError: the disk is full, or the file of the rows cannot be written.
        """
        file = self._folder / STAGED
        types = ", ".join(f"{quote(name)}: 'VARCHAR'" for name in columns)
        select = f"""SELECT * FROM read_csv({quote(str(file))}, header = false, auto_detect = false,
            delim = ',', quote = '"', escape = '"', new_line = '\\n', allow_quoted_nulls = false,
            max_line_size = 4000000, columns = {{{types}}})"""
        try:
            with file.open("w", encoding="utf-8", newline="") as staged:
                staged.writelines(_write_lines(rows, len(columns)))
            kind = "TABLE" if "." in table else "TEMP TABLE"
            self.run(f"CREATE OR REPLACE {kind} {table} AS {derive(select)}")
        except OSError as error:
            raise cannot_write(self._folder, error) from None
        finally:
            file.unlink(missing_ok=True)

    def count(self, statement: str) -> dict[str, Any]:
        """Return the counts in the only row of a statement's result by their names; those of nothing are 0.

        Raises:
            RunnerError: as for `run`.
        """
        with self._translated():
            found = self._connection.execute(statement)
            names = [column[0] for column in found.description or ()]
            return {name: count or 0 for name, count in zip(names, found.fetchall()[0], strict=True)}

    def fill(self, table: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
        """Make a temporary table of few rows; `columns` are names and types, as in `place INTEGER`."""
        kinds = [one.split() for one in columns.split(",")]
        cells = ", ".join(f"unnest(?::{kind}[]) AS {name}" for name, kind in kinds)
        values = [[row[number] for row in rows] for number in range(len(kinds))]
        self.run(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT {cells}", values)

    def save(self, select: str, file: Path, options: str, known_as: Path | None = None) -> None:
        """Write the rows of a statement to a file, atomically if the file exists already.

        `options` are those of the engine's `COPY`; `known_as` is the file's name in messages.

        Raises:
            RunnerError: it cannot be written.
        """
        with self._translated(f"{known_as or file} cannot be written", "make room on the disk"):
            self._connection.execute(f"COPY ({select}) TO {quote(str(file))} ({options})")

    def frame(self, select: str) -> Any:
        """Return the rows of a statement as a pandas.DataFrame, for other writers.

        Raises:
            RunnerError: as for `run`.
        """
        with self._translated():
            return self._connection.execute(select).df()

    @contextmanager
    def _translated(self, what: str = "", hint: str = _HINT) -> Iterator[None]:
        try:
            yield
        except duckdb.Error as error:
            if not _is_of_files(error):
                raise
            what = what or f"the results in {self._folder} cannot be counted"
            raise RunnerError(f"{what}: {describe_fault(error)}", hint=hint) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _write_lines(rows: Iterable[tuple[object, ...]], columns: int) -> Iterator[str]:
    """Yield rows as lines of CSV in half the time that the module `csv` takes: all cells but nulls quoted."""
    line = ",".join(['"%s"'] * columns) + "\n"
    marks = line.count('"')
    for row in rows:
        written = line % row
        if written.count('"') != marks or '"None"' in written:
            cells = ("" if cell is None else '"' + str(cell).replace('"', '""') + '"' for cell in row)
            written = ",".join(cells) + "\n"
        yield written


def _is_of_files(error: duckdb.Error) -> bool:
    """Return whether an error is one of files or room, and not of a statement.

    A damaged file raises any of three classes, one of them the base class of all errors.
    """
    kinds = (duckdb.OperationalError, duckdb.InvalidInputException, duckdb.InternalError)
    return isinstance(error, kinds) or type(error) is duckdb.Error


def cannot_write(folder: Path, error: OSError) -> RunnerError:
    """Return the error of a copy that cannot be written."""
    return RunnerError(
        f"the copy of the results in {folder} cannot be written: {error.strerror}",
        hint="make room on the disk, and check that this user may write there",
    )


def quote(text: str) -> str:
    """Return a text as a literal, for statements that take no values."""
    return "'" + text.replace("'", "''") + "'"


def name_column(name: str) -> str:
    """Return a name as that of a column."""
    return '"' + name.replace('"', '""') + '"'
