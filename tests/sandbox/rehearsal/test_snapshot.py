"""Snapshots: the state put aside and put back, also while it is served."""

from __future__ import annotations

import stat
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from runner.sandbox.clock import Clock
from runner.sandbox.rehearsal import snapshot
from runner.sandbox.rehearsal.snapshot import read_state, restore_snapshot, take_snapshot
from runner.sandbox.sandbox_errors import BusyError, SandboxError
from runner.sandbox.store import open_store

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
