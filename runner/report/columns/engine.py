"""The analytical engine: DuckDB, in this process, with bounded memory and spilling to disk.

Results depend neither on the number of threads nor on the order of reading: write no statement for which they
would. Rows reach the engine by way of a file: a million in the time of a thousand inserts.
"""

from __future__ import annotations

import csv
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import duckdb

from runner.errors import RunnerError, describe_fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


SPILL = "spill"
"""The folder for data beyond the memory limit; removed when the engine ends normally."""
MEMORY_LIMIT = "1GB"
"""The memory that the engine may use before it spills; ten million results need no more."""

_HINT = "make room on the disk; the folder can be removed, it is filled again from the ledger"


class Engine:
    """A connection to the engine, as a context manager, with a folder for data beyond its memory limit."""

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
        """Return the rows of a statement's result: groups, so not many.

        Raises:
            RunnerError: as for `run`.
        """
        with self._translated():
            return self._connection.execute(statement, values or None).fetchall()

    def save(self, select: str, file: Path, options: str, known_as: Path | None = None) -> None:
        """Write the rows of a statement to a file, atomically if the file exists already.

        `options` are those of the engine's `COPY`; `known_as` is the file's name in messages.

        Raises:
            RunnerError: it cannot be written.
        """
        with self._translated(f"{known_as or file} cannot be written", "make room on the disk"):
            self._connection.execute(f"COPY ({select}) TO {quote(str(file))} ({options})")

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


def _is_of_files(error: duckdb.Error) -> bool:
    """Return whether an error is one of files or room, and not of a statement.

    A damaged file raises any of three classes, one of them the base class of all errors.
    """
    kinds = (duckdb.OperationalError, duckdb.InvalidInputException, duckdb.InternalError)
    return isinstance(error, kinds) or type(error) is duckdb.Error


def quote(text: str) -> str:
    """Return a text as a literal, for statements that take no values."""
    return "'" + text.replace("'", "''") + "'"


LONGEST_TEXT = 40_000
"""Characters kept of a text: more than one message can have in its 255 segments (3GPP TS 23.040)."""
_LONGEST_LINE = 4_000_000
"""Bytes."""
_MOST_BYTES = 4
"""Bytes of a character in UTF-8 (RFC 3629), at most."""
_BLOCK = 1000


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows that the engine can read by `select`, as text."""

    select: str
    count: int


@contextmanager
def stage_rows(folder: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[Staged]:
    """Write rows to a file that exists while the block lasts, in a folder of this user alone.

    Raises:
        RunnerError: the file cannot be written.
    """
    file = folder / "staged.csv"
    try:
        yield Staged(select_staged(file, columns), _write(file, rows))
    except OSError as error:
        raise RunnerError(
            f"the copy of the results in {folder} cannot be written: {error.strerror}",
            hint="make room on the disk, and check that this user may write there",
        ) from None
    finally:
        file.unlink(missing_ok=True)


def _write(file: Path, rows: Iterable[Sequence[object]]) -> int:
    count, waiting = 0, iter(rows)
    with file.open("w", encoding="utf-8", newline="") as staged:
        while block := list(islice(waiting, _BLOCK)):
            count += len(block)
            staged.write(_format(block))
    return count


def _format(block: Sequence[Sequence[object]]) -> str:
    """Return the lines of some rows, none of which is longer than the engine reads."""
    lines = _join(block)
    if len(lines) <= _LONGEST_LINE // _MOST_BYTES:
        return lines
    return _join([[v[:LONGEST_TEXT] if isinstance(v, str) else v for v in row] for row in block])


def _join(rows: Sequence[Sequence[object]]) -> str:
    """Return rows as CSV (RFC 4180) with every value quoted.

    Rows without a quote need no escaping: skipping it saves two thirds of the time.
    """
    width = len(rows[0])
    line = ",".join(['"%s"'] * width) + "\n"
    plain = "".join([line % tuple(row) for row in rows])
    if plain.count('"') == 2 * width * len(rows):
        return plain
    lines = StringIO(newline="")
    csv.writer(lines, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return lines.getvalue()


def select_staged(file: Path, columns: Sequence[str]) -> str:
    """Return the statement that reads CSV (RFC 4180, UTF-8, no header) with every value quoted, as text."""
    types = ", ".join(f"{quote(name)}: 'VARCHAR'" for name in columns)
    return f"""
        SELECT left(COLUMNS(*), {LONGEST_TEXT}) FROM read_csv({quote(str(file))}, header = false,
          auto_detect = false, delim = ',', quote = '"', escape = '"', new_line = '\\n',
          allow_quoted_nulls = false, max_line_size = {_LONGEST_LINE}, columns = {{{types}}})"""
