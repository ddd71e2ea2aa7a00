"""Lets writes that arrive together share one commit, which is a third of what a send costs."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from runner.sandbox.errors import RefusalError
from runner.sandbox.trouble import is_busy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.sandbox.store import Store

Written = TypeVar("Written")

PATIENCE_S = 8.0
"""How long a write waits for another process that holds the database."""
_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class _Write:
    """One that waits; `ends` is when its patience ends, by the loop's clock."""

    work: Callable[[], Any]
    future: asyncio.Future[Any]
    ends: float


class CommitGroup:
    """Runs writes of one event loop, all those of one turn of the loop in one transaction.

    Nobody waits for more to come, and nobody is answered before the commit that holds their write. While
    another process holds the database the loop goes on, and the writes are tried again.

    Args:
        store: what is written to.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[_Write] = []

    async def write(self, work: Callable[[], Written], *, patience_s: float | None = None) -> Written:
        """Run `work` in a transaction and give what it gives, once that is committed.

        A refusal of one leaves the others alone; what `work` has written before it refuses stays.

        Args:
            work: writes; may be run again if it raises what is no refusal.
            patience_s: seconds to wait for another process that holds the database; `PATIENCE_S` if None.

        Raises:
            RefusalError: what `work` raised.
            sqlite3.Error: the write or its commit failed; nothing of it was stored.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Written] = loop.create_future()
        ends = loop.time() + (PATIENCE_S if patience_s is None else patience_s)
        if not self._waiting:
            loop.call_soon(self._commit)
        self._waiting.append(_Write(work, future, ends))
        return await future

    def _commit(self) -> None:
        group, self._waiting = self._waiting, []
        try:
            outcomes = self._run_together([write.work for write in group])
        except sqlite3.OperationalError as error:
            # It concerns the database and not one of them: that it is held, or that its disk is full.
            group = self._put_back(group) if is_busy(error) else group
            outcomes = [error] * len(group)
        for write, outcome in zip(group, outcomes, strict=True):
            if write.future.cancelled():
                continue
            if isinstance(outcome, Exception):
                write.future.set_exception(outcome)
            else:
                write.future.set_result(outcome)

    def _put_back(self, group: Sequence[_Write]) -> list[_Write]:
        """Let those try again whose patience isn't over; give the others."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._waiting = [write for write in group if write.ends > now]
        if self._waiting:
            loop.call_later(_AGAIN_S, self._commit)
        return [write for write in group if write.ends <= now]

    def _run_together(self, works: Sequence[Callable[[], Any]]) -> list[Any]:
        try:
            with self._store.write():
                return [_run(work) for work in works]
        except sqlite3.OperationalError:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, the one whose write failed is told
            # The failed one has taken the others' writes with it: alone, each has its own outcome.
            return [error] if len(works) == 1 else [self._run_together([work])[0] for work in works]


def _run(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except RefusalError as refusal:
        return refusal
