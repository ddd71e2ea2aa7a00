"""What SQLite says of a database that cannot be used just now, in words for whoever can mend it."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Trouble:
    """What happens to a database from outside; whatever was being written is not stored.

    Attributes:
        code: a stable slug for programs.
        words: what is the matter, said of the database.
        advice: what to do.
    """

    code: str
    words: str
    advice: str


_RIGHTS = "check the rights of its file and of the folder"
_TROUBLES: Mapping[int, Trouble] = {
    sqlite3.SQLITE_BUSY: Trouble(
        "busy", "is locked by another process", "try again once that is done, or end it"
    ),
    sqlite3.SQLITE_FULL: Trouble("disk_full", "has no room to grow", "the disk is full"),
    sqlite3.SQLITE_IOERR: Trouble(
        "disk_error", "cannot be read or written", "check that its disk has room, and is in order"
    ),
    sqlite3.SQLITE_READONLY: Trouble("read_only", "cannot be written", _RIGHTS),
    sqlite3.SQLITE_CANTOPEN: Trouble("no_database", "cannot be opened", _RIGHTS),
}
"""By the kind of SQLite's error; any other is a mistake of ours."""


def find_trouble(error: Exception) -> Trouble | None:
    """Tell what happened to the database, or None if the error is a mistake of ours."""
    # The lowest byte is the kind of the error, whatever the others say of it (SQLite, "Result Codes").
    return _TROUBLES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether a statement failed since another process holds the database."""
    return find_trouble(error) is _TROUBLES[sqlite3.SQLITE_BUSY]


@contextmanager
def explained_trouble() -> Iterator[None]:
    """Run the block; what happens to the database from outside becomes the sandbox's own error.

    Raises:
        SandboxError: the database is held by another process, or its disk is full or out of order.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        trouble = find_trouble(error)
        if trouble is None:
            raise
        raise SandboxError(f"the sandbox's database {trouble.words}: {trouble.advice}") from None
