"""Snapshots: the state put aside and put back, also while it is served."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from runner.sandbox.clock import Clock
from runner.sandbox.rehearsal import snapshot
from runner.sandbox.rehearsal.snapshot import read_state, restore_snapshot, take_snapshot
from runner.sandbox.sandbox_errors import BusyError, SandboxError
from runner.sandbox.service import Service
from runner.sandbox.sessions import read_lifetime
from runner.sandbox.store import find_database, open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import requests

    Call = Callable[..., requests.Response]

BODY = {"phone": ["+14155550101"], "questions": [{"text": "Why?"}]}


def count_launches(call: Call) -> int:
    return int(call("GET", "/api/stats/").json()["meta"]["total_count"])


def test_state_goes_back_while_it_is_served(db: Path, tmp_path: Path, call: Call) -> None:
    """A running service shows the state of the snapshot, takes the same credentials, and goes on from there."""
    file = tmp_path / "before.sqlite"
    first = call("POST", "/api/send", BODY).json()["project_launch_guid"]
    take_snapshot(db, file)
    call("POST", "/api/send", BODY)
    restore_snapshot(db, file)
    assert [stat["project_launch_guid"] for stat in call("GET", "/api/stats/").json()["objects"]] == [first]
    call("POST", "/api/send", BODY)
    assert count_launches(call) == 2


def test_reset_empties_a_running_service(db: Path, call: Call) -> None:
    """Without a snapshot the service is empty, and numbers its records from the beginning."""
    for _ in range(3):
        call("POST", "/api/send", BODY)
    restore_snapshot(db)
    assert count_launches(call) == 0
    call("POST", "/api/send", BODY)
    assert count_launches(call) == 1


def test_clock_is_a_part_of_the_state(db: Path, tmp_path: Path) -> None:
    """The clock is as it was in the snapshot, and the machine's after a reset; the api_key stays."""
    with closing(open_store(db)) as store:
        clock, key = Clock(store), store.keep_secret("api_key")
        clock.advance(timedelta(days=1))
        take_snapshot(db, tmp_path / "snapshot")
        restore_snapshot(db)
        assert (clock.offset(), store.keep_secret("api_key")) == (timedelta(), key)
        restore_snapshot(db, tmp_path / "snapshot")
        assert (clock.offset(), store.keep_secret("api_key")) == (timedelta(days=1), key)


def test_snapshot_of_another_service_brings_no_key(db: Path, tmp_path: Path) -> None:
    """A snapshot of another service brings its state, and not its credentials."""
    other = tmp_path / "other.sqlite"
    with closing(open_store(db)) as store, closing(open_store(other)) as foreign:
        key = store.keep_secret("api_key")
        assert foreign.keep_secret("api_key") != key
        take_snapshot(other, tmp_path / "snapshot")
        restore_snapshot(db, tmp_path / "snapshot")
        assert store.keep_secret("api_key") == key


def test_snapshot_is_one_private_file(db: Path, tmp_path: Path, call: Call) -> None:
    """A snapshot is one file of mode 0600 with nothing beside it, and reading it leaves it alone."""
    call("POST", "/api/send", BODY)
    folder = tmp_path / "snapshots"
    folder.mkdir()
    file = folder / "snapshot"
    size = take_snapshot(db, file)
    before = file.read_bytes()
    restore_snapshot(db, file)
    assert [path.name for path in folder.iterdir()] == ["snapshot"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (file.read_bytes(), len(before)) == (before, size)


def test_snapshot_replaces_the_one_before(db: Path, tmp_path: Path, call: Call) -> None:
    """A file of the same name is replaced by the newer state."""
    for _ in range(2):
        call("POST", "/api/send", BODY)
        take_snapshot(db, tmp_path / "snapshot")
    restore_snapshot(db, tmp_path / "snapshot")
    assert count_launches(call) == 2


@pytest.mark.parametrize("content", [b"", b"notes\n" * 2000])
def test_file_that_is_no_snapshot_changes_nothing(
    db: Path, tmp_path: Path, call: Call, content: bytes
) -> None:
    """What is no snapshot is refused by its name, and the state stays."""
    call("POST", "/api/send", BODY)
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(SandboxError, match=f"^{file} is no sandbox database"):
        restore_snapshot(db, file)
    assert count_launches(call) == 1


def test_foreign_database_is_refused(db: Path, tmp_path: Path) -> None:
    """A database of something else is refused by its own name, not by that of a copy."""
    file = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE note (text)")
    with pytest.raises(SandboxError) as error:
        restore_snapshot(db, file)
    assert str(error.value) == f"{file} is no sandbox database"


def test_missing_places_are_named(db: Path, tmp_path: Path) -> None:
    """A snapshot that is not there, a folder that is not there and a database that is not there are named."""
    missing = tmp_path / "a" / "b"
    for refused in (
        lambda: take_snapshot(db, tmp_path / "snapshot"),
        lambda: restore_snapshot(db, missing),
    ):
        with pytest.raises(SandboxError):
            refused()
    open_store(db).close()
    with pytest.raises(SandboxError, match="cannot write the snapshot"):
        take_snapshot(db, missing)
    with pytest.raises(SandboxError, match="is the database itself"):
        take_snapshot(db, db)


def test_missing_folder_is_named(db: Path, tmp_path: Path) -> None:
    """Where the folder is missing, it is the folder that is named."""
    open_store(db).close()
    with pytest.raises(SandboxError, match=f"there is no folder {tmp_path / 'a'}$"):
        take_snapshot(db, tmp_path / "a" / "snapshot")


def test_lifetime_of_sessions_survives(db: Path) -> None:
    """How long sessions wait was said when the service was started: a reset leaves it as it is."""
    with closing(open_store(db)) as store:
        Service(store).set_session_lifetime(timedelta(hours=1))
        restore_snapshot(db)
        assert read_lifetime(store.connection) == timedelta(hours=1)


def test_every_reset_makes_another_state(db: Path, tmp_path: Path) -> None:
    """Who has seen a state notices every reset, also one to the same snapshot."""
    with closing(open_store(db)) as store:
        seen = [read_state(store)]
        take_snapshot(db, tmp_path / "snapshot")
        for file in (None, tmp_path / "snapshot", tmp_path / "snapshot"):
            restore_snapshot(db, file)
            seen.append(read_state(store))
    assert len(set(seen)) == 4


def test_reset_gives_up_on_a_locked_database(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that another process holds on to is not waited for without end, and stays as it is."""
    monkeypatch.setattr(snapshot, "_TRIES", 2)
    with closing(open_store(db)) as other:
        key = other.keep_secret("api_key")
        with other.write(), pytest.raises(BusyError, match="is locked by another process"):
            restore_snapshot(db)
        assert other.keep_secret("api_key") == key


def test_store_knows_its_file(db: Path) -> None:
    """The file of an open store is found."""
    with closing(open_store(db)) as store:
        assert find_database(store).samefile(db)
