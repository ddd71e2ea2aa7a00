"""The analytical engine: DuckDB, in this process, within a bound of memory.

It spills to the disk what does not fit. Nothing here depends on how many threads it has or in which order it
reads: a statement whose answer would is not written here.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import duckdb

from runner.errors import RunnerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SPILL = "spill"
"""The folder of what does not fit into memory; gone when the engine has ended by itself."""
MEMORY_LIMIT = "1GB"
"""What the engine may hold before it spills; ten million results take no more."""

_HINT = "make room on the disk; the folder can be removed, it is filled again from the ledger"


class Engine:
    """A connection to the engine. Use it as a context manager.

    Args:
        folder: where it may put what does not fit into memory.
        memory_limit: as DuckDB writes sizes.
        threads: that it may use; None for as many as there are cores.
    """

    def __init__(self, folder: Path, memory_limit: str = MEMORY_LIMIT, threads: int | None = None) -> None:
        self._folder = folder
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory_limit,
            "temp_directory": str(folder / SPILL),
            "preserve_insertion_order": False,
            # Nothing is fetched or loaded, whatever a query says.
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        if threads is not None:
            settings["threads"] = threads
        with self._translated():
            self._connection = duckdb.connect(":memory:", config=settings)
            self._connection.execute("SET TimeZone = 'UTC'")

    def run(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> None:
        """Run a statement that answers nothing.

        Raises:
            RunnerError: the disk is full, or the files cannot be read.
        """
        with self._translated():
            self._connection.execute(statement, values or None)

    def rows(
        self, statement: str, values: Sequence[object] | Mapping[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement's answer: groups, so not many.

        Raises:
            RunnerError: as for `run`.
        """
        with self._translated():
            return self._connection.execute(statement, values or None).fetchall()

    def save(self, select: str, file: Path, options: str, known_as: Path | None = None) -> None:
        """Write the rows of a statement to a file, whole or not at all if the file is there already.

        Args:
            select: the statement.
            file: where to.
            options: of the engine's `COPY`.
            known_as: the name that the file is to have; None for its own.

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
            said = " ".join(str(error).partition("\n")[0].split())
            what = what or f"the results in {self._folder} cannot be counted"
            raise RunnerError(f"{what}: {said}", hint=hint) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _is_of_files(error: duckdb.Error) -> bool:
    """Tell whether an error is one of files or room, and not of a statement.

    A damaged file is told in any of three ways, one of them the class that all errors are of.
    """
    kinds = (duckdb.OperationalError, duckdb.InvalidInputException, duckdb.InternalError)
    return isinstance(error, kinds) or type(error) is duckdb.Error


def quote(text: str) -> str:
    """Return a text as a literal, where a statement takes no values."""
    return "'" + text.replace("'", "''") + "'"
