"""Snapshots of a service's whole state in a file, also of a running service."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from runner.sandbox.clock import make_guid
from runner.sandbox.sandbox_errors import BusyError, SandboxError
from runner.sandbox.store import Store, open_store, read_setting, write_setting

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
    """Restore a snapshot of this version, or the initial state with None, in one transaction.

    The service may be running; it keeps its api_key, so that its clients can continue. The clock becomes the
    snapshot's, or the machine's at the beginning.

    Raises:
        BusyError: another process has held the database for some seconds.
        SandboxError: the file is no snapshot, or the database cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="sandbox-reset-") as folder:
        copy = Path(folder) / "state.sqlite"
        with closing(_open_state(file, copy)) as state, closing(open_store(db)) as store:
            _hand_over_settings(store, state)
            # SQLite's own wait ignores signals, so the loop around it waits.
            store.wait_at_most(0)
            try:
                state.connection.backup(store.connection, progress=_Patience(db), sleep=_PAUSE_S)
            except sqlite3.Error as error:
                raise SandboxError(f"cannot reset the sandbox database {db}: {_explain(error)}") from None


def _open_state(file: Path | None, copy: Path) -> Store:
    """Open a copy of a snapshot, or of the initial state."""
    try:
        size = None if file is None else shutil.copyfile(file, copy).stat().st_size
    except OSError as error:
        raise SandboxError(f"cannot read the snapshot {file}: {error.strerror}") from None
    # An empty file would be taken for a new database.
    if size == 0:
        raise SandboxError(f"{file} is no sandbox database")
    try:
        return open_store(copy)
    except SandboxError as error:
        raise SandboxError(str(error).replace(str(copy), str(file or copy))) from None


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


def _hand_over_settings(store: Store, state: Store) -> None:
    key = read_setting(store.connection, "api_key")
    with state.write() as connection:
        connection.execute("DELETE FROM setting WHERE name = 'api_key'")
        if key is not None:
            write_setting(connection, "api_key", key)
        write_setting(connection, _STATE, make_guid())


def _create(file: Path) -> sqlite3.Connection:
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return sqlite3.connect(file, isolation_level=None)


def _explain(error: OSError | sqlite3.Error) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
