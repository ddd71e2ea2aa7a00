"""The whole state of a service put aside in a file, and put back, also while it is being served."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from runner.sandbox.clock import make_guid
from runner.sandbox.errors import BusyError, SandboxError
from runner.sandbox.store import Store, open_store

# Settings that running services and open pages have in memory, and how the service was started.
_LASTING = ("api_key", "inbox_token", "webhook_hosts", "session_lifetime_s")
_STATE = "state"
# A simulation lets go for a hundredth of a second at a time.
_PAUSE_S = 0.01
_TRIES = 500
_HELD = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def take_snapshot(db: Path, file: Path) -> int:
    """Copy a service's database to a file (mode 0600), as it is at one moment.

    The file is replaced only once the copy is whole. It holds phones and texts, and the api_key too.

    Args:
        db: the service's database; it may be served meanwhile, and is not made where there is none.
        file: where to; its folder must be there.

    Returns:
        The file's size in bytes.

    Raises:
        SandboxError: the database cannot be read, or the file not be written.
    """
    if not db.is_file():
        raise SandboxError(f"there is no sandbox database {db} yet")
    if file.exists() and file.samefile(db):
        raise SandboxError(f"{file} is the database itself; name another file")
    if not file.parent.is_dir():
        raise SandboxError(f"cannot write the snapshot {file}: there is no folder {file.parent}")
    try:
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
    """Put a service back to a snapshot, or to its beginning, in one transaction of its database.

    The service's secrets stay the ones that it has, so that whoever talks to it can go on, and so does what
    it was started with. The clock becomes what it was in the snapshot, and the machine's at the beginning.

    Args:
        db: the service's database; it may be served meanwhile.
        file: what `take_snapshot` wrote, also that of an older version; None for an empty service.

    Raises:
        BusyError: another process has held the database for some seconds.
        SandboxError: there is no snapshot in the file, or the database cannot be written.
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
            # SQLite would wait where no signal reaches it: the loop around it waits instead.
            store.wait_at_most(0)
            try:
                state.connection.backup(store.connection, progress=_Patience(db), sleep=_PAUSE_S)
            except sqlite3.Error as error:
                raise SandboxError(f"cannot reset the sandbox database {db}: {_explain(error)}") from None


def read_state(store: Store) -> str | None:
    """Tell which state a store is in: another one after every reset, whatever it holds."""
    row = store.connection.execute("SELECT value FROM setting WHERE name = ?", (_STATE,)).fetchone()
    return None if row is None else str(row[0])


class _Patience:
    """Is told of every try to write a database, and gives up after some that another process prevented."""

    def __init__(self, db: Path) -> None:
        self._db = db
        self._left = _TRIES

    def __call__(self, status: int, _left: int, _total: int) -> None:
        self._left -= status & 0xFF in _HELD
        if not self._left:
            raise BusyError(f"the sandbox database {self._db} is locked by another process")


def _fetch_snapshot(file: Path, copy: Path) -> None:
    """Copy a snapshot before anything is done with it: reading it must not change it."""
    try:
        if not file.stat().st_size:
            raise SandboxError(f"{file} is no sandbox database")
        # As a database, not as a file: what is named may be one that is being served.
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
