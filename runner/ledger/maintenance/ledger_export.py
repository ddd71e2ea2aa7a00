"""Exports of the ledger or of some campaigns: folders of Parquet files, for backups and analysis.

An export has the state of one moment, in a new folder; `manifest.json` is written last. It can be imported
into an empty ledger. DuckDB writes and reads the files, so that backups need no extra package; they have a
bounded number of rows, which bounds the memory.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import duckdb
from sqlalchemy import Boolean, Connection, Insert, Integer, Select, Table, false, func, inspect, select

from runner.errors import LedgerError, describe_fault
from runner.ledger.atomic_write import sync
from runner.ledger.bulk import BulkStatement
from runner.ledger.database import exclude_others, insert_into
from runner.ledger.results.result_feed import renew_edition
from runner.ledger.tables import SCHEMA_VERSION, campaigns, info, launches, metadata
from runner.version import EXPORT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from runner.ledger.database import Ledger


MANIFEST = "manifest.json"
_DIGEST_SIZE = 16
_CHUNK = 2**20
_ANEW = "export it again with `runner ledger export`, or take another copy"
OF_RUNS = {"locks", "launch_readings"}
"""The tables about active runs, which are left out."""
_NUMBERED = (campaigns, launches)
"""The tables with numbers from a server sequence."""
ROWS_A_FILE = 250_000
MEMORY_LIMIT = "1GB"
_PORTION = 5_000


@dataclass(frozen=True, slots=True)
class ExportFile:
    """One file of a table: its name, number of rows, and BLAKE2b-128 digest in hexadecimal."""

    name: str
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Export:
    """The manifest of an export of the ledger, or of some of its campaigns (not `is_whole`).

    `exported_at` is UTC, ISO 8601. `campaigns` has target and name, sorted; `tables`, the files by table, in
    an order of import.
    """

    exported_at: str
    schema_version: int
    campaigns: tuple[tuple[str, str], ...]
    is_whole: bool
    tables: dict[str, tuple[ExportFile, ...]] = field(default_factory=dict)

    def count(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        return {name: sum(file.rows for file in files) for name, files in self.tables.items()}


def digest_file(file: Path) -> str:
    """Return the BLAKE2b-128 digest of a file in hexadecimal."""
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def dump_manifest(export: Export) -> str:
    """Return the text of a manifest: JSON with sorted keys."""
    data = {"format_version": EXPORT_VERSION, **asdict(export)}
    return (
        json.dumps({**data, "checksum": _sum_up(data)}, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    )


def read_export(folder: Path) -> Export:
    """Return the manifest of an export, after checking that it is whole and unchanged.

    Raises:
        LedgerError: it isn't, or a newer version has written it.
    """
    data = _read_manifest(folder)
    tables = {name: tuple(ExportFile(**file) for file in files) for name, files in data.pop("tables").items()}
    campaigns = tuple((target, name) for target, name in data.pop("campaigns"))
    export = Export(**data, campaigns=campaigns, tables=tables)
    for file in _iterate_files(export):
        place = folder / file.name
        if not place.is_file():
            raise LedgerError(f"the export {folder} lacks the file {file.name}", hint=_ANEW)
        if digest_file(place) != file.digest:
            raise LedgerError(
                f"the export {folder} is damaged: {file.name} is not as it was written", hint=_ANEW
            )
    return export


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        checksum, version = data.pop("checksum"), data["format_version"]
        is_sound = _sum_up(data) == checksum
    except FileNotFoundError:
        raise LedgerError(
            f"{folder} is not an export of a ledger: it has no {MANIFEST}",
            hint="give the folder that `runner ledger export` has written",
        ) from None
    except (OSError, ValueError, LookupError, AttributeError):
        is_sound, version, data = False, EXPORT_VERSION, {}
    if not is_sound:
        raise LedgerError(f"the export {folder} is damaged: its {MANIFEST} was changed", hint=_ANEW)
    if version != EXPORT_VERSION or data["schema_version"] > SCHEMA_VERSION:
        raise LedgerError(
            f"the export {folder} was written by a newer version of runner", hint="update runner"
        )
    del data["format_version"]
    return dict(data)


def _iterate_files(export: Export) -> Iterator[ExportFile]:
    for files in export.tables.values():
        yield from files


def _sum_up(data: dict[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_SIZE).hexdigest()


def export_ledger(
    ledger: Ledger,
    folder: Path,
    at: str,
    campaign_ids: Collection[int] | None = None,
    *,
    rows_a_file: int = ROWS_A_FILE,
) -> Export:
    """Write the ledger as of one moment to a new or empty folder, all or nothing, and return the manifest.

    The folder contains answers, and only this user can read it. `at` is UTC, ISO 8601; `campaign_ids` None
    means the whole ledger.

    Raises:
        LedgerError: the folder is not empty or cannot be written, or the ledger cannot be read.
    """
    with _drafting(folder) as draft, ledger.reading() as connection:
        export = _describe(connection, at, campaign_ids)
        for table in list_tables():
            export.tables[table.name] = _write_table(connection, table, draft, campaign_ids, rows_a_file)
        (draft / MANIFEST).write_text(dump_manifest(export), encoding="utf-8")
        (draft / MANIFEST).chmod(0o600)
    return export


def list_tables() -> list[Table]:
    """Return the tables of an export, in an order of import."""
    return [table for table in metadata.sorted_tables if table.name not in OF_RUNS]


def _describe(connection: Connection, at: str, campaign_ids: Collection[int] | None) -> Export:
    query = select(campaigns.c.target, campaigns.c.name).order_by(campaigns.c.target, campaigns.c.name)
    if campaign_ids is not None:
        query = query.where(campaigns.c.id.in_(campaign_ids))
    found = tuple((row.target, row.name) for row in connection.execute(query))
    return Export(at, SCHEMA_VERSION, found, is_whole=campaign_ids is None)


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
    """Return a query of the rows of chosen campaigns and of rows without a campaign."""
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
    """Yield a temporary folder that is renamed to `folder` when the block ends without an error."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise LedgerError(f"{folder} exists and is not empty", hint="name a new folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
        try:
            yield draft
            shutil.rmtree(draft / ".spill", ignore_errors=True)
            for path in (*draft.iterdir(), draft):
                sync(path)
            draft.replace(folder)
            sync(folder.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise LedgerError(
            f"the export {folder} cannot be written: {error.strerror}",
            hint="make room on the disk, and check that this user may write there",
        ) from None


def import_ledger(ledger: Ledger, folder: Path) -> Export:
    """Fill an empty ledger from an export, all or nothing, and return its manifest.

    Raises:
        LedgerError: the export is incomplete or changed, or the ledger is not empty.
    """
    export = read_export(folder)
    with ledger.writing() as connection:
        exclude_others(connection)
        for table in list_tables():
            if table is not info:
                _require_empty(connection, table)
            _fill(connection, table, export, folder)
        _count_on(connection)
        # Reports' copies belong to another ledger.
        renew_edition(connection)
    return export


def _require_empty(connection: Connection, table: Table) -> None:
    if connection.execute(select(table).limit(1)).first() is not None:
        raise LedgerError(
            f"the ledger is not empty: there are {table.name.replace('_', ' ')} in it",
            hint="an export fills an empty ledger: name a new one with --ledger or RUNNER_LEDGER",
        )


def _fill(connection: Connection, table: Table, export: Export, folder: Path) -> None:
    names = [column.name for column in table.c]
    statement = BulkStatement(_compose_insert(table), names, winner="last")
    for file in export.tables.get(table.name, ()):
        for rows in iterate_rows(folder / file.name):
            statement.run(connection, rows)


def _compose_insert(table: Table) -> Callable[[Connection], Insert]:
    def compose(connection: Connection) -> Insert:
        inserted = insert_into(connection, table)
        # The version of the tables is the new ledger's own.
        return inserted.on_conflict_do_nothing() if table is info else inserted

    return compose


def _count_on(connection: Connection) -> None:
    """Set a server's sequences after the numbers in use."""
    if connection.dialect.name != "postgresql":
        return
    for table in _NUMBERED:
        sequence = func.pg_get_serial_sequence(table.name, table.c.id.name)
        most = select(func.coalesce(func.max(table.c.id), 0) + 1).scalar_subquery()
        connection.execute(select(func.setval(sequence, most, false())))


@dataclass(slots=True)
class ParquetWriter:
    """A writer of one table's rows to files `<table>-00000.parquet` and on; a context manager.

    Only this user can read `folder`. `columns` has DuckDB types by name; `files`, the rows of each written
    file.
    """

    folder: Path
    table: str
    columns: Mapping[str, str]
    rows_a_file: int = ROWS_A_FILE
    files: list[tuple[str, int]] = field(default_factory=list)
    _engine: duckdb.DuckDBPyConnection = field(init=False, repr=False)
    _waiting: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Begin with no rows."""
        self._engine = _open_engine(self.folder)

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write rows, a value a column.

        Raises:
            LedgerError: the disk is full.
        """
        waiting = list(rows)
        while waiting:
            room = self.rows_a_file - self._waiting
            self._keep(waiting[:room])
            waiting = waiting[room:]
            if self._waiting == self.rows_a_file:
                self._write()

    def _keep(self, rows: Sequence[Sequence[Any]]) -> None:
        with _translated(self.folder):
            if not self._waiting:
                typed = ", ".join(f'"{name}" {kind}' for name, kind in self.columns.items())
                self._engine.execute(f"CREATE OR REPLACE TABLE waiting ({typed})")
            arrays = ", ".join(
                f"unnest(${number}::{kind}[])" for number, kind in enumerate(self.columns.values(), start=1)
            )
            values = [list(one) for one in zip(*rows, strict=True)]
            self._engine.execute(f"INSERT INTO waiting SELECT {arrays}", values)
        self._waiting += len(rows)

    def _write(self) -> None:
        name = f"{self.table}-{len(self.files):05}.parquet"
        file = self.folder / name
        with _translated(self.folder):
            self._engine.execute(f"COPY waiting TO {_quote(file)} (FORMAT parquet, COMPRESSION zstd)")
        file.chmod(0o600)
        self.files.append((name, self._waiting))
        self._waiting = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if self._waiting and kind is None:
                self._write()
        finally:
            self._engine.close()


def iterate_rows(file: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a file in portions, each row by column name.

    Raises:
        LedgerError: it is damaged.
    """
    engine = _open_engine(file.parent)
    try:
        with _translated(file.parent):
            engine.execute("FROM read_parquet($1)", [str(file)])
            columns = [column[0] for column in engine.description or ()]
            while rows := engine.fetchmany(_PORTION):
                yield [dict(zip(columns, row, strict=True)) for row in rows]
    finally:
        engine.close()


def _open_engine(folder: Path) -> duckdb.DuckDBPyConnection:
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY_LIMIT,
        "temp_directory": str(folder / ".spill"),
        # DuckDB fetches and loads no extensions.
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(":memory:", config=settings)


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise LedgerError(
            f"the files in {folder} cannot be used: {describe_fault(error)}",
            hint="make room on the disk, or export anew",
        ) from None


def _quote(file: Path) -> str:
    return "'" + str(file).replace("'", "''") + "'"
