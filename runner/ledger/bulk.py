"""Statements for very many rows: compiled once, then handed to the driver; and lookups of very many values.

SQLAlchemy's own work for each row costs several times that of the database. On PostgreSQL an insert of many
rows goes through COPY into a temporary table, and from there by one statement.

A lookup on PostgreSQL takes its values as one array, and finds the rows of each by the indexes of one part of
a table. So it costs what its values cost, however large the ledger is, and whatever the server's statistics
say of it right after a send. A temporary table is not faster, needs a transaction that writes, and would
bloat the server's catalogs.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sqlalchemy import ARRAY, Insert, String, bindparam, collate, column, func, select, table, true
from sqlalchemy.exc import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from sqlalchemy import Column, Connection, Delete, Row, Select, Update

_Item = TypeVar("_Item")
_BY_NAME = ("named", "pyformat")
_SERVER = "postgresql"
COPIED_FROM = 200
"""The number of rows for which COPY is faster, including its temporary table."""
_LOOKED_UP = 10_000
"""The number of values in one lookup on PostgreSQL: some hundred KiB, and less than a second."""

_SET = "SELECT set_config(name, %(setting)s, true) FROM unnest(%(names)s::text[]) AS ours (name)"
"""Sets a server's settings for the transaction."""
# Without statistics, as right after a send, the server would go through a whole table for each row.
_OF_SETS = ["enable_hashjoin", "enable_mergejoin", "enable_seqscan"]
_OF_LOOPS = ["enable_nestloop"]


def divide(items: Iterable[_Item], size: int = 1000) -> Iterator[list[_Item]]:
    """Yield items in lists of at most `size`, for one statement each."""
    waiting = iter(items)
    while group := list(islice(waiting, size)):
        yield group


def iterate_rows(
    connection: Connection, query: Select[Any], by: Column[Any], values: Collection[Any] | None
) -> Iterator[Row[Any]]:
    """Yield the rows of a query; unless `values` is None, those with one of them in the column `by`.

    The rows of values come in no order.
    """
    is_server = connection.dialect.name == _SERVER
    if values is None:
        yield from _execute_without(connection, _OF_LOOPS, query) if is_server else connection.execute(query)
    elif is_server:
        each = _look_up_each(query, by)
        # In order, neighbours of an index are read one after the other.
        for group in divide(sorted(set(values)), _LOOKED_UP):
            yield from _execute_without(connection, _OF_SETS, each, {"asked": group})
    else:
        for group in divide(dict.fromkeys(values)):
            yield from connection.execute(query.where(by.in_(group)))


def _execute_without(
    connection: Connection, joins: list[str], query: Select[Any], values: dict[str, Any] | None = None
) -> Iterable[Row[Any]]:
    """Run a query for which PostgreSQL makes no use of some ways to join."""
    connection.exec_driver_sql(_SET, {"names": joins, "setting": "off"})
    found = connection.execute(query, values)
    connection.exec_driver_sql(_SET, {"names": joins, "setting": "on"})
    return found


def _look_up_each(query: Select[Any], by: Column[Any]) -> Select[Any]:
    """Return the query of PostgreSQL that runs `query` for each value of the array `asked`."""
    is_text = isinstance(by.type, String)
    array = bindparam("asked", type_=ARRAY(String() if is_text else by.type))
    asked = func.unnest(array).table_valued("value").render_derived(name="asked")
    value = collate(asked.c.value, "C") if is_text else asked.c.value
    # OFFSET keeps the server from joining whole tables instead.
    found = query.where(by == value).offset(0).lateral("found")
    return select(found).select_from(asked.join(found, true()))


class BulkStatement:
    """A statement that is run for rows of one shape.

    Args:
        compose: makes the statement for the database of a connection.
        columns: the columns that an insert fills; None if the statement names its own parameters.
        winner: chooses among rows with one primary key, if an insert may go through COPY; else None.
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
        """Run the statement for each row (at least one), and return the number of changed rows.

        Rows have values by parameter name, of types that the driver takes unconverted.
        """
        if self._winner and len(rows) >= COPIED_FROM and connection.dialect.name == _SERVER:
            return self._copy(connection, rows)
        text = self._texts.get(connection.dialect.name)
        if text is None:
            text = self._texts[connection.dialect.name] = self._write(connection)
        # psycopg counts many rows only on request.
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
    """An insert on PostgreSQL of rows that are first copied into a temporary table."""

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
