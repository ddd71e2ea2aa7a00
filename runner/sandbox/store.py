"""The SQLite file of the service: creation, checks and transactions.

Rows of launch and result are never deleted. Each carries its number, from 1 without gaps, among all rows (its
id) and in every filtered series: the highest number is the count and a page is a range, so that all pages
cost the same.
"""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
import time
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from runner.sandbox.sandbox_errors import SandboxError, find_trouble

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence


SCHEMA_VERSION = 4
_APPLICATION_ID = 0x4D535353  # "MSSS": distinguishes the service's file from other SQLite databases
_BUSY_SECONDS = 10.0
_AGAIN_S = 0.01
_SCHEMA = Path(__file__).with_name("schema.sql")
# What refers to others stands first.
_RECORDS = ("webhook", "result", "transcript", "session", "question", "participant", "launch", "totals")
Key = str | int
# By table: the columns of each series, and the column of its numbers.
_SERIES: dict[str, dict[frozenset[str], str]] = {
    "launch": {frozenset({"project_tag"}): "tag_number"},
    "result": {
        frozenset({"launch_id"}): "launch_number",
        frozenset({"launch_id", "question_tag"}): "launch_question_number",
        frozenset({"participant_id"}): "participant_number",
        frozenset({"project_tag"}): "project_tag_number",
        frozenset({"question_tag"}): "question_tag_number",
        frozenset({"project_tag", "question_tag"}): "tags_number",
    },
}


class Store:
    """One connection to the service's database, in autocommit mode; several processes may share the file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one write transaction; nested ones join it."""
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
        """Run the block on one snapshot."""
        connection = self.connection
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.commit()

    def keep_secret(self, name: str) -> str:
        """Return the secret of this name, which is made on first use and kept."""
        with self.write() as connection:
            secret = read_setting(connection, name)
            if secret is None:
                secret = secrets.token_urlsafe(24)
                write_setting(connection, name, secret)
        return secret

    def wait_at_most(self, seconds: float) -> None:
        """Set the time to wait for another process that holds the database."""
        self.connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")

    def checkpoint(self) -> None:
        """Move what was written to the database's file and empty its log, unless others use it just now."""
        # Without a wait: the log's readers and writers go first, and the next checkpoint comes by itself.
        self.wait_at_most(0)
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.wait_at_most(_BUSY_SECONDS)

    def close(self) -> None:
        """Close the connection; what was accepted is on disk already."""
        self.connection.close()


def read_setting(connection: sqlite3.Connection, name: str) -> str | None:
    """Return a setting's value, if it was set."""
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def write_setting(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Set a setting's value."""
    connection.execute("INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)", (name, value))


def read_state(store: Store) -> str | None:
    """Return the id of a store's state, a new one after every reset."""
    return read_setting(store.connection, "state")


def empty_store(store: Store) -> None:
    """Delete all records and settings but the api_key, so that clients of a running service can continue."""
    with store.write() as connection:
        for table in _RECORDS:
            connection.execute(f"DELETE FROM {table}")
        connection.execute("INSERT INTO totals (id) VALUES (1)")
        connection.execute("DELETE FROM setting WHERE name <> 'api_key'")
        write_setting(connection, "state", secrets.token_hex(8))


def prune_launches(store: Store, guids: Iterable[str]) -> None:
    """Blank the texts and answers of launches, and of all that their participants wrote outside of surveys.

    Records stay, since lists number them; of definitions the tags stay.
    """
    connection = store.connection
    # Freed pages would keep their content (sqlite.org, PRAGMA secure_delete).
    connection.execute("PRAGMA secure_delete = ON")
    with store.write():
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS pruned (id INTEGER PRIMARY KEY)")
        wanted = [(guid.lower(),) for guid in guids]
        connection.executemany("INSERT INTO pruned SELECT id FROM launch WHERE lower(guid) = ?", wanted)
        for statement in _PRUNE:
            connection.execute(statement)
        connection.execute("DROP TABLE pruned")
    connection.execute("VACUUM")
    store.checkpoint()


_REMOVED = "pruned"
"""What stands in the place of an answer that was removed."""
_PRUNE = (
    (
        "DELETE FROM transcript WHERE session_id IN (SELECT id FROM session WHERE launch_id IN pruned) "
        "OR session_id IS NULL AND participant_id IN "
        "(SELECT participant_id FROM session WHERE launch_id IN pruned)"
    ),
    # Not blank: a client without the record of its own pruning must not take an answer for silence.
    f"UPDATE result SET answer = iif(answer = '', '', '{_REMOVED}'), response = '' WHERE launch_id IN pruned",
    "UPDATE question SET text = '' WHERE launch_id IN pruned",
    (
        "UPDATE launch SET definition = json_object('tag', json_extract(definition, '$.tag'), 'text', '', "
        "'questions', json_array()) WHERE id IN pruned"
    ),
)


def find_database(store: Store) -> Path:
    """Return the file of a store."""
    rows = store.connection.execute("PRAGMA database_list")
    return Path(next(file for _, name, file in rows if name == "main"))


def open_store(path: Path) -> Store:
    """Open the service's database; create it (mode 0600, in a folder of mode 0700) if missing.

    The connection may change threads, but not be used by two at once.

    Raises:
        SandboxError: the file cannot be written, is something else, or was written by another version.
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
    # An existing file is not opened: closing it would drop the locks of all of this process's connections to
    # it (fcntl(2)).
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(path, os.R_OK | os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    version = _read_version(connection, path)
    _keep_log(connection)
    # In WAL mode, only a power cut may lose the last sends.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -65536")
    # A checkpoint waits for the disk twice: every 32 MiB is often enough.
    connection.execute("PRAGMA wal_autocheckpoint = 8192")
    # What a burst has left beyond that is given back.
    connection.execute("PRAGMA journal_size_limit = 33554432")
    if not version:
        _create_schema(connection, path)


def _keep_log(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode, which processes that start at once do one after the other."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite itself waits for no lock here.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_S)
        else:
            return


def _create_schema(connection: sqlite3.Connection, path: Path) -> None:
    with Store(connection).write():
        # Another process may have been first; the write lock makes the second look final.
        if _read_version(connection, path):
            return
        for statement in _SCHEMA.read_text(encoding="utf-8").split(";\n"):
            # `executescript` would commit the transaction so far.
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _read_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version of the file, 0 for an empty one."""
    # One statement is one snapshot: another process may be creating the schema.
    application, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if application != _APPLICATION_ID and (tables or version):
        raise SandboxError(f"{path} is no sandbox database")
    if version not in {0, SCHEMA_VERSION}:
        raise SandboxError(
            f"the sandbox database {path} was written by another version "
            f"(schema {version}; this one reads {SCHEMA_VERSION}); remove it, or name another one with --db"
        )
    return int(version)


def _explain(error: sqlite3.DatabaseError, path: Path) -> str:
    if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
        return f"{path} is no sandbox database"
    if (trouble := find_trouble(error)) is not None:
        return f"the sandbox database {path} {trouble.words}: {trouble.advice}"
    return f"cannot open the sandbox database {path}: {error}"


def insert_row(connection: sqlite3.Connection, table: str, row: Mapping[str, object]) -> int:
    """Insert and number a row, given by its columns, in the caller's write transaction; return its id."""
    return connection.execute(_write_insert(table, tuple(row)), row).lastrowid or 0


@lru_cache
def _write_insert(table: str, columns: tuple[str, ...]) -> str:
    values = [f":{column}" for column in columns]
    for keys, number in _SERIES[table].items():
        values.append(f"(SELECT COALESCE(max({number}), 0) + 1 FROM {table} WHERE {_match(sorted(keys))})")
    names = [*columns, *_SERIES[table].values()]
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(values)})"


def select_page(
    connection: sqlite3.Connection, table: str, keys: Mapping[str, Key], limit: int, offset: int
) -> tuple[int, Sequence[int]]:
    """Return the number of rows in all, and the ids of a page in order of creation.

    Args:
        connection: inside a read transaction.
        table: `launch` or `result`.
        keys: required values of columns. Without a series of their own, they must include `participant_id`:
            one person's results are few enough to scan.
        limit: rows on the page.
        offset: rows before it.
    """
    if not keys:
        (total,) = connection.execute(f"SELECT COALESCE(max(id), 0) FROM {table}").fetchone()
        return total, range(offset + 1, min(offset + limit, total) + 1)
    number = _SERIES[table].get(frozenset(keys))
    rows = f"WHERE {_match(keys)}"
    if number is None:
        walk = f"SELECT id FROM {table} INDEXED BY result_by_participant {rows} ORDER BY participant_number"
        ids = [row_id for (row_id,) in connection.execute(walk, keys)]
        return len(ids), ids[offset : offset + limit]
    (total,) = connection.execute(f"SELECT COALESCE(max({number}), 0) FROM {table} {rows}", keys).fetchone()
    page = f"SELECT id FROM {table} {rows} AND {number} > :first AND {number} <= :last ORDER BY {number}"
    found = connection.execute(page, {**keys, "first": offset, "last": offset + limit})
    return total, [row_id for (row_id,) in found]


def _match(columns: Collection[str]) -> str:
    return " AND ".join(f"{column} = :{column}" for column in columns)
