"""Opens the ledger: an SQL database that keeps what it has committed, whatever crashes."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, insert, inspect, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, OperationalError

from runner.errors import LedgerError
from runner.ledger.tables import SCHEMA_VERSION, info, metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUSY_TIMEOUT_S = 30
_VERSION = "schema_version"


class Ledger:
    """The open ledger. Use it as a context manager.

    Args:
        url: a database URL; `sqlite:///` and a path for SQLite.
    """

    def __init__(self, url: str) -> None:
        self._engine = _create_engine(url)
        self._where = show_url(url)

    @classmethod
    def exists(cls, url: str) -> bool:
        """Return whether there is a ledger at `url`; a server is taken to have one.

        Raises:
            LedgerError: the URL cannot be used.
        """
        file = _sqlite_file(url)
        return file is None or file.exists()

    def prepare(self) -> None:
        """Create the tables in a database that has none, all or nothing.

        Raises:
            LedgerError: the database cannot be used, is another program's, or was written by a newer version.
        """
        with self.writing() as connection:
            if _is_blank(connection):
                metadata.create_all(connection)
                connection.execute(insert(info).values(name=_VERSION, value=str(SCHEMA_VERSION)))
        self.check_version()

    def is_blank(self) -> bool:
        """Return whether nothing has been entered yet: a run that made the file may have been killed.

        Raises:
            LedgerError: the database cannot be read.
        """
        with self.reading() as connection:
            return _is_blank(connection)

    def check_version(self) -> None:
        """Refuse a ledger that this version cannot read.

        Raises:
            LedgerError: it is not a ledger, or was written by a newer version.
        """
        with self.reading() as connection:
            if not inspect(connection).has_table(info.name):
                raise LedgerError(f"{self._where} is not a ledger", hint="check --ledger and RUNNER_LEDGER")
            version = connection.execute(select(info.c.value).where(info.c.name == _VERSION)).scalar()
        if version is None or int(version) > SCHEMA_VERSION:
            raise LedgerError(
                f"{self._where} was written by a newer version of runner "
                f"(schema {version}, this one knows {SCHEMA_VERSION})",
                hint="update runner on this machine",
            )

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection whose work is committed, durably, when the block ends without an error.

        Raises:
            LedgerError: it could not be committed; nothing of the block is kept.
        """
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that only reads.

        Raises:
            LedgerError: the database cannot be read.
        """
        with self._translated(), self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, DatabaseError) as error:
            raise LedgerError(
                f"the ledger {self._where} cannot be used: {error.orig}", hint=_hint_for(error)
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()


def show_url(url: str) -> str:
    """Return a ledger's URL without its password.

    Raises:
        LedgerError: it is no URL.
    """
    return _parse_url(url).render_as_string(hide_password=True)


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insert that can say what happens when the row is there already."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def _is_blank(connection: Connection) -> bool:
    tables = inspect(connection)
    # A server's database may be shared with other programs; a file is one program's.
    is_file = connection.dialect.name == "sqlite"
    return not (tables.get_table_names() if is_file else tables.has_table(info.name))


def _hint_for(error: DatabaseError) -> str | None:
    text = str(error.orig)
    if "full" in text:
        return "make room on the disk, then run the same command again: nothing was sent that is not recorded"
    if "disk I/O" in text:
        return "check the disk and its quota, then run the same command again: nothing was sent unrecorded"
    if "locked" in text:
        return "another run is using it; try again when that has ended"
    if "readonly" in text or "unable to open" in text:
        return "check that this user may write to the file and its folder"
    if "malformed" in text or "not a database" in text:
        return "move it away and run again: the ledger is filled from the lockfiles"
    return None


def _sqlite_file(url: str) -> Path | None:
    parsed = _parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    if parsed.database in (None, "", ":memory:"):
        raise LedgerError(
            f"the ledger {url} would be forgotten when this command ends",
            hint="name a file, as in sqlite:///path/to/ledger.sqlite",
        )
    return Path(parsed.database)


def _parse_url(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise _unusable_url() from None


def _create_engine(url: str) -> Engine:
    file = _sqlite_file(url)
    if file is not None:
        _create_private_file(file)
    try:
        engine = create_engine(url, connect_args={} if file is None else {"timeout": _BUSY_TIMEOUT_S})
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError):
        raise _unusable_url() from None
    if file is not None:
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_immediately)
    return engine


def _unusable_url() -> LedgerError:
    return LedgerError(
        "the ledger's URL is not one that can be used here",
        hint="as in sqlite:///path/to/ledger.sqlite, or postgresql+psycopg://…",
    )


def _create_private_file(file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError as error:
        raise LedgerError(
            f"the ledger {file} cannot be opened: {error.strerror}",
            hint="check that this user may write there, or name another place with --ledger",
        ) from None


def _configure_sqlite(connection: Any, _record: object) -> None:
    # Transactions are begun below, not by the driver at the first write.
    connection.isolation_level = None
    # FULL: a commit is on the disk before it returns, or the promise would not outlive a power loss.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_immediately(connection: Connection) -> None:
    # A transaction that turns from reading to writing can fail half-way; this one waits at its start.
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
