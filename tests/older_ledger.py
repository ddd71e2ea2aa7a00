"""Ledgers as older versions of the program left them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import update

from runner.ledger.tables import info
from runner.ledger.versions import COLUMNS_SINCE, TABLES_SINCE

if TYPE_CHECKING:
    from sqlalchemy import Connection


def take_back(connection: Connection, version: int) -> None:
    """Make a ledger's tables those of an older version."""
    for since in sorted((since for since in TABLES_SINCE if since > version), reverse=True):
        for table in reversed(TABLES_SINCE[since]):
            table.drop(connection)
        for column in COLUMNS_SINCE.get(since, ()):
            for index in [one for one in column.table.indexes if column in one.columns.values()]:
                connection.exec_driver_sql(f"DROP INDEX {index.name}")
            connection.exec_driver_sql(f"ALTER TABLE {column.table.name} DROP COLUMN {column.name}")
    connection.execute(update(info).where(info.c.name == "schema_version").values(value=str(version)))
