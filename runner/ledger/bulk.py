"""Statements for very many rows: compiled once, then handed to the driver; and lookups of very many values.

SQLAlchemy's own work for each row costs several times that of the database.

A lookup on PostgreSQL takes its values as one array, and finds the rows of each by an index. So it costs what
its values cost, whatever the server's statistics say of a large ledger right after a send.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import ARRAY, String, bindparam, collate, func, select, true

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from sqlalchemy import Column, Connection, Delete, Insert, Row, Select, Update


_Item = TypeVar("_Item")
_BY_NAME = ("named", "pyformat")
_SERVER = "postgresql"
_STEP = 128
"""Rows that SQLite inserts in one step."""
_LOOKED_UP = 10_000
"""The number of values in one lookup on PostgreSQL: some hundred KiB, and less than a second."""

# Without statistics, as right after a send, the server would go through a whole table for each row.
_SET = (
    "SELECT set_config(name, %(setting)s, true) "
    "FROM unnest('{enable_hashjoin,enable_mergejoin,enable_seqscan}'::text[]) AS ours (name)"
)


def divide(items: Iterable[_Item], size: int = 1000) -> Iterator[list[_Item]]:
    """Yield items in lists of at most `size`, for one statement each."""
    waiting = iter(items)
    while group := list(islice(waiting, size)):
        yield group


def iterate_rows(
    connection: Connection, query: Select[Any], by: Column[Any], values: Collection[Any]
) -> Iterator[Row[Any]]:
    """Yield the rows of a query with one of some values in the column `by`, in no order."""
    if connection.dialect.name == _SERVER:
        each = _look_up_each(query, by)
        # In order, neighbours of an index are read one after the other.
        for group in divide(sorted(set(values)), _LOOKED_UP):
            connection.exec_driver_sql(_SET, {"setting": "off"})
            found = connection.execute(each, {"asked": group})
            connection.exec_driver_sql(_SET, {"setting": "on"})
            yield from found
    else:
        for group in divide(dict.fromkeys(values)):
            yield from connection.execute(query.where(by.in_(group)))


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

    SQLite inserts many rows in one step. The driver lets other threads go on with each step, and then waits
    until they let it go on in turn: beside busy threads that takes longer than the step.

    Args:
        compose: makes the statement for the database of a connection.
        columns: the columns that an insert fills, in the table's order; None if the statement names its own
            parameters.
    """

    def __init__(
        self, compose: Callable[[Connection], Insert | Update | Delete], columns: list[str] | None = None
    ) -> None:
        self._compose = compose
        self._columns = columns
        self._texts: dict[str, str] = {}
        self._steps: dict[int, str] = {}

    def run(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
        """Run the statement for each row (at least one), and return the number of changed rows.

        Rows have values by parameter name, of types that the driver takes unconverted.
        """
        if self._columns is not None and connection.dialect.name != _SERVER:
            return self.insert(connection, [[row[name] for name in self._columns] for row in rows])
        text = self._texts.get(connection.dialect.name)
        if text is None:
            text = self._texts[connection.dialect.name] = self._write(connection)
        # psycopg counts many rows only on request.
        return connection.exec_driver_sql(text, list(rows), {"preserve_rowcount": True}).rowcount

    def insert(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> int:
        """Insert rows of values in the order of the columns, as `run` does."""
        if connection.dialect.name == _SERVER:
            columns = self._columns or ()
            return self.run(connection, [dict(zip(columns, row, strict=True)) for row in rows])
        count = start = 0
        while start < len(rows):
            # In a few sizes, so that the driver keeps the prepared statements.
            size = min(_STEP, 1 << (len(rows) - start).bit_length() - 1)
            if size not in self._steps:
                self._steps[size] = self._write_step(connection, size)
            values = tuple(chain.from_iterable(rows[start : start + size]))
            count += connection.exec_driver_sql(self._steps[size], values).rowcount
            start += size
        return count

    def _write(self, connection: Connection) -> str:
        dialect = connection.dialect
        if dialect.paramstyle not in _BY_NAME:
            kind: Any = type(dialect)
            dialect = kind(paramstyle="named")
        return str(self._compose(connection).compile(dialect=dialect, column_keys=self._columns))

    def _write_step(self, connection: Connection, size: int) -> str:
        kind: Any = type(connection.dialect)
        statement = self._compose(connection)
        compiled = statement.compile(dialect=kind(paramstyle="qmark"), column_keys=self._columns)
        one = f"({', '.join('?' * len(compiled.positiontup or ()))})"
        return str(compiled).replace(one, ", ".join([one] * size), 1)
