"""The database file: who may read it, what survives, and what is said when it cannot be used."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.store import SCHEMA_VERSION, open_store
from runner.sandbox.web.server import running_service

if TYPE_CHECKING:
    from pathlib import Path

OPEN_AND_SEND = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from runner.sandbox import store
from runner.sandbox.model import Definition
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
# On a busy machine the others may hold the file for longer than a command waits.
store._BUSY_SECONDS = 60
sys.stdin.readline()
service = Service(open_store(Path(sys.argv[1])))
print(service.store.keep_secret("api_key"))
for number in range(20):
    service.send(Definition("{}", text="Hi"), [f"+1415555{number:04d}"], datetime.now(UTC))
"""


def test_file_is_for_its_owner_alone(db: Path) -> None:
    """The database and what SQLite keeps beside it have mode 0600, and their folder 0700."""
    with closing(open_store(db)) as store:
        store.keep_secret("api_key")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (db.parent, *db.parent.iterdir())}
    assert modes == {
        "sandbox": 0o700,
        "service.sqlite": 0o600,
        "service.sqlite-shm": 0o600,
        "service.sqlite-wal": 0o600,
    }


def test_api_key_survives_a_restart(db: Path) -> None:
    """The api_key that the service makes up is the same after a restart; one that was given is not kept."""
    with running_service(db, username="me", api_key="given") as first:
        assert (first.username, first.api_key) == ("me", "given")
    with running_service(db) as second, running_service(db) as third:
        assert second.username == "sandbox"
        assert second.api_key == third.api_key != "given"
        assert second.api_key not in repr(second)
    assert b"given" not in db.read_bytes()


def test_processes_that_start_at_once_share_one_file(db: Path) -> None:
    """Processes that create the database at the same moment agree on its api_key and lose no send."""
    command = [sys.executable, "-c", OPEN_AND_SEND, str(db)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    keys = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert len(keys) == 1
    with closing(open_store(db)) as store:
        assert store.connection.execute("SELECT count(*), max(id) FROM launch").fetchone() == (80, 80)


def test_other_database_is_left_alone(db: Path) -> None:
    """A SQLite file of somebody else is refused and not changed."""
    db.parent.mkdir()
    with closing(sqlite3.connect(db)) as connection:
        connection.execute("CREATE TABLE theirs (id)")
    before = db.read_bytes()
    with pytest.raises(SandboxError) as error:
        open_store(db)
    assert str(error.value) == f"{db} is no sandbox database"
    assert db.read_bytes() == before


def test_database_of_another_version_is_refused(db: Path) -> None:
    """A database that another version wrote is refused by its version."""
    open_store(db).close()
    with closing(sqlite3.connect(db)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(SandboxError) as error:
        open_store(db)
    assert str(error.value) == (
        f"the sandbox database {db} was written by another version "
        f"(schema {SCHEMA_VERSION + 1}; this one reads {SCHEMA_VERSION}); remove it, or name another one with --db"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [("file/service.sqlite", "File exists"), ("", "Is a directory")],
    ids=["file", "folder"],
)
def test_unwritable_place_is_named(tmp_path: Path, name: str, reason: str) -> None:
    """A database that cannot be created is refused with its path and the system's reason."""
    (tmp_path / "file").touch()
    path = tmp_path / name
    with pytest.raises(SandboxError) as error:
        open_store(path)
    assert str(error.value) == f"cannot write the sandbox database {path}: {reason}"
