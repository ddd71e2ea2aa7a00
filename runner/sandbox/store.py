"""The SQLite file below the service: opened, created and checked here, and every transaction begins here."""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner.sandbox.errors import SandboxError
from runner.sandbox.trouble import find_trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA_VERSION = 2
_APPLICATION_ID = 0x4D535353  # "MSSS": tells the service's file from any other SQLite database
_BUSY_SECONDS = 10.0
_SCHEMA = Path(__file__).with_name("schema.sql")
_UPGRADE = Path(__file__).with_name("upgrade_1.sql")


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
        return self.keep_secret("api_key")

    def keep_secret(self, name: str) -> str:
        """Give the secret of this name: made up the first time, and the same from then on."""
        with self.write() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO setting (name, value) VALUES (?, ?)", (name, secrets.token_urlsafe(24))
            )
            (secret,) = connection.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
        return str(secret)

    def wait_at_most(self, seconds: float) -> None:
        """Wait so long, from now on, for another process that holds the database."""
        self.connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")

    def close(self) -> None:
        """Close the connection; what was accepted is on disk already."""
        self.connection.close()


def find_database(store: Store) -> Path:
    """Tell which file a store is in."""
    rows = store.connection.execute("PRAGMA database_list")
    return Path(next(file for _, name, file in rows if name == "main"))


def open_store(path: Path) -> Store:
    """Open the service's database, and create it (mode 0600, in a folder of mode 0700) where there is none.

    The connection may be handed to another thread, but not be used by two at once.

    Raises:
        SandboxError: the file cannot be written, is something else, or was written by a newer version.
    """
    try:
        _create_private_file(path)
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


def _create_private_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # One that is there is not opened: closing it again would drop the locks of every connection that this
    # process has to it (fcntl(2)), and other processes would take the database for unused.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(path, os.R_OK | os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    version = _read_version(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    # In WAL mode this survives the death of the process; only a power cut may lose the last sends.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -65536")
    # A checkpoint waits for the disk twice: every 32 MiB is often enough.
    connection.execute("PRAGMA wal_autocheckpoint = 8192")
    if version < SCHEMA_VERSION:
        _bring_up_to_date(connection, path)


def _bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    with Store(connection).write():
        # Another process may have been first; the write lock makes the second look final.
        version = _read_version(connection, path)
        if version == SCHEMA_VERSION:
            return
        old_tables = _put_tables_aside(connection) if version else []
        schema, upgrade = _read_statements(_SCHEMA), _read_statements(_UPGRADE)
        connection.create_function("next_number", -1, _make_numbering())
        # An index that is made once its rows are there costs a fraction.
        indices = [statement for statement in schema if " INDEX " in statement]
        tables = [statement for statement in schema if " INDEX " not in statement]
        for statement in (*tables, *(upgrade if version else ()), *indices):
            # `executescript` would commit what the transaction holds so far.
            connection.execute(statement)
        for table in old_tables:
            connection.execute(f"DROP TABLE {table}")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _put_tables_aside(connection: sqlite3.Connection) -> list[str]:
    """Rename every table of an older schema to `old_*` and drop the indices, whose names are needed again."""
    made = "SELECT name FROM sqlite_schema WHERE type = ? AND sql IS NOT NULL"
    for (index,) in connection.execute(made, ("index",)).fetchall():
        connection.execute(f"DROP INDEX {index}")
    tables = [table for (table,) in connection.execute(made, ("table",))]
    for table in tables:
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    return [f"old_{table}" for table in tables]


def _make_numbering() -> Callable[..., int]:
    """Make the function that upgrades number rows with: 1 for the first call with a key, 2 for the second."""
    numbers: Counter[tuple[object, ...]] = Counter()

    def next_number(*key: object) -> int:
        numbers[key] += 1
        return numbers[key]

    return next_number


def _read_statements(script: Path) -> list[str]:
    return script.read_text(encoding="utf-8").split(";\n")


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
    if (trouble := find_trouble(error)) is not None:
        return f"the sandbox database {path} {trouble.words}: {trouble.advice}"
    return f"cannot open the sandbox database {path}: {error}"
