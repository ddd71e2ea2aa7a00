"""Ledgers as older versions of the program left them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import update

from runner.ledger.tables import info, list_columns_since, list_tables_since

if TYPE_CHECKING:
    from sqlalchemy import Connection


def take_back(connection: Connection, version: int) -> None:
    """Make a ledger's tables those of an older version."""
    for column in list_columns_since(version):
        for index in [one for one in column.table.indexes if column in one.columns.values()]:
            connection.exec_driver_sql(f"DROP INDEX {index.name}")
        connection.exec_driver_sql(f"ALTER TABLE {column.table.name} DROP COLUMN {column.name}")
    for table in reversed(list_tables_since(version)):
        table.drop(connection)
    connection.execute(update(info).where(info.c.name == "schema_version").values(value=str(version)))
