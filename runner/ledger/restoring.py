"""Fills an empty ledger from an export: on a new server, or instead of one that was lost."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Insert, Table, false, func, select

from runner.errors import LedgerError
from runner.ledger.bulk import BulkStatement
from runner.ledger.database import exclude_others, insert_into
from runner.ledger.export import list_tables
from runner.ledger.export_manifest import Export, read_export
from runner.ledger.parquet_files import iterate_rows
from runner.ledger.result_feed import renew_edition
from runner.ledger.tables import campaigns, info, launches
from runner.ledger.versions import COLUMNS_SINCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.ledger.database import Ledger

_NUMBERED = (campaigns, launches)
"""The tables whose numbers a server counts up by itself."""


def import_ledger(ledger: Ledger, folder: Path) -> Export:
    """Fill an empty ledger from an export, all or nothing.

    Args:
        ledger: open, with its tables.
        folder: the export.

    Returns:
        What was entered.

    Raises:
        LedgerError: the export is not whole and as it was written, or something is in the ledger.
    """
    export = read_export(folder)
    with ledger.writing() as connection:
        exclude_others(connection)
        for table in list_tables():
            if table is not info:
                _require_empty(connection, table)
            _fill(connection, table, export, folder)
        _count_on(connection)
        # Copies that reports were counted from are of another ledger.
        renew_edition(connection)
    return export


def _require_empty(connection: Connection, table: Table) -> None:
    if connection.execute(select(table).limit(1)).first() is not None:
        raise LedgerError(
            f"the ledger is not empty: there are {table.name.replace('_', ' ')} in it",
            hint="an export fills an empty ledger: name a new one with --ledger or RUNNER_LEDGER",
        )


def _fill(connection: Connection, table: Table, export: Export, folder: Path) -> None:
    # What an older version has written lacks columns, which all its rows have the default of.
    newer = [columns for version, columns in COLUMNS_SINCE.items() if version > export.schema_version]
    lacking = {column.name for column in chain.from_iterable(newer) if column.table is table}
    names = [column.name for column in table.c if column.name not in lacking]
    statement = BulkStatement(_compose_insert(table), names, winner="last")
    for file in export.tables.get(table.name, ()):
        for rows in iterate_rows(folder / file.name):
            statement.run(connection, rows)


def _compose_insert(table: Table) -> Callable[[Connection], Insert]:
    def compose(connection: Connection) -> Insert:
        inserted = insert_into(connection, table)
        # Which version of the tables it has, a ledger says of itself.
        return inserted.on_conflict_do_nothing() if table is info else inserted

    return compose


def _count_on(connection: Connection) -> None:
    """Have a server go on counting after the numbers that are taken."""
    if connection.dialect.name != "postgresql":
        return
    for table in _NUMBERED:
        sequence = func.pg_get_serial_sequence(table.name, table.c.id.name)
        most = select(func.coalesce(func.max(table.c.id), 0) + 1).scalar_subquery()
        connection.execute(select(func.setval(sequence, most, false())))
