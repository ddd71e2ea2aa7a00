"""Lets sends that arrive together share one commit, which is a third of what a send costs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from runner.sandbox.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.sandbox.store import Store

Outcome = str | Exception


class CommitGroup:
    """Runs writes of one event loop, all those of one turn of the loop in one transaction.

    Nobody waits for more to come, and nobody is answered before the commit that holds their write.

    Args:
        store: what is written to.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[Callable[[], str], asyncio.Future[str]]] = []

    async def write(self, work: Callable[[], str]) -> str:
        """Run `work` in a transaction and give what it gives, once that is committed.

        A refusal of one leaves the others alone; `work` must not have written anything before it refuses.

        Raises:
            RefusalError: what `work` raised.
            sqlite3.Error: the write or its commit failed; nothing of it was stored.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._commit)
        self._waiting.append((work, future))
        return await future

    def _commit(self) -> None:
        group, self._waiting = self._waiting, []
        works = [work for work, _ in group]
        for (_, future), outcome in zip(group, self._run_together(works), strict=True):
            if future.cancelled():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _run_together(self, works: list[Callable[[], str]]) -> list[Outcome]:
        try:
            with self._store.write():
                return [_run(work) for work in works]
        except Exception as error:  # noqa: BLE001  whatever it is, the one whose write failed is told
            # The failed one has taken the others' writes with it: alone, each has its own outcome.
            return [error] if len(works) == 1 else [self._run_together([work])[0] for work in works]


def _run(work: Callable[[], str]) -> Outcome:
    try:
        return work()
    except RefusalError as refusal:
        return refusal
