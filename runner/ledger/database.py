"""Opens the ledger: an SQL database that keeps what it has committed, whatever crashes."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import Column, Connection, Table, func, insert, inspect, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DatabaseError
from sqlalchemy.schema import CreateColumn

from runner.errors import LedgerError
from runner.ledger.engine import (
    POOLER_HINT,
    SQLITE_READING,
    find_sqlite_file,
    hint_for,
    open_engine,
    parse_url,
)
from runner.ledger.tables import PARTITIONED, PARTITIONS, info, metadata
from runner.ledger.versions import (
    COLUMNS_SINCE,
    FILLED_SINCE,
    RELAXED_SINCE,
    SCHEMA_VERSION,
    TABLES_SINCE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_VERSION = "schema_version"
_ENTERING = int.from_bytes(b"runner's")
"""The number of the advisory lock under which tables and campaigns are entered: 64 bits, any will do."""


class Ledger:
    """The open ledger. Use it as a context manager.

    Args:
        url: a database URL; `sqlite:///` and a path for SQLite, `postgresql://…` for PostgreSQL.

    Attributes:
        file: where an SQLite ledger is; None if it is on a server.

    Raises:
        LedgerError: the URL cannot be used, or the file cannot be created.
    """

    def __init__(self, url: str) -> None:
        self._engine = open_engine(url)
        self._where = show_url(url)
        self.file: Path | None = find_sqlite_file(url)
        self._standing: Connection | None = None
        self._standing_turn = threading.Lock()

    @classmethod
    def exists(cls, url: str) -> bool:
        """Return whether there is a ledger at `url`; a server is taken to have one.

        Raises:
            LedgerError: the URL cannot be used.
        """
        file = find_sqlite_file(url)
        return file is None or file.exists()

    def prepare(self) -> None:
        """Create the tables that are missing, all or nothing.

        Raises:
            LedgerError: the database cannot be used, is another program's, or was written by a newer version.
        """
        with self.writing() as connection:
            exclude_others(connection)
            if _is_blank(connection):
                self._create_tables(connection)
            else:
                self._add_tables(connection)

    def is_blank(self) -> bool:
        """Return whether nothing has been entered yet: a run that made the file may have been killed.

        Raises:
            LedgerError: the database cannot be read.
        """
        with self.reading() as connection:
            return _is_blank(connection)

    def is_older(self) -> bool:
        """Return whether an older version wrote it: it lacks tables until it is prepared.

        Raises:
            LedgerError: it is not a ledger, or was written by a newer version.
        """
        with self.reading() as connection:
            return self._read_version(connection) < SCHEMA_VERSION

    def check_version(self) -> None:
        """Refuse a ledger that this version cannot read.

        Raises:
            LedgerError: it is not a ledger, or was written by a newer version.
        """
        with self.reading() as connection:
            self._read_version(connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection whose work is committed, durably, when the block ends without an error.

        Raises:
            LedgerError: it could not be committed; nothing of the block is kept.
        """
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self, snapshot: str | None = None) -> Iterator[Connection]:
        """Yield a connection that only reads, one snapshot for the whole block.

        Args:
            snapshot: what to see: that of another transaction, which has shared it (`share_snapshot`).

        Raises:
            LedgerError: the database cannot be read.
        """
        with self._translated(), self._engine.connect() as connection:
            if self.file is not None:
                yield connection.execution_options(**SQLITE_READING)
            else:
                # A transaction, too: rows come in portions only within one.
                reading = connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
                if snapshot is not None:
                    reading.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
                yield reading

    @contextmanager
    def standing(self) -> Iterator[Connection]:
        """Yield a connection in no transaction, the same each time: for what lasts as long as it does.

        One that was lost is replaced by another. Threads have it one after the other.

        Raises:
            LedgerError: the database cannot be reached, or keeps no sessions.
        """
        with self._standing_turn, self._translated():
            if self._standing is None:
                self._standing = self._open_standing()
            try:
                yield self._standing
            finally:
                self._standing.rollback()

    def _open_standing(self) -> Connection:
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if self.file is None and self._is_pooled(connection):
            connection.close()
            raise LedgerError(
                f"the ledger {self._where} is behind a connection pooler that keeps no sessions, and so "
                "would lose the lock that keeps two runs apart",
                hint=POOLER_HINT,
            )
        return connection

    def _is_pooled(self, standing: Connection) -> bool:
        """Return whether a connection in no transaction has no session of the server to itself."""
        query = select(func.pg_backend_pid())
        session = standing.execute(query).scalar()
        with self._engine.connect() as other:
            # The other one is in a transaction, and keeps the session that it was lent. First whether that is
            # the same: a pooler that has one session alone would have the last question wait for it.
            return bool(
                other.execute(query).scalar() == session or standing.execute(query).scalar() != session
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            # The first line alone: those after it can quote the row.
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
        # A table of the same name is somebody else's: it must not be taken for ours.
        metadata.create_all(connection, checkfirst=False)
        if self.file is None:
            _create_partitions(connection)
        connection.execute(insert(info).values(name=_VERSION, value=str(SCHEMA_VERSION)))

    def _add_tables(self, connection: Connection) -> None:
        version = self._read_version(connection)
        if version < SCHEMA_VERSION:
            missing = [table for since, tables in TABLES_SINCE.items() if since > version for table in tables]
            metadata.create_all(connection, tables=missing, checkfirst=False)
            for column in (
                column for since, new in COLUMNS_SINCE.items() if since > version for column in new
            ):
                _add_column(connection, column)
            for table in (table for since, new in RELAXED_SINCE.items() if since > version for table in new):
                _relax_table(connection, table)
            for statement in (each for since, new in FILLED_SINCE.items() if since > version for each in new):
                connection.execute(statement)
            raised = update(info).where(info.c.name == _VERSION).values(value=str(SCHEMA_VERSION))
            connection.execute(raised)

    def _read_version(self, connection: Connection) -> int:
        if not inspect(connection).has_table(info.name):
            raise LedgerError(f"{self._where} is not a ledger", hint="check --ledger and RUNNER_LEDGER")
        version = connection.execute(select(info.c.value).where(info.c.name == _VERSION)).scalar()
        try:
            number = int(version or "")
        except ValueError:
            raise LedgerError(
                f"{self._where} does not say in which version it was written",
                hint="put back a copy of it, or move it away: a new one is filled from the lockfiles",
            ) from None
        if number > SCHEMA_VERSION:
            raise LedgerError(
                f"{self._where} was written by a newer version of runner "
                f"(schema {number}, this one knows {SCHEMA_VERSION})",
                hint="update runner on this machine",
            )
        return number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._standing is not None:
            self._standing.close()
        self._engine.dispose()


def _create_partitions(connection: Connection) -> None:
    for table in PARTITIONED:
        for number in range(PARTITIONS):
            connection.exec_driver_sql(
                f"CREATE TABLE {table.name}_{number} PARTITION OF {table.name} "
                f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
            )


def _add_column(connection: Connection, column: Column[Any]) -> None:
    # Only of columns that all rows can have the default of; SQLAlchemy itself alters no tables.
    written = CreateColumn(column).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {column.table.name} ADD COLUMN {written}")
    for index in column.table.indexes:
        if column in index.columns.values():
            index.create(connection)


def _relax_table(connection: Connection, table: Table) -> None:
    """Let the columns of a table be null that may be; one that no other table refers to."""
    if connection.dialect.name == "postgresql":
        for column in table.c:
            if column.nullable:
                connection.exec_driver_sql(
                    f"ALTER TABLE {table.name} ALTER COLUMN {column.name} DROP NOT NULL"
                )
        return
    # SQLite alters no column: its manual has the rows copied into a new table ("ALTER TABLE", 7).
    names = ", ".join(column.name for column in table.c)
    connection.exec_driver_sql(f"ALTER TABLE {table.name} RENAME TO {table.name}_before")
    table.create(connection)
    connection.exec_driver_sql(
        f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {table.name}_before"  # noqa: S608  our names
    )
    connection.exec_driver_sql(f"DROP TABLE {table.name}_before")


def show_url(url: str) -> str:
    """Return a ledger's URL without its password.

    Raises:
        LedgerError: it is no URL.
    """
    parsed = parse_url(url)
    secret = [name for name in parsed.query if "password" in name]
    return parsed.difference_update_query(secret).render_as_string(hide_password=True)


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insert that can say what happens when the row is there already."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def exclude_others(connection: Connection) -> None:
    """Make other transactions that call this wait for the end of this one, and then see what it did.

    SQLite has one writer at a time anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_ENTERING)))


def _is_blank(connection: Connection) -> bool:
    tables = inspect(connection)
    # A server's database may be shared with other programs; a file is one program's.
    is_file = connection.dialect.name == "sqlite"
    return not (tables.get_table_names() if is_file else tables.has_table(info.name))
