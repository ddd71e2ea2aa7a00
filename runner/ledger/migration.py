"""Migration of a ledger's tables from the schema of an earlier version, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import column as name_column
from sqlalchemy import insert, inspect, select
from sqlalchemy import table as name_table
from sqlalchemy.schema import CreateColumn

from runner.ledger.tables import deliveries, launches

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

MIGRATED = "1"
"""The earlier schema that can be migrated: a message went to a person once, without occasions."""
_BEFORE = "deliveries_before"


def migrate(connection: Connection) -> None:
    """Add occasions to launches and deliveries: those on record have the empty one."""
    _add_occasion(connection, launches)
    if connection.dialect.name == "postgresql":
        _add_occasion(connection, deliveries)
        key = inspect(connection).get_pk_constraint(deliveries.name)["name"]
        names = ", ".join(column.name for column in deliveries.primary_key)
        connection.exec_driver_sql(
            f'ALTER TABLE {deliveries.name} DROP CONSTRAINT "{key}", ADD PRIMARY KEY ({names})'
        )
        return
    # SQLite changes no primary key: the rows move to a new table.
    for index in deliveries.indexes:
        index.drop(connection)
    connection.exec_driver_sql(f"ALTER TABLE {deliveries.name} RENAME TO {_BEFORE}")
    deliveries.create(connection)
    kept = [column.name for column in deliveries.columns if column is not deliveries.c.occasion]
    before = name_table(_BEFORE, *map(name_column, kept))
    connection.execute(insert(deliveries).from_select(kept, select(before)))
    connection.exec_driver_sql(f"DROP TABLE {_BEFORE}")


def _add_occasion(connection: Connection, table: Table) -> None:
    column = CreateColumn(table.c.occasion).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {column}")
