"""Writes from a service's event loop.

The loop continues while another process holds the database. Writes that arrive together share one commit,
which is a third of a send's cost.
"""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any, TypeVar

from runner.sandbox.sandbox_errors import RefusalError, is_busy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.sandbox.clock import Clock
    from runner.sandbox.model import Definition, Receipt
    from runner.sandbox.service import Service


Written = TypeVar("Written")

PATIENCE_S = 8.0
"""Time that a write waits for another process that holds the database."""
_AGAIN_S = 0.02


class Writer:
    """The writes of a running service, each at a time read inside its transaction.

    Those of one turn of the event loop share a transaction. No write waits for others, and each is answered
    after its commit. While another process holds the database, writes are tried again; those that come
    meanwhile wait as long as the first of them.
    """

    def __init__(self, service: Service, clock: Clock) -> None:
        self.service = service
        self.clock = clock
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
        return await future

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
