"""A copy of a ledger in another database, from SQLite or PostgreSQL to either of them."""

from __future__ import annotations

from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Insert, Table, delete, false, func, insert, select

from runner.errors import LedgerError
from runner.ledger.bulk import BulkStatement
from runner.ledger.database import exclude_others
from runner.ledger.results.result_feed import renew_edition
from runner.ledger.tables import info, locks, metadata

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from runner.ledger.database import Ledger

_GROUP = 5_000
# Locks are left out: they belong to runs with the other ledger.
_TABLES = [table for table in metadata.sorted_tables if table is not locks]


def copy_ledger(source: Ledger, ledger: Ledger) -> dict[str, int]:
    """Fill an empty ledger with all rows of another one as of one moment, all or nothing.

    Returns the number of rows of each table.

    Raises:
        LedgerError: the ledger is not empty, the other one has another schema, or either cannot be used.
    """
    inserts = {table: BulkStatement(partial(_insert, table), list(table.c.keys())) for table in _TABLES}
    counts = dict.fromkeys(metadata.tables.keys() - {locks.name}, 0)
    with ledger.writing() as connection, closing(_iterate_rows(source)) as groups:
        exclude_others(connection)
        _require_empty(connection)
        connection.execute(delete(info))
        for table, rows in groups:
            counts[table.name] += inserts[table].run(connection, rows)
        _set_sequences(connection)
        # Reports' copies belong to the other ledger, whose results may differ from now on.
        renew_edition(connection)
    return counts


@contextmanager
def naming_source() -> Iterator[None]:
    """Have the hints of errors mean the ledger to copy: others are for a command's own ledger."""
    try:
        yield
    except LedgerError as error:
        hint = "check --from, which names the ledger to copy; if that is damaged, put back a backup of it"
        raise LedgerError(error.message, hint=hint) from None


def _iterate_rows(source: Ledger) -> Generator[tuple[Table, list[dict[str, Any]]]]:
    # A generator, so that an error of the source is not taken for one of the new ledger.
    with naming_source(), source.reading() as connection:
        for table in _TABLES:
            query = select(table).execution_options(yield_per=_GROUP)
            with connection.execute(query) as found:
                for rows in found.mappings().partitions():
                    yield table, [dict(row) for row in rows]


def _insert(table: Table, _connection: Connection) -> Insert:
    return insert(table)


def _require_empty(connection: Connection) -> None:
    for table in _TABLES:
        if table is not info and connection.execute(select(table).limit(1)).first() is not None:
            raise LedgerError(
                "the ledger is not empty",
                hint="a copy fills an empty ledger: name a new one with --ledger or RUNNER_LEDGER",
            )


def _set_sequences(connection: Connection) -> None:
    """Let a server's sequences go on after the numbers in use."""
    if connection.dialect.name != "postgresql":
        return
    for table in _TABLES:
        if (column := table.autoincrement_column) is not None:
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            following = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
            connection.execute(select(func.setval(sequence, following, false())))
