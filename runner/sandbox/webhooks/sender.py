"""Sends each result to its question's webhook, in the background, until it is taken or given up."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from runner.sandbox.clock import read_clock
from runner.sandbox.commits import CommitGroup
from runner.sandbox.listing import Listing
from runner.sandbox.model import DEFAULT_OWN_NUMBER, Plan
from runner.sandbox.webhooks.allowance import is_kept
from runner.sandbox.webhooks.courier import Courier, DeliveryError, ForbiddenHostError
from runner.sandbox.webhooks.queue import Patience, Webhook, WebhookQueue
from runner.sandbox.webhooks.receiver import parse_receiver

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection, Iterable, Iterator
    from datetime import datetime

    from runner.sandbox.store import Store

_AT_ONCE = 32
_AT_ONCE_EACH = 8  # to one receiver, so that one that hangs leaves room for the others
_LEFT_FOR = timedelta(seconds=5)  # after which the other service may be gone, and nobody may call the host
_POLL_S = 0.2  # other processes on the same file record results, too
_LAST_WAIT_S = 1.0


class WebhookSender:
    """The background task of a service that empties the store's queue of webhooks.

    Several services on one file share the work. Order is not kept, and a receiver may get a result twice:
    its `result_guid` tells.

    Args:
        store: the service's state; used on the event loop alone.
        allowed_hosts: names and addresses, as `allowance.read_hosts` gives them, that may be called wherever
            they lead; others only on loopback, and those that another service on the file may call are left
            to that one.
        own_number: the number that the service sends from, in E.164.
        patience: when a webhook is tried again.
        clock: the machine's clock. The service's may be moved, and waits are between real programs.
        tls: what https trusts; the system's certificate authorities if None.
    """

    def __init__(
        self,
        store: Store,
        *,
        allowed_hosts: Collection[str] = (),
        own_number: str = DEFAULT_OWN_NUMBER,
        patience: Patience | None = None,
        clock: Callable[[], datetime] = read_clock,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        patience = patience or Patience()
        self._store = store
        self._commits = CommitGroup(store)
        self._queue = WebhookQueue(store, patience)
        self._courier = Courier(allowed_hosts=allowed_hosts, timeout=patience.timeout, tls=tls)
        self._listing = Listing(store, plan=Plan(), own_number=own_number)
        self._clock = clock
        # Receivers that are left to other services, and until when. To put their webhooks off would not do:
        # services that look equally often would meet whenever one is due, and the same one be first.
        self._left: dict[str, datetime] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Send what is due until `stop` is set; what is under way then has a second left."""
        under_way: dict[asyncio.Task[None], Webhook] = {}
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                # Another process may hold the file's lock for too long; nothing is lost by waiting.
                with suppress(sqlite3.OperationalError):
                    for webhook in self._claim_beside([*under_way.values()]):
                        under_way[asyncio.create_task(self._deliver(webhook))] = webhook
                await asyncio.wait(
                    {stopped, *under_way}, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED
                )
                under_way = {task: webhook for task, webhook in under_way.items() if not task.done()}
            if under_way:
                await asyncio.wait(under_way, timeout=_LAST_WAIT_S)
        finally:
            await self._break_off(stopped, under_way)

    def _claim_beside(self, under_way: Iterable[Webhook]) -> Iterator[Webhook]:
        """Claim what may be sent beside what is under way, in steps that fit every receiver."""
        counts = Counter(webhook.receiver for webhook in under_way)
        while (free := _AT_ONCE - counts.total()) > 0:
            now = self._clock()
            self._left = {receiver: until for receiver, until in self._left.items() if until > now}
            busy = [receiver for receiver, count in counts.items() if count >= _AT_ONCE_EACH]
            # Whatever is due, it may all be for the receiver that has the most under way already.
            most = max((count for count in counts.values() if count < _AT_ONCE_EACH), default=0)
            step = min(free, _AT_ONCE_EACH - most)
            claimed = self._queue.claim(step, now, [*busy, *self._left])
            yield from claimed
            if len(claimed) < step:
                return
            counts.update(webhook.receiver for webhook in claimed)

    async def _break_off(
        self, stopped: asyncio.Task[bool], under_way: dict[asyncio.Task[None], Webhook]
    ) -> None:
        broken_off = {task: webhook for task, webhook in under_way.items() if not task.done()}
        for task in (stopped, *broken_off):
            task.cancel()
        await asyncio.gather(stopped, *broken_off, return_exceptions=True)
        if broken_off:
            with suppress(sqlite3.OperationalError):
                await self._commits.write(
                    lambda: self._queue.release(broken_off.values(), self._clock()), patience_s=_LAST_WAIT_S
                )

    async def _deliver(self, webhook: Webhook) -> None:
        # A try whose outcome could not be written counts as lost and is made again.
        with suppress(sqlite3.OperationalError):
            settle = await self._try(webhook)
            await self._commits.write(settle)

    async def _try(self, webhook: Webhook) -> Callable[[], None]:
        """Try once, and give what writes down what became of it."""
        problem, is_final = None, False
        try:
            await self._post(webhook)
        except _LeftToOthersError:
            self._left[webhook.receiver] = self._clock() + _LEFT_FOR
            return lambda: self._queue.release([webhook], self._clock())
        except DeliveryError as error:
            problem, is_final = str(error), error.is_final
        except sqlite3.OperationalError:
            raise
        except Exception as error:  # noqa: BLE001  our own mistake counts as a try, or it is made for ever
            problem = f"the sandbox failed ({type(error).__name__})"
        return lambda: self._queue.settle(webhook, problem, self._clock(), is_final=is_final)

    async def _post(self, webhook: Webhook) -> None:
        receiver = parse_receiver(webhook.question.webhook or "")
        if receiver is None:
            raise DeliveryError("the address is no http or https URL", is_final=True)
        record = self._listing.find_result(webhook.result_guid)
        if record is None:
            raise DeliveryError("the result is gone", is_final=True)
        number = record["result_answer"] if webhook.question.responses else None
        document = {**record, "numeric_response": number}
        try:
            await self._courier.post(receiver, json.dumps(document, ensure_ascii=False).encode())
        except ForbiddenHostError:
            if is_kept(self._store, receiver.host):
                raise _LeftToOthersError from None
            raise


class _LeftToOthersError(Exception):
    """Another service on the file may call the host."""
