"""Statements that run for very many rows: composed once, then handed to the driver as they are.

SQLAlchemy composes them, for either database. What it does besides for each row of each execution costs
several times what the database itself does with the row (design: performance). An insert of many rows into
PostgreSQL goes through COPY: into a table of the session's own, and from there by one statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Insert, column, select, table
from sqlalchemy.exc import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Delete, Update

_BY_NAME = ("named", "pyformat")
_SERVER = "postgresql"
COPIED_FROM = 200
"""From how many rows on COPY pays: below, making way for it costs more than it saves."""


class BulkStatement:
    """A statement that is run for rows of one shape.

    Args:
        compose: makes it; is given a connection of the database that it is for.
        columns: the columns that an insert fills; each row has a value for each. None if the statement
            names its parameters itself.
        winner: of an insert that may be copied: which of the rows of one primary key counts, as it would if
            they came one by one. None if it may not.
    """

    def __init__(
        self,
        compose: Callable[[Connection], Insert | Update | Delete],
        columns: Sequence[str] | None = None,
        winner: Literal["first", "last"] | None = None,
    ) -> None:
        self._compose = compose
        self._columns = columns
        self._winner = winner
        self._texts: dict[str, str] = {}
        self._copying: _Copying | None = None

    def run(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
        """Run the statement once for each row, and return how many rows of the table it has changed.

        Args:
            connection: in a transaction.
            rows: values by the names of the parameters, of types that the driver takes as they are; at
                least one.
        """
        if self._winner and len(rows) >= COPIED_FROM and connection.dialect.name == _SERVER:
            return self._copy(connection, rows)
        text = self._texts.get(connection.dialect.name)
        if text is None:
            text = self._texts[connection.dialect.name] = self._write(connection)
        # Counted on request: psycopg's count of many rows is dropped otherwise.
        return connection.exec_driver_sql(text, list(rows), {"preserve_rowcount": True}).rowcount

    def _write(self, connection: Connection) -> str:
        dialect = connection.dialect
        if dialect.paramstyle not in _BY_NAME:
            kind: Any = type(dialect)
            dialect = kind(paramstyle="named")
        return str(self._compose(connection).compile(dialect=dialect, column_keys=self._columns))

    def _copy(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
        if self._copying is None:
            statement = self._compose(connection)
            if not isinstance(statement, Insert) or self._columns is None:
                raise TypeError("only rows of an insert can be copied")
            self._copying = _Copying(connection, statement, self._columns)
        return self._copying.run(connection, rows, keeps_last=self._winner == "last")


class _Copying:
    """An insert on PostgreSQL, of rows that are copied into a table of the session's own first."""

    def __init__(self, connection: Connection, statement: Insert, columns: Sequence[str]) -> None:
        target: Any = statement.table
        way = f"copied_{target.name}"
        self._columns = columns
        self._key = [one.name for one in target.primary_key]
        self._make_way = (
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {way} (LIKE {target.name}) ON COMMIT DELETE ROWS"
        )
        names = ", ".join(connection.dialect.identifier_preparer.quote(name) for name in columns)
        self._load = f"COPY pg_temp.{way} ({names}) FROM STDIN"
        origin = table(way, *(column(name) for name in columns), schema="pg_temp")
        moved = statement.from_select(list(columns), select(origin), include_defaults=False)
        self._move = str(moved.compile(dialect=connection.dialect))
        self._clear = f"TRUNCATE pg_temp.{way}"

    def run(self, connection: Connection, rows: Sequence[dict[str, Any]], *, keeps_last: bool) -> int:
        # One statement cannot change a row twice.
        ordered = rows if keeps_last else reversed(rows)
        chosen = {tuple(row[name] for name in self._key): row for row in ordered}
        connection.exec_driver_sql(self._make_way)
        driver = connection.connection.driver_connection
        if driver is None:
            raise TypeError("the connection is closed")
        try:
            with driver.cursor() as cursor, cursor.copy(self._load) as copy:
                for row in chosen.values():
                    copy.write_row([row[name] for name in self._columns])
        except connection.dialect.loaded_dbapi.Error as error:
            raise DatabaseError(self._load, None, error) from None
        count = connection.exec_driver_sql(self._move, None, {"preserve_rowcount": True}).rowcount
        connection.exec_driver_sql(self._clear)
        return count
