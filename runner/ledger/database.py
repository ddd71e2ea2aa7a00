"""The ledger: an SQL database that keeps committed data through crashes."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, false, func, inspect, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from runner.errors import LINE_BREAK_HINT, LedgerError, write_install_hint
from runner.ledger.bulk import iterate_rows
from runner.ledger.migration import MIGRATED, migrate
from runner.ledger.tables import SCHEMA_VERSION, info, metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sqlalchemy.dialects import postgresql

# These libraries log broken connections in addition to our error.
for _library in ("psycopg", "sqlalchemy.pool"):
    logging.getLogger(_library).setLevel(logging.CRITICAL + 1)

_SQLITE_READING = {"ledger_reading": True}
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
_REFILL_HINT = "move it away and run again: the ledger is filled from the lockfiles"
"""The hint for a ledger that is damaged, or has another schema."""
_HINTS = (
    (("already exists",), "give the ledger a database or a schema of its own"),
    (("malformed", "not a database", "no such table", "no such column", "relation", "column"), _REFILL_HINT),
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
_VERSION = "schema"
_ENTERING = int.from_bytes(b"runner's")
"""The advisory lock for entering tables and campaigns: an arbitrary number of 64 bits."""


class Ledger:
    """The open ledger, a context manager. `file` is the path of an SQLite ledger; None on a server."""

    def __init__(self, url: str) -> None:
        self._where, self.file = show_url(url), find_sqlite_file(url)
        self._engine = _open_server(parse_url(url)) if self.file is None else _open_file(url, self.file)
        self._autocommit: Connection | None = None
        self._autocommit_turn = threading.Lock()

    @classmethod
    def exists(cls, url: str) -> bool:
        """Return whether there is a ledger at `url`; a server is assumed to have one."""
        file = find_sqlite_file(url)
        return file is None or file.exists()

    def prepare(self) -> None:
        """Create the tables, or migrate those of an earlier version, all or nothing."""
        with self.writing() as connection:
            exclude_others(connection)
            version = self._read_version(connection)
            if version is None:
                self._create_tables(connection)
            elif version in MIGRATED:
                migrate(connection, version)
                write_info(connection, _VERSION, str(SCHEMA_VERSION))

    def is_ready(self) -> bool:
        """Return whether there are tables; a run that was killed early leaves none.

        Those of an earlier version are migrated. Those of another program, or of a later one, are errors.
        """
        with self.reading() as connection:
            version = self._read_version(connection)
        if version in MIGRATED:
            self.prepare()
        return version is not None

    def check_writable(self) -> None:
        """Refuse a ledger that this user may only read, or that is on a standby; nothing is changed."""
        with self.writing() as connection:
            # The right is asked for before it shows that no row is meant.
            connection.execute(info.update().where(false()).values(value=info.c.value))

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection whose work is committed durably when the block ends without an error."""
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing_again(self) -> Iterator[Connection]:
        """Yield a connection as `writing`, for work that is done again if the machine loses its power.

        A process that is killed loses nothing, and later work that is durable makes this durable, too.
        """
        with self._translated(), self._engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            if self.file is not None:
                driver.execute("PRAGMA synchronous=NORMAL")
            try:
                with connection.begin():
                    if self.file is None:
                        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                    yield connection
            finally:
                if self.file is not None:
                    driver.execute("PRAGMA synchronous=FULL")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a read-only connection with one snapshot for the whole block."""
        with self._translated(), self._engine.connect() as connection:
            if self.file is not None:
                yield connection.execution_options(**_SQLITE_READING)
            else:
                # In a transaction as well: the server streams rows only within one.
                yield connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """Yield the one connection outside of transactions, for locks that last as long as it does.

        A lost connection is replaced. Threads take turns.
        """
        with self._autocommit_turn, self._translated():
            if self._autocommit is None:
                self._autocommit = self._open_autocommit()
            try:
                yield self._autocommit
            finally:
                self._autocommit.rollback()

    def _open_autocommit(self) -> Connection:
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if self.file is None and self._is_pooled(connection):
            connection.close()
            raise LedgerError(
                f"the ledger {self._where} is behind a connection pooler that keeps no sessions, and so "
                "would lose the lock that keeps two runs apart",
                hint="name the server itself in --ledger or RUNNER_LEDGER, or have its pooler keep sessions "
                "(pgbouncer: pool_mode=session)",
            )
        return connection

    def _is_pooled(self, own: Connection) -> bool:
        """Return whether a connection outside of a transaction shares its server session with others."""
        query = select(func.pg_backend_pid())
        session = own.execute(query).scalar()
        with self._engine.connect() as other:
            # The other one is in a transaction, and so keeps its session. Compare that first: with a pooler
            # that has a single session, the last question would wait for it.
            return bool(other.execute(query).scalar() == session or own.execute(query).scalar() != session)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            # The first line only: the others can quote the row.
            said = " ".join(str(error.orig).partition("\n")[0].split())
            raise LedgerError(
                f"the ledger {self._where} cannot be used: {said}", hint=_hint_for(error)
            ) from None

    def _create_tables(self, connection: Connection) -> None:
        encoding = "UTF8" if self.file else connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise LedgerError(
                f"{self._where} cannot hold every text: its encoding is {encoding}",
                hint="create the database with: createdb --encoding=UTF8 --template=template0",
            )
        # A table of the same name is another program's.
        metadata.create_all(connection, checkfirst=False)
        write_info(connection, _VERSION, str(SCHEMA_VERSION))

    def _read_version(self, connection: Connection) -> str | None:
        """Return the version of the tables, one that can be used or migrated; None without tables."""
        tables = inspect(connection)
        is_ours = tables.has_table(info.name)
        # A server's database may be shared with other programs; a file is one program's.
        if not is_ours and (self.file is None or not tables.get_table_names()):
            return None
        if not is_ours:
            raise LedgerError(f"{self._where} is not a ledger", hint="check --ledger and RUNNER_LEDGER")
        version = read_info(connection, _VERSION)
        if version not in (str(SCHEMA_VERSION), *MIGRATED):
            raise LedgerError(
                f"{self._where} was written by another version of runner "
                f"(schema {version}, this one knows {SCHEMA_VERSION})",
                hint=f"use that version; or {_REFILL_HINT}",
            )
        return version

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._autocommit is not None:
            self._autocommit.close()
        self._engine.dispose()


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insert of the database's own dialect, which has `on_conflict_do_update`."""
    if connection.dialect.name == "postgresql":
        # Late: it imports asyncio and a driver's wrapper, for which a ledger in a file has no use.
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415  see above

        return postgresql.insert(table)
    return sqlite.insert(table)


def insert_missing(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, if any; those that are on record stay as they are."""
    if rows:
        connection.execute(insert_into(connection, table).on_conflict_do_nothing(), rows)


def insert_or_update(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of one shape, if any, and update what they have of those on record, by the primary key."""
    if rows:
        statement, key = insert_into(connection, table), [column.name for column in table.primary_key]
        new = {name: statement.excluded[name] for name in rows[0] if name not in key}
        connection.execute(statement.on_conflict_do_update(index_elements=key, set_=new), rows)


def read_info(connection: Connection, name: str) -> str | None:
    """Return a value about the ledger as a whole, or None."""
    return connection.execute(select(info.c.value).where(info.c.name == name)).scalar()


def write_info(connection: Connection, name: str, value: str) -> None:
    """Store a value about the ledger as a whole."""
    insert_or_update(connection, info, [{"name": name, "value": value}])


def note_absorbed(connection: Connection, names: Iterable[str]) -> None:
    """Record what the ledger has everything of.

    These are record files' texts, by their digests, and reservations and runs, by their random names, which
    are to be committed before anybody else sees them.
    """
    insert_missing(connection, info, [{"name": name, "value": ""} for name in names])


def find_absorbed(connection: Connection, names: Iterable[str]) -> set[str]:
    """Return those of some names that were given to `note_absorbed`."""
    return {row.name for row in iterate_rows(connection, select(info.c.name), info.c.name, list(names))}


def exclude_others(connection: Connection) -> None:
    """Make other transactions that call this wait for the end of this one.

    SQLite has a single writer anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_ENTERING)))


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


def _hint_for(error: DatabaseError) -> str:
    """Return the hint for a database's error."""
    text = str(error.orig)
    known = (hint for words, hint in _HINTS if any(word in text for word in words))
    return next(known, _FILE_HINT if isinstance(error.orig, sqlite3.Error) else _SERVER_HINT)


def _open_file(url: str, file: Path) -> Engine:
    """Return the engine of an SQLite ledger, whose file is created if needed, for its owner alone."""
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
