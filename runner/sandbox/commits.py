"""Writes from a service's event loop, and notices of writes by any process.

The loop continues while another process holds the database. Writes that arrive together share one commit,
which is a third of a send's cost.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from runner.sandbox.sandbox_errors import RefusalError, is_busy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.sandbox.clock import Clock
    from runner.sandbox.model import Definition, Receipt
    from runner.sandbox.service import Service
    from runner.sandbox.store import Store


Written = TypeVar("Written")

PATIENCE_S = 8.0
"""Time that a write waits for another process that holds the database."""
_AGAIN_S = 0.02
_POLL_S = 0.2


class Changes:
    """A counter of the changes of one store, for the tasks of one event loop.

    Changes by this process are noted at once; those by others within a fifth of a second while a task waits,
    by SQLite's `data_version`. `revision` grows with every change. The store is used on the event loop alone.
    """

    def __init__(self, store: Store) -> None:
        self.revision = 0
        self._store = store
        self._seen = self._read_version()
        self._changed = asyncio.Event()

    def note(self) -> None:
        """Wake all waiting tasks; must be called on the event loop, after the commit."""
        # What this process has just written by another connection is no further change.
        self._seen = self._read_version()
        self.revision += 1
        self._changed.set()
        self._changed.clear()

    async def wait(self, since: int, timeout_s: float) -> int:
        """Wait for a change after revision `since`, and return the revision now: `since` if nothing changed.

        `timeout_s` is in seconds of this machine, whatever the service's clock, and may be infinite.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_s
        self._look()
        while self.revision == since and (left := ends - loop.time()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_POLL_S, left)):
                    await self._changed.wait()
            self._look()
        return self.revision

    def _look(self) -> None:
        """Note commits by other connections since the last look."""
        version = self._read_version()
        if version != self._seen:
            self._seen = version
            self.note()

    def _read_version(self) -> int:
        (version,) = self._store.connection.execute("PRAGMA data_version").fetchone()
        return int(version)


class Writer:
    """The writes of a running service, each at a time read inside its transaction.

    Those of one turn of the event loop share a transaction. No write waits for others, and each is answered
    after its commit. While another process holds the database, writes are tried again; those that come
    meanwhile wait as long as the first of them.
    """

    def __init__(self, service: Service, clock: Clock, changes: Changes) -> None:
        self.service = service
        self.clock = clock
        self.changes = changes
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._patience_ends = 0.0  # of the first of them, by the loop's clock

    async def send(self, definition: Definition, phones: Sequence[str]) -> str:
        """Launch a project: see `Service.send`."""
        return await self.write(lambda: self.service.send(definition, phones, self.clock.now()))

    async def receive(self, phone: str, text: str) -> Receipt:
        """Receive a text from a participant: see `Service.receive`."""
        return await self.write(lambda: self.service.receive(phone, text, self.clock.now()))

    async def expire_sessions(self) -> None:
        """Expire the sessions that are due, before a read."""
        if self.service.has_due_sessions(self.clock.now()):
            await self.write(lambda: self.service.expire_sessions(self.clock.now()))

    async def write(self, work: Callable[[], Written]) -> Written:
        """Run `work` in a transaction and return its result once committed.

        A refusal leaves other writes alone, and keeps what `work` wrote before it. After another error `work`
        may run again.

        Raises:
            RefusalError: from `work`.
            sqlite3.Error: the write or its commit failed; nothing of it was stored.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Written] = loop.create_future()
        if not self._waiting:
            self._patience_ends = loop.time() + PATIENCE_S
            loop.call_soon(self._commit)
        self._waiting.append((work, future))
        try:
            return await future
        finally:
            # A refusal may also follow a write.
            self.changes.note()

    def _commit(self) -> None:
        group, self._waiting = self._waiting, []
        try:
            outcomes = self._run_together([work for work, _ in group])
        except sqlite3.OperationalError as error:
            # A problem of the database and not of one write: it is locked, or its disk is full.
            loop = asyncio.get_running_loop()
            if is_busy(error) and loop.time() < self._patience_ends:
                self._waiting = group
                loop.call_later(_AGAIN_S, self._commit)
                return
            outcomes = [error] * len(group)
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.cancelled():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _run_together(self, works: Sequence[Callable[[], Any]]) -> list[Any]:
        try:
            with self.service.store.write():
                return [_run(work) for work in works]
        except sqlite3.OperationalError:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, the one whose write failed is told
            # The failed write has rolled back the others: alone, each has its own outcome.
            return [error] if len(works) == 1 else [self._run_together([work])[0] for work in works]


def _run(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except RefusalError as refusal:
        return refusal
