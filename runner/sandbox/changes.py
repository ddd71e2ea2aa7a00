"""Tells those who wait that the service's state has changed, whichever process changed it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.sandbox.store import Store

_POLL_S = 0.2


class Changes:
    """Counts the changes of one store, for the tasks of one event loop.

    What this process writes is noted at once. What others write to the same file is noticed within a fifth of
    a second by whoever waits, by SQLite's `data_version`.

    Args:
        store: what is watched; used on the event loop alone.

    Attributes:
        revision: grows with every change; it says nothing about which one.
    """

    def __init__(self, store: Store) -> None:
        self.revision = 0
        self._store = store
        self._seen = self._read_version()
        self._waiting: set[asyncio.Future[None]] = set()

    def note(self) -> None:
        """Wake everybody who waits; must be called on the event loop, after the commit."""
        self.revision += 1
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, since: int, timeout_s: float) -> int:
        """Wait until there is a change after `since`, at most `timeout_s` seconds.

        Args:
            since: the revision that the caller has seen.
            timeout_s: in seconds of this machine, whatever the service's clock does; may be infinite.

        Returns:
            The revision now: `since` if nothing changed.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_s
        self._look()
        while self.revision == since and (left := ends - loop.time()) > 0:
            future: asyncio.Future[None] = loop.create_future()
            self._waiting.add(future)
            try:
                await asyncio.wait((future,), timeout=min(_POLL_S, left))
            finally:
                self._waiting.discard(future)
            self._look()
        return self.revision

    def _look(self) -> None:
        """Note what another connection has committed since the last look."""
        version = self._read_version()
        if version != self._seen:
            self._seen = version
            self.note()

    def _read_version(self) -> int:
        (version,) = self._store.connection.execute("PRAGMA data_version").fetchone()
        return int(version)
