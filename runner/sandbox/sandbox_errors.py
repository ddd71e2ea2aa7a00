"""Errors of the sandbox, and explanations of SQLite's."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_RIGHTS = "check the rights of its file and of the folder"


class SandboxError(Exception):
    """A problem that the person who starts the sandbox can solve; the message explains it."""


class RefusalError(Exception):
    """A request that the service answers with an error document of our own form.

    Attributes:
        status: the HTTP status.
        code: a stable slug for programs.
        message: one sentence for people, without phone numbers, texts and credentials.
        problems: all problems, if there are several.
    """

    def __init__(self, status: int, code: str, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Trouble:
    """An external failure of the database; the current write is not stored.

    Attributes:
        code: a stable slug for programs.
        words: describes the database.
        advice: the remedy.
    """

    code: str
    words: str
    advice: str


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
    """Return the database's trouble; None if the error is a mistake of ours."""
    # The lowest byte is the primary code, the others extend it (SQLite, "Result Codes").
    return _TROUBLES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether a statement failed because another process holds the database."""
    return find_trouble(error) is _TROUBLES[sqlite3.SQLITE_BUSY]


@contextmanager
def explained_trouble() -> Iterator[None]:
    """Raise the sandbox's own errors for external failures of the database in the block.

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
