"""Reads the store for the inbox, on a connection and a thread of its own: sends don't wait for a search."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from runner.sandbox.store import find_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.sandbox.store import Store

Found = TypeVar("Found")

_THREADS = 2  # one slow search leaves room for a page


class Reader:
    """Runs what reads, each on one snapshot of the store's file.

    Args:
        store: whose file is read.
    """

    def __init__(self, store: Store) -> None:
        self._uri = f"{find_database(store).as_uri()}?mode=ro"
        self._limiter: CapacityLimiter | None = None

    async def run(self, read: Callable[[sqlite3.Connection], Found]) -> Found:
        """Give what `read` gives, called in a thread with a connection that it must not keep."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(_THREADS)
        return await run_sync(partial(self._read, read), limiter=self._limiter)

    def _read(self, read: Callable[[sqlite3.Connection], Found]) -> Found:
        with self._open() as connection:
            return read(connection)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # Opened each time, which takes less than a template: so nothing is left to be closed at the end.
        with closing(sqlite3.connect(self._uri, uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            yield connection
