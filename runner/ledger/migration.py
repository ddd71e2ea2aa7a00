"""Migration of a ledger's tables from the schema of an earlier version, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import column as name_column
from sqlalchemy import insert, inspect, select
from sqlalchemy import table as name_table
from sqlalchemy.schema import CreateColumn

from runner.ledger.tables import deliveries, launch_stats, launches

if TYPE_CHECKING:
    from sqlalchemy import Column, Connection

MIGRATED = ("1", "2")
"""Earlier schemas: in the first a message went to a person once, and in both launches had no countries."""
_BEFORE = "deliveries_before"


def migrate(connection: Connection, version: str) -> None:
    """Bring tables of an earlier version up to date."""
    for name in ("countries", "segments_least", "segments_most"):
        _add_column(connection, launch_stats.c[name])
    if version == MIGRATED[0]:
        _add_occasions(connection)


def _add_occasions(connection: Connection) -> None:
    """Add occasions to launches and deliveries: those on record have the empty one."""
    _add_column(connection, launches.c.occasion)
    if connection.dialect.name == "postgresql":
        _add_column(connection, deliveries.c.occasion)
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


def _add_column(connection: Connection, column: Column[Any]) -> None:
    written = CreateColumn(column).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {column.table.name} ADD COLUMN {written}")
