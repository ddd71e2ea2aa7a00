"""Statements that count groups: asked of all results at once, or of parts of them whose answers are added up.

A part has all the results of the participants in it, so that nobody is counted in two. Each statement ends
with its count, called `n`. What chooses among groups looks at all of them, so it is a statement of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from runner.report.columns.engine import quote

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.report.columns.engine import Engine

_OPTIONS = "FORMAT parquet, COMPRESSION zstd"


class Groups(Protocol):
    """Answers statements that count groups."""

    @property
    def engine(self) -> Engine:
        """What the statements are about."""

    def rows(
        self, statement: str, values: Sequence[object] = (), *, choose: str = "{}"
    ) -> list[tuple[Any, ...]]:
        """Return groups and how many are in each, or what a further statement makes of them.

        Args:
            statement: counts groups; its last column is `n`.
            values: for its placeholders.
            choose: reads the groups, which it calls `{}`.

        Raises:
            RunnerError: the disk is full, or the files cannot be read.
        """


class WholeGroups:
    """Counts all there is, at once.

    Args:
        engine: has it.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def rows(
        self, statement: str, values: Sequence[object] = (), *, choose: str = "{}"
    ) -> list[tuple[Any, ...]]:
        """Return groups, as `Groups` says."""
        return self.engine.rows(choose.format(f"({statement})") if choose != "{}" else statement, values)


class PartGroups:
    """Counts one part, and keeps what it finds in files: the first statement's in the first.

    Args:
        engine: has the part.
        folder: for the files.
        name: what the names of the files begin with.
    """

    def __init__(self, engine: Engine, folder: Path, name: str) -> None:
        self.engine = engine
        self._folder = folder
        self._name = name
        self._count = 0

    def rows(
        self,
        statement: str,
        values: Sequence[object] = (),
        *,
        choose: str = "{}",  # noqa: ARG002  who has but a part cannot choose
    ) -> list[tuple[Any, ...]]:
        """Keep the groups, and return none of them."""
        # A statement with placeholders cannot be written to a file at once.
        self.engine.run(f"CREATE OR REPLACE TEMP TABLE counted AS {statement}", values)
        self.engine.save("FROM counted", _name_file(self._folder, self._name, self._count), _OPTIONS)
        self._count += 1
        return []


class SummedGroups:
    """Adds up what parts have found, when it is asked the same statements in the same order.

    Args:
        engine: adds.
        folders: those of the parts.
        name: as for `PartGroups`.
    """

    def __init__(self, engine: Engine, folders: Sequence[Path], name: str) -> None:
        self.engine = engine
        self._folders = folders
        self._name = name
        self._count = 0

    def rows(
        self,
        statement: str,  # noqa: ARG002  the parts have run it
        values: Sequence[object] = (),  # noqa: ARG002
        *,
        choose: str = "{}",
    ) -> list[tuple[Any, ...]]:
        """Return groups, as `Groups` says."""
        files = ", ".join(quote(str(_name_file(folder, self._name, self._count))) for folder in self._folders)
        self._count += 1
        if not files:
            return []
        added = f"SELECT * EXCLUDE (n), sum(n)::BIGINT AS n FROM read_parquet([{files}]) GROUP BY ALL"
        return self.engine.rows(choose.format(f"({added})") if choose != "{}" else f"{added} ORDER BY ALL")


def _name_file(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}-{number}.parquet"
