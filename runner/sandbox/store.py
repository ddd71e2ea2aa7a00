"""The SQLite file below the service: opened, created and checked here, and every transaction begins here."""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from runner.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x4D535353  # "MSSS": tells the service's file from any other SQLite database
_BUSY_SECONDS = 10.0
_SCHEMA = Path(__file__).with_name("schema.sql")


class Store:
    """One connection to the service's database; several processes may hold one to the same file.

    Args:
        connection: in autocommit mode, to a database that has the schema.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one write transaction; inside another one, as a part of that."""
        connection = self.connection
        if connection.in_transaction:
            yield connection
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Run the block on one snapshot: nothing that others write meanwhile is seen."""
        connection = self.connection
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.commit()

    def keep_api_key(self) -> str:
        """Give the api_key that the service made up for itself, the same after every restart."""
        with self.write() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO setting (name, value) VALUES ('api_key', ?)",
                (secrets.token_urlsafe(24),),
            )
            (api_key,) = connection.execute("SELECT value FROM setting WHERE name = 'api_key'").fetchone()
        return str(api_key)

    def close(self) -> None:
        """Close the connection; what was accepted is on disk already."""
        self.connection.close()


def open_store(path: Path) -> Store:
    """Open the service's database, and create it (mode 0600, in a folder of mode 0700) where there is none.

    The connection may be handed to another thread, but not be used by two at once.

    Raises:
        SandboxError: the file cannot be written, is something else, or was written by a newer version.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise SandboxError(f"cannot write the sandbox database {path}: {error.strerror}") from None
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, path)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise SandboxError(_explain(error, path)) from None
    except SandboxError:
        connection.close()
        raise
    return Store(connection)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    version = _read_version(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    # In WAL mode this survives the death of the process; only a power cut may lose the last sends.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -65536")
    # A checkpoint waits for the disk twice: every 32 MiB is often enough.
    connection.execute("PRAGMA wal_autocheckpoint = 8192")
    if version == 0:
        _create(connection, path)


def _create(connection: sqlite3.Connection, path: Path) -> None:
    store = Store(connection)
    with store.write():
        # Another process may have been first; the write lock makes the second look final.
        if _read_version(connection, path) == 0:
            for statement in _SCHEMA.read_text(encoding="utf-8").split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _read_version(connection: sqlite3.Connection, path: Path) -> int:
    """Give the schema version of the file, 0 for an empty one."""
    # One statement is one snapshot: another process may be creating the schema just now.
    application, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if application != _APPLICATION_ID and (tables or version):
        raise SandboxError(f"{path} is no sandbox database")
    if version > SCHEMA_VERSION:
        raise SandboxError(
            f"the sandbox database {path} was written by a newer version "
            f"(schema {version}; this one reads {SCHEMA_VERSION})"
        )
    return int(version)


def _explain(error: sqlite3.DatabaseError, path: Path) -> str:
    if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
        return f"{path} is no sandbox database"
    if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
        return f"the sandbox database {path} is locked by another process"
    return f"cannot open the sandbox database {path}: {error}"
