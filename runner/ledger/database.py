"""The ledger: an SQL database that keeps committed data through crashes."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import Connection, Table, false, func, inspect, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DatabaseError

from runner.errors import LedgerError
from runner.ledger.bulk import divide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy.dialects import postgresql
from runner.ledger.engine import (
    REFILL_HINT,
    SQLITE_READING,
    find_sqlite_file,
    hint_for,
    open_engine,
    show_url,
)
from runner.ledger.tables import SCHEMA_VERSION, absorbed, info, metadata

_VERSION = "schema"
_ENTERING = int.from_bytes(b"runner's")
"""The advisory lock for entering tables and campaigns: an arbitrary number of 64 bits."""


class Ledger:
    """The open ledger, a context manager. `file` is the path of an SQLite ledger; None on a server."""

    def __init__(self, url: str) -> None:
        self._engine = open_engine(url)
        self._where = show_url(url)
        self.file: Path | None = find_sqlite_file(url)
        self._autocommit: Connection | None = None
        self._autocommit_turn = threading.Lock()

    @classmethod
    def exists(cls, url: str) -> bool:
        """Return whether there is a ledger at `url`; a server is assumed to have one."""
        file = find_sqlite_file(url)
        return file is None or file.exists()

    def prepare(self) -> None:
        """Create the tables, all or nothing, unless they are there."""
        with self.writing() as connection:
            exclude_others(connection)
            if not self._is_ready(connection):
                self._create_tables(connection)

    def is_ready(self) -> bool:
        """Return whether there are tables; a run that was killed early leaves none.

        Those of another program, and of another version, are errors.
        """
        with self.reading() as connection:
            return self._is_ready(connection)

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
                yield connection.execution_options(**SQLITE_READING)
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
                f"the ledger {self._where} cannot be used: {said}", hint=hint_for(error)
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

    def _is_ready(self, connection: Connection) -> bool:
        tables = inspect(connection)
        is_ours = tables.has_table(info.name)
        # A server's database may be shared with other programs; a file is one program's.
        if not is_ours and (self.file is None or not tables.get_table_names()):
            return False
        if not is_ours:
            raise LedgerError(f"{self._where} is not a ledger", hint="check --ledger and RUNNER_LEDGER")
        version = read_info(connection, _VERSION)
        if version != str(SCHEMA_VERSION):
            raise LedgerError(
                f"{self._where} was written by another version of runner "
                f"(schema {version}, this one knows {SCHEMA_VERSION})",
                hint=f"use that version; or {REFILL_HINT}",
            )
        return True

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
    insert_missing(connection, absorbed, [{"name": name} for name in names])


def find_absorbed(connection: Connection, names: Iterable[str]) -> set[str]:
    """Return those of some names that were given to `note_absorbed`."""
    query = select(absorbed.c.name)
    return {
        name
        for group in divide(names)
        for name in connection.execute(query.where(absorbed.c.name.in_(group))).scalars()
    }


def exclude_others(connection: Connection) -> None:
    """Make other transactions that call this wait for the end of this one.

    SQLite has a single writer anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_ENTERING)))
