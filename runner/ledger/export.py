"""Writes the ledger, or some campaigns of it, to a folder of Parquet files: a backup, and for analysis."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Boolean, Connection, Integer, Select, Table, inspect, select

from runner.errors import LedgerError
from runner.ledger.draft import sync_folder
from runner.ledger.export_manifest import MANIFEST, Export, ExportFile, digest_file, dump_manifest
from runner.ledger.parquet_files import ROWS_A_FILE, ParquetWriter
from runner.ledger.tables import campaigns, info, launches, metadata
from runner.ledger.versions import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from runner.ledger.database import Ledger

OF_RUNS = {"locks", "partition_leases", "cluster_terms", "cluster_runs"}
"""The tables of what is running: nothing of it outlives the ledger."""
_PORTION = 5_000


def export_ledger(
    ledger: Ledger,
    folder: Path,
    at: str,
    campaign_ids: Collection[int] | None = None,
    *,
    rows_a_file: int = ROWS_A_FILE,
) -> Export:
    """Write the ledger as of one moment to a new folder, whole or not at all.

    Args:
        ledger: open.
        folder: must not be there, or be empty; nobody but this user can read it then: answers are in it.
        at: UTC, ISO 8601.
        campaign_ids: the ledger's numbers of the campaigns that are wanted; None for all that is in it.
        rows_a_file: at most.

    Returns:
        What was written.

    Raises:
        LedgerError: there is something in the folder, it cannot be written, or the ledger cannot be read.
    """
    with _drafting(folder) as draft, ledger.reading() as connection:
        export = _describe(connection, at, campaign_ids)
        for table in _list_tables(connection):
            export.tables[table.name] = _write_table(connection, table, draft, campaign_ids, rows_a_file)
        (draft / MANIFEST).write_text(dump_manifest(export), encoding="utf-8")
        (draft / MANIFEST).chmod(0o600)
    return export


def list_tables() -> list[Table]:
    """Return the tables of an export, in an order in which they can be filled."""
    return [table for table in metadata.sorted_tables if table.name not in OF_RUNS]


def _list_tables(connection: Connection) -> list[Table]:
    # A ledger of an older version that is only read lacks some.
    present = inspect(connection)
    return [table for table in list_tables() if present.has_table(table.name)]


def _describe(connection: Connection, at: str, campaign_ids: Collection[int] | None) -> Export:
    query = select(campaigns.c.target, campaigns.c.name).order_by(campaigns.c.target, campaigns.c.name)
    if campaign_ids is not None:
        query = query.where(campaigns.c.id.in_(campaign_ids))
    version = connection.execute(select(info.c.value).where(info.c.name == "schema_version")).scalar()
    found = tuple((row.target, row.name) for row in connection.execute(query))
    return Export(at, int(version or SCHEMA_VERSION), found, is_whole=campaign_ids is None)


def _write_table(
    connection: Connection,
    table: Table,
    folder: Path,
    campaign_ids: Collection[int] | None,
    rows_a_file: int,
) -> tuple[ExportFile, ...]:
    present = {column["name"] for column in inspect(connection).get_columns(table.name)}
    columns = [column for column in table.c if column.name in present]
    query = _choose(select(*columns), table, campaign_ids)
    types = {column.name: _name_type(column.type) for column in columns}
    with ParquetWriter(folder, table.name, types, rows_a_file) as writer:
        rows = connection.execute(query.execution_options(yield_per=_PORTION))
        for portion in rows.partitions():
            writer.add(portion)
    return tuple(ExportFile(name, count, digest_file(folder / name)) for name, count in writer.files)


def _choose(query: Select[Any], table: Table, campaign_ids: Collection[int] | None) -> Select[Any]:
    """Return a query of the rows of chosen campaigns; of what is of no campaign, all rows."""
    if campaign_ids is None:
        return query
    if table is campaigns:
        return query.where(campaigns.c.id.in_(campaign_ids))
    if "campaign_id" in table.c:
        return query.where(table.c.campaign_id.in_(campaign_ids))
    if "launch_id" in table.c:
        theirs = select(launches.c.id).where(launches.c.campaign_id.in_(campaign_ids))
        return query.where(table.c.launch_id.in_(theirs))
    return query


def _name_type(kind: Any) -> str:
    if isinstance(kind, Boolean):
        return "BOOLEAN"
    return "BIGINT" if isinstance(kind, Integer) else "VARCHAR"


@contextmanager
def _drafting(folder: Path) -> Iterator[Path]:
    """Yield a folder beside another; it takes its name when the block ends without an error."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise LedgerError(
                f"there is something in {folder} already", hint="name a folder that is not there yet"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
        try:
            yield draft
            shutil.rmtree(draft / ".spill", ignore_errors=True)
            _sync(draft)
            draft.replace(folder)
            sync_folder(folder.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise LedgerError(
            f"the export {folder} cannot be written: {error.strerror}",
            hint="make room on the disk, and check that this user may write there",
        ) from None


def _sync(folder: Path) -> None:
    for file in folder.iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_folder(folder)
