"""A PostgreSQL server for tests: on a Unix socket in a scratch folder, run by an ordinary user."""

from __future__ import annotations

import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg import sql

from runner.ledger.database import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = "ada"
PASSWORD = "s3cret"  # noqa: S105  of a server that nobody else can reach
_DEBIAN = Path("/usr/lib/postgresql")
_PATIENCE_S = 100
# A language's order, as on most servers, exposes ledgers that rely on the server's order.
_INITDB = (
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=icu",
    "--icu-locale=en-US",
    "--auth=scram-sha-256",
)
# These servers are temporary: safety from a loss of power is not worth the wait.
_SETTINGS = ("listen_addresses=", "fsync=off", "full_page_writes=off")


@dataclass(slots=True)
class PostgresServer:
    """A running server, with the folder of its socket."""

    folder: Path
    process: subprocess.Popen[bytes]
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _template: str = ""

    def url(self, database: str, *, password: str = PASSWORD, scheme: str = "postgresql+psycopg") -> str:
        """Return the URL of a database, for the ledger."""
        return f"{scheme}://{USER}:{password}@/{database}?host={self.folder}"

    def create_database(self, options: LiteralString = "") -> str:
        """Create an empty database and return its name."""
        name = f"test_{next(self._numbers)}"
        self.execute(sql.SQL("CREATE DATABASE {} " + options).format(sql.Identifier(name)))
        return name

    def create_ledger(self) -> str:
        """Create a database with an empty ledger's tables, as a copy, which is faster, and return its name."""
        if not self._template:
            self._template = self.create_database()
            with Ledger(self.url(self._template)) as ledger:
                ledger.prepare()
            # A session may outlast its client, and no database is copied in use.
            self.end_sessions(self._template)
        name = f"test_{next(self._numbers)}"
        copied = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        self.execute(copied.format(sql.Identifier(name), sql.Identifier(self._template)))
        return name

    def execute(self, statement: sql.Composed | LiteralString, *, database: str = "postgres") -> list[Any]:
        """Run one statement and return its rows."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def end_sessions(self, database: str) -> None:
        """End every session of a database, as a restart of the server would, and wait until they have ended."""
        self.execute(
            sql.SQL("SELECT pg_terminate_backend(pid, {}) FROM pg_stat_activity WHERE datname = {}").format(
                sql.Literal(_PATIENCE_S * 1000),
                sql.Literal(database),
            )
        )

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """Return a connection that commits each statement by itself."""
        return psycopg.connect(
            host=str(self.folder), user=USER, password=PASSWORD, dbname=database, autocommit=True
        )


def find_postgres() -> Path | None:
    """Return the folder of the newest PostgreSQL's programs; None if none is installed."""
    if (found := shutil.which("initdb")) is not None:
        return Path(found).resolve().parent
    folders = [file.parent for file in _DEBIAN.glob("*/bin/initdb")]
    return max(folders, key=lambda folder: [int(n) for n in re.findall(r"\d+", str(folder))], default=None)


@contextmanager
def run_postgres(programs: Path) -> Iterator[PostgresServer]:
    """Run a server while the block lasts, and remove all of it afterwards."""
    # Outside pytest's folder, which another user cannot enter. A socket's path has to be short, too.
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        folder = Path(name)
        identity = _leave_root(folder)
        password_file = folder / "password"
        password_file.write_text(PASSWORD, encoding="ascii")
        password_file.chmod(0o644)
        initdb: list[str | Path] = [
            programs / "initdb",
            f"--pgdata={folder / 'data'}",
            f"--username={USER}",
            *_INITDB,
        ]
        subprocess.run(
            [*initdb, f"--pwfile={password_file}"], check=True, capture_output=True, cwd=folder, **identity
        )
        command: list[str | Path] = [programs / "postgres", "-D", folder / "data", "-k", folder]
        command += [option for setting in _SETTINGS for option in ("-c", setting)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **identity)
        try:
            server = PostgresServer(folder, process)
            _wait_until_ready(server)
            yield server
        finally:
            # Immediate shutdown: its data is removed with the folder.
            process.send_signal(signal.SIGQUIT)
            process.wait(_PATIENCE_S)


def _leave_root(folder: Path) -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _wait_until_ready(server: PostgresServer) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            server.execute("SELECT 1")
        except psycopg.OperationalError:
            if time.monotonic() > deadline or server.process.poll() is not None:
                log = (server.folder / "log").read_text(encoding="utf-8")
                raise RuntimeError(f"PostgreSQL does not start:\n{log}") from None
            time.sleep(0.05)
        else:
            return
