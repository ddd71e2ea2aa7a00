"""The ledger as Parquet files, and back again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from sqlalchemy import select

from runner.errors import LedgerError
from runner.ledger.database import Ledger
from runner.ledger.lockfile.writer import rewrite_lockfile
from runner.ledger.maintenance.ledger_export import (
    MANIFEST,
    export_ledger,
    import_ledger,
    list_tables,
)
from runner.ledger.model import StoredResult
from runner.ledger.people.opt_outs import add_opt_outs
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.results.reconciled import store_results
from runner.ledger.tables import info
from runner.ledger.target_key import enter_target_key
from tests.ledger.conftest import AT, SALT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.ledger.model import LaunchRecord
    from runner.ledger.record.recorded import Identity


@pytest.fixture
def filled(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> Ledger:
    """A ledger with something in many of its tables, and a lockfile that sums it up."""
    (first, _) = deliver(make_record("a", 1, 2, 3), make_record("b", 4, message="other"))
    deliver(make_record("c", 5), state="unknown")
    with ledger.writing() as connection:
        texts = ("person", "question", "tag", 'What, "then"?\n\t\\N')
        store_results(connection, [StoredResult(first, "r1", *texts, 1, "", "héé 🙂", AT, AT)])
        add_opt_outs(
            connection, enter_target_key(connection, "live", None, SALT), ["+14155550199"], "person", AT
        )
    summed = replace(identity, keeps_summary=True)
    rewrite_lockfile(ledger, summed, enter_record(ledger, summed, SALT))
    return ledger


def read_all(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    with ledger.reading() as connection:
        return {
            table.name: sorted(map(tuple, connection.execute(select(table)).all()), key=repr)
            for table in list_tables()
            if table is not info
        }


@pytest.mark.slow
def test_there_and_back(
    filled: Ledger,
    identity: Identity,
    tmp_path: Path,
    new_url: Callable[[], str],
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """An export fills a new ledger with the same rows; it goes with the lockfile, and goes on from there."""
    export = export_ledger(filled, tmp_path / "out", AT, rows_a_file=2)
    assert export.campaigns == (("live", "pulse"),)
    assert len(export.tables["deliveries"]) == 3
    with Ledger(new_url()) as other:
        other.prepare()
        assert import_ledger(other, tmp_path / "out") == export
        assert read_all(other) == read_all(filled)
        assert read_record(other, identity).known == read_record(filled, identity).known
        deliver(make_record("d", 6), into=other)
        with other.writing() as connection:
            store_results(connection, [StoredResult(1, "r2", *["x"] * 4, 1, "x", "x", AT, AT)])  # type: ignore[call-arg,arg-type]


def test_files(filled: Ledger, tmp_path: Path) -> None:
    """Nobody but this user can read them, any program can; the manifest has rows and digests of each."""
    folder = tmp_path / "deep" / "out"
    export_ledger(filled, folder, AT)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    (file,) = manifest["tables"]["deliveries"]
    assert (file["name"], file["rows"]) == ("deliveries-00000.parquet", 5)
    found = duckdb.read_parquet(str(folder / file["name"])).project("message, released").fetchall()
    assert sorted(found) == [("ask", False)] * 4 + [("other", False)]
    assert sorted(one.name for one in tmp_path.joinpath("deep").iterdir()) == ["out"]


@pytest.mark.slow
def test_chosen_campaigns(filled: Ledger, tmp_path: Path) -> None:
    """Of campaigns that were not chosen there is nothing in it."""
    export = export_ledger(filled, tmp_path / "none", AT, [404])
    counts = export.count()
    assert (export.campaigns, export.is_whole) == ((), False)
    assert counts["launches"] == counts["deliveries"] == counts["results"] == counts["campaigns"] == 0
    assert export_ledger(filled, tmp_path / "one", AT, [1]).count()["deliveries"] == 5


def test_nothing_is_overwritten(filled: Ledger, tmp_path: Path) -> None:
    """A folder with something in it, or a file, is left as it is."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    for name in ("out", "out/mine"):
        with pytest.raises(LedgerError) as caught:
            export_ledger(filled, tmp_path / name, AT)
        assert caught.value.message == f"{tmp_path / name} exists and is not empty"
        assert caught.value.hint == "name a new folder"


def test_a_folder_that_cannot_be_written(filled: Ledger, tmp_path: Path) -> None:
    """Where no folder can be made, that is said."""
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError) as caught:
        export_ledger(filled, tmp_path / "file" / "out", AT)
    assert caught.value.message == f"the export {tmp_path / 'file' / 'out'} cannot be written: File exists"


def _change_file(folder: Path) -> str:
    with (folder / "launches-00000.parquet").open("ab") as stream:
        stream.write(b"\0")
    return f"the export {folder} is damaged: launches-00000.parquet is not as it was written"


def _remove_file(folder: Path) -> str:
    (folder / "launches-00000.parquet").unlink()
    return f"the export {folder} lacks the file launches-00000.parquet"


def _remove_manifest(folder: Path) -> str:
    (folder / MANIFEST).unlink()
    return f"{folder} is not an export of a ledger: it has no {MANIFEST}"


def _edit_manifest(folder: Path) -> str:
    text = (folder / MANIFEST).read_text(encoding="utf-8")
    (folder / MANIFEST).write_text(text.replace("pulse", "other"), encoding="utf-8")
    return f"the export {folder} is damaged: its {MANIFEST} was changed"


def _cut_manifest(folder: Path) -> str:
    (folder / MANIFEST).write_text("[", encoding="utf-8")
    return f"the export {folder} is damaged: its {MANIFEST} was changed"


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", [_change_file, _remove_file, _remove_manifest, _edit_manifest, _cut_manifest]
)
def test_a_damaged_export(
    damage: Callable[[Path], str],
    sqlite_ledger: Ledger,
    tmp_path: Path,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """What is not as it was written is refused before anything is entered."""
    deliver(make_record("a", 1), into=sqlite_ledger)
    export_ledger(sqlite_ledger, tmp_path / "out", AT)
    message = damage(tmp_path / "out")
    with Ledger(f"sqlite:///{tmp_path / 'other'}") as other:
        other.prepare()
        with pytest.raises(LedgerError) as caught:
            import_ledger(other, tmp_path / "out")
    assert caught.value.message == message


def test_a_ledger_that_is_not_empty(filled: Ledger, tmp_path: Path) -> None:
    """An export is entered into an empty ledger alone."""
    export_ledger(filled, tmp_path / "out", AT)
    before = read_all(filled)
    with pytest.raises(LedgerError) as caught:
        import_ledger(filled, tmp_path / "out")
    assert caught.value.message == "the ledger is not empty: there are campaigns in it"
    assert caught.value.hint == (
        "an export fills an empty ledger: name a new one with --ledger or RUNNER_LEDGER"
    )
    assert read_all(filled) == before
