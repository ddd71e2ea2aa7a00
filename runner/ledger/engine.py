"""The engine of a ledger's database: its URL, its settings, and hints for its errors."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from runner.errors import LINE_BREAK_HINT, LedgerError, write_install_hint

# These libraries log broken connections in addition to our error.
for _library in ("psycopg", "sqlalchemy.pool"):
    logging.getLogger(_library).setLevel(logging.CRITICAL + 1)

SQLITE_READING = {"ledger_reading": True}
"""The execution options of an SQLite connection whose transactions only read."""
_BUSY_TIMEOUT_S = 30
_AGAIN_S = 0.01
_POSTGRES_DRIVER = "postgresql+psycopg"
_POSTGRES_NAMES = ("postgresql", "postgres", _POSTGRES_DRIVER)
# A server that has silently gone is given up after 30 s, not after the kernel's quarter of an hour.
_POSTGRES_CONNECTION = {
    "application_name": "runner",
    "client_encoding": "utf8",
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
# An asynchronous commit can be lost; a session that ends for idling would lose its lock.
# The server's keepalives free the lock of a machine that has vanished; by default, only after hours.
_POSTGRES_SETTINGS = """
SELECT set_config(name, wanted, false)
FROM pg_settings JOIN (VALUES
  ('synchronous_commit', 'on'), ('idle_session_timeout', '0'),
  ('tcp_keepalives_idle', '15'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3')
) AS ours (name, wanted) USING (name)
WHERE name <> 'synchronous_commit' OR setting = 'off'
"""
REFILL_HINT = "move it away and run again: the ledger is filled from the lockfiles"
"""The hint for a ledger that is damaged, or has another schema."""
_HINTS = (
    (("already exists",), "give the ledger a database or a schema of its own"),
    (("malformed", "not a database", "no such table", "no such column", "relation", "column"), REFILL_HINT),
    (
        ("locked",),
        "another run is using it, or it is on a network share: wait, or name a place with --ledger",
    ),
)
_SERVER_HINT = (
    "check that the server runs, and its name, user and password in --ledger or RUNNER_LEDGER; this user "
    "must be able to create and write tables there"
)
_FILE_HINT = (
    "check that this user may write to the file and its folder, and that the disk has room; then run the "
    "same command again: nothing was sent that is not recorded"
)


def parse_url(url: str) -> URL:
    """Parse a ledger's URL."""
    if url != url.strip("\r\n"):
        raise LedgerError("the ledger's URL ends with a line break", hint=LINE_BREAK_HINT)
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise _unusable_url() from None
    # Text after the first `@` would count as the host, and be shown.
    if parsed.get_backend_name() != "sqlite" and url.count("@") > 1:
        raise LedgerError(
            "the ledger's URL has more than one `@`, so the end of its password is unclear",
            hint="write %40 for an `@` in the user's name or the password, in --ledger or RUNNER_LEDGER",
        )
    return parsed


def find_sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite ledger; None if the ledger is on a server."""
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    if parsed.database in (None, "", ":memory:"):
        raise LedgerError(
            f"the ledger {url} would be forgotten when this command ends",
            hint="name a file, as in sqlite:///path/to/ledger.sqlite",
        )
    return Path(parsed.database)


def open_engine(url: str) -> Engine:
    """Return the engine of a ledger; an SQLite file is created, for its owner alone."""
    file = find_sqlite_file(url)
    return _open_server(parse_url(url)) if file is None else _open_file(url, file)


def hint_for(error: DatabaseError) -> str:
    """Return the hint for a database's error."""
    text = str(error.orig)
    known = (hint for words, hint in _HINTS if any(word in text for word in words))
    return next(known, _FILE_HINT if isinstance(error.orig, sqlite3.Error) else _SERVER_HINT)


def _open_file(url: str, file: Path) -> Engine:
    _create_private_file(file)
    try:
        engine = create_engine(url, connect_args={"timeout": _BUSY_TIMEOUT_S})
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError):
        raise _unusable_url() from None
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin)
    return engine


def _open_server(url: URL) -> Engine:
    if url.drivername not in _POSTGRES_NAMES:
        raise _unusable_url()
    ours = {name: value for name, value in _POSTGRES_CONNECTION.items() if name not in url.query}
    try:
        engine = create_engine(url.set(drivername=_POSTGRES_DRIVER), connect_args=ours)
    except ImportError:
        raise LedgerError(
            "a ledger on PostgreSQL needs the driver psycopg, which is not installed",
            hint=write_install_hint("postgres"),
        ) from None
    event.listen(engine, "connect", _configure_postgres)
    return engine


def _unusable_url() -> LedgerError:
    return LedgerError(
        "the ledger's URL is not one that can be used here",
        hint="as in sqlite:///path/to/ledger.sqlite, or postgresql+psycopg://…",
    )


def _create_private_file(file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Don't open an existing file: closing it would drop the locks of all this process's connections to it
        # (fcntl(2)), and other processes would take the database for unused.
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        if not (file.is_file() and os.access(file, os.R_OK | os.W_OK)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise LedgerError(
            f"the ledger {file} cannot be opened: {error.strerror}",
            hint="check that this user may write there, or name another place with --ledger",
        ) from None


def _configure_sqlite(connection: Any, _record: object) -> None:
    # Transactions are begun below, not by the driver at the first write.
    connection.isolation_level = None
    _switch_to_wal(connection)
    # FULL: a commit is on the disk before it returns, and so survives a power loss.
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _switch_to_wal(connection: Any) -> None:
    """Switch a new file to WAL mode; of processes that start at once, one after the other."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            # SQLite's own timeout does not hold for this statement.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_S)
        else:
            return


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") != "AUTOCOMMIT":
        # A transaction that turns from reading to writing can fail half-way; this one waits at its start.
        connection.exec_driver_sql("BEGIN" if options.get("ledger_reading") else "BEGIN IMMEDIATE")


def _configure_postgres(connection: Any, _record: object) -> None:
    connection.execute(_POSTGRES_SETTINGS)
    connection.commit()


def show_url(url: str) -> str:
    """Return a ledger's URL without its password."""
    parsed = parse_url(url)
    secret = [name for name in parsed.query if "password" in name]
    return parsed.difference_update_query(secret).render_as_string(hide_password=True)
