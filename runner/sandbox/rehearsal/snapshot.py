"""Snapshots of a service's whole state in a file, also of a running service."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from runner.sandbox.clock import make_guid
from runner.sandbox.sandbox_errors import BusyError, SandboxError
from runner.sandbox.store import Store, open_store, read_setting

# Settings that running services keep in memory, and the service's start options.
_LASTING = ("api_key", "session_lifetime_s")
_STATE = "state"
# A simulation releases the database for a hundredth of a second at a time.
_PAUSE_S = 0.01
_TRIES = 500
_HELD = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def take_snapshot(db: Path, file: Path) -> int:
    """Copy a service's database, as of one moment, to a file (mode 0600); return its size in bytes.

    The file, which holds phones, texts and the api_key, is replaced only by a complete copy. Its folder is
    made (mode 0700) if missing; a service may be running.

    Raises:
        SandboxError: the database cannot be read, or the file cannot be written.
    """
    if not db.is_file():
        raise SandboxError(f"there is no sandbox database {db} yet")
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".snapshot-") as folder:
            copy = Path(folder) / "copy.sqlite"
            with closing(open_store(db)) as store, closing(_create(copy)) as target:
                store.connection.backup(target)
                # The other mode keeps a part of a database in a second file.
                target.execute("PRAGMA journal_mode = DELETE")
            size = copy.stat().st_size
            copy.replace(file)
    except (OSError, sqlite3.Error) as error:
        raise SandboxError(f"cannot write the snapshot {file}: {_explain(error)}") from None
    return size


def restore_snapshot(db: Path, file: Path | None = None) -> None:
    """Restore a snapshot of any version, or the initial state with None, in one transaction.

    The service may be running; it keeps its secrets, so that its clients can continue, and its start options.
    The clock becomes the snapshot's, or the machine's at the beginning.

    Raises:
        BusyError: another process has held the database for some seconds.
        SandboxError: the file is no snapshot, or the database cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="sandbox-reset-") as folder:
        copy = Path(folder) / "state.sqlite"
        if file is not None:
            _fetch_snapshot(file, copy)
        try:
            state = open_store(copy)
        except SandboxError as error:
            reason = str(error).replace(str(copy), str(file or "in the folder for temporary files"))
            raise SandboxError(reason) from None
        with closing(state), closing(open_store(db)) as store:
            _hand_over_settings(store, state)
            # SQLite's own wait ignores signals, so the loop around it waits.
            store.wait_at_most(0)
            try:
                state.connection.backup(store.connection, progress=_Patience(db), sleep=_PAUSE_S)
            except sqlite3.Error as error:
                raise SandboxError(f"cannot reset the sandbox database {db}: {_explain(error)}") from None


def read_state(store: Store) -> str | None:
    """Return the id of a store's state, a new one after every reset."""
    return read_setting(store.connection, _STATE)


class _Patience:
    """A count of tries to write a database that ends when another process prevents too many."""

    def __init__(self, db: Path) -> None:
        self._db = db
        self._left = _TRIES

    def __call__(self, status: int, _left: int, _total: int) -> None:
        self._left -= status & 0xFF in _HELD
        if not self._left:
            raise BusyError(f"the sandbox database {self._db} is locked by another process")


def _fetch_snapshot(file: Path, copy: Path) -> None:
    """Copy a snapshot before use: reading it must not change it."""
    try:
        if not file.stat().st_size:
            raise SandboxError(f"{file} is no sandbox database")
        # As a database, not as a file: a service may be running on it.
        address = f"{file.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as source, closing(_create(copy)) as target:
            source.backup(target)
    except OSError as error:
        raise SandboxError(f"cannot read the snapshot {file}: {error.strerror}") from None
    except sqlite3.Error as error:
        raise SandboxError(f"{file} is no sandbox database: {_explain(error)}") from None


def _hand_over_settings(store: Store, state: Store) -> None:
    chosen = f"name IN {_LASTING}"
    lasting = store.connection.execute(f"SELECT name, value FROM setting WHERE {chosen}").fetchall()
    with state.write() as connection:
        connection.execute(f"DELETE FROM setting WHERE {chosen}")
        connection.executemany(
            "INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)", [*lasting, (_STATE, make_guid())]
        )


def _create(file: Path) -> sqlite3.Connection:
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return sqlite3.connect(file, isolation_level=None)


def _explain(error: OSError | sqlite3.Error) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
