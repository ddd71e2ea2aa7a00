"""Statements that run for very many rows: composed once, then handed to the driver as they are.

SQLAlchemy composes them, for either database. What it does besides for each row of each execution costs
several times what the database itself does with the row (design: performance).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Delete, Insert, Update

_BY_NAME = ("named", "pyformat")


class BulkStatement:
    """A statement that is run for rows of one shape.

    Args:
        compose: makes it; is given a connection of the database that it is for.
        columns: the columns that an insert fills; each row has a value for each. None if the statement
            names its parameters itself.
    """

    def __init__(
        self,
        compose: Callable[[Connection], Insert | Update | Delete],
        columns: Sequence[str] | None = None,
    ) -> None:
        self._compose = compose
        self._columns = columns
        self._texts: dict[str, str] = {}

    def run(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
        """Run the statement once for each row, and return how many rows of the table it has changed.

        Args:
            connection: in a transaction.
            rows: values by the names of the parameters, of types that the driver takes as they are; at
                least one.
        """
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
