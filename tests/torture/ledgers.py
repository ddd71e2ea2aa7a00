"""Ledgers that get lost, or are put back to an earlier state."""

from __future__ import annotations

import shutil
import subprocess
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from psycopg import sql

if TYPE_CHECKING:
    from pathlib import Path

    from tests.postgres import PostgresServer

REF = "refs/runner/torture"
"""The ref that machines share by a state remote: that of the target."""


class Ledger(Protocol):
    """A ledger from outside. No run may be alive when it is lost or put back.

    Attributes:
        url: where runs find it; empty for the default of their folder.
        is_shared: whether runs in other folders can have it, too.
    """

    url: str
    is_shared: bool

    def is_there(self) -> bool:
        """Return whether anything has been recorded."""

    def delete(self) -> None:
        """Lose everything."""

    def copy(self) -> Any:
        """Return a copy to put back later."""

    def restore(self, copy: Any) -> None:
        """Put back a copy."""


class SqliteLedger:
    """The default ledger.

    Args:
        folder: the repository's.
    """

    is_shared = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder / ".runner"
        self.url = f"sqlite:///{self._folder / 'ledger.sqlite'}"

    def is_there(self) -> bool:
        """Return whether there is a database."""
        return (self._folder / "ledger.sqlite").exists()

    def delete(self) -> None:
        """Lose the whole folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def copy(self) -> dict[str, bytes]:
        """Return the contents of the database's files."""
        return {file.name: file.read_bytes() for file in self._folder.glob("ledger.sqlite*")}

    def restore(self, copy: dict[str, bytes]) -> None:
        """Put back the database's files."""
        self.delete()
        self._folder.mkdir()
        for name, content in copy.items():
            (self._folder / name).write_bytes(content)


class LocalLedger(SqliteLedger):
    """The ledger of one of several machines, which share a git remote alone.

    Args:
        folder: the repository's, on this machine.

    Attributes:
        remote: the bare repository, beside that folder.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # Each machine has one of its own.
        self.url = ""
        self.remote = folder.parent / "remote.git"
        _git("init", "--quiet", "--bare", "--initial-branch=main", str(self.remote))

    def join(self, folder: Path) -> None:
        """Make a folder a repository that has the remote, as a clone has."""
        if not (folder / ".git").exists():
            _git("init", "--quiet", "--initial-branch=main", str(folder))
            _git("-C", str(folder), "remote", "add", "origin", f"file://{self.remote}")

    def delete_ref(self) -> bool:
        """Delete the ref that the machines share, and return whether it was there."""
        is_there = bool(_git("-C", str(self.remote), "for-each-ref", REF))
        _git("-C", str(self.remote), "update-ref", "-d", REF)
        return is_there


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), check=True, capture_output=True, text=True).stdout


class PostgresLedger:
    """A ledger in a database of its own.

    Args:
        server: where the database is made.
    """

    is_shared = True

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._name = server.create_database()
        self._numbers = count()
        self.url = server.url(self._name)

    def is_there(self) -> bool:
        """Return whether the database has tables."""
        tables = "SELECT 1 FROM pg_tables WHERE schemaname = 'public'"
        return bool(self._server.execute(tables, database=self._name))

    def delete(self) -> None:
        """Make the database anew."""
        self._replace("template1")

    def copy(self) -> str:
        """Return the name of a copy of the database."""
        # Sessions of processes that were killed may not have noticed yet; no database is copied in use.
        self._server.end_sessions(self._name)
        name = f"{self._name}_copy_{next(self._numbers)}"
        self._create(name, self._name)
        return name

    def restore(self, copy: str) -> None:
        """Put back a copy."""
        self._replace(copy)

    def _replace(self, template: str) -> None:
        name = sql.Identifier(self._name)
        self._server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        self._create(self._name, template)

    def _create(self, name: str, template: str) -> None:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self._server.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))


class ClusterLedger(PostgresLedger):
    """The same, of runs whose plans a cluster of two processes makes."""
