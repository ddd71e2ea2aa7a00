"""Delivery of results to their questions' webhooks: a POST has the record and `numeric_response`."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from runner.sandbox.clock import read_clock
from runner.sandbox.records import RecordList
from runner.sandbox.webhooks.queue import Webhook, list_due_webhooks, settle_webhook
from runner.sandbox.webhooks.receiver import is_local, parse_receiver

if TYPE_CHECKING:
    from collections.abc import Collection

    from runner.sandbox.commits import Writer
    from runner.sandbox.webhooks.receiver import Receiver


TIMEOUT_S = 5.0
"""For a whole request, up to the first line of the answer."""
WAITS = (timedelta(seconds=1), timedelta(seconds=10))
"""The waits between the three tries of a webhook."""
_AT_ONCE = 32
_POLL_S = 0.2  # other processes on the same file record results, too
_LAST_WAIT_S = 1.0
_MOST_DROPPED = 64 * 1024  # bytes of an answer that nobody reads
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: .*)?\r?\n")


class DeliveryError(Exception):
    """A failed delivery, explained without the address."""


async def post(receiver: Receiver, body: bytes, allowed_hosts: Collection[str] = ()) -> None:
    """POST a JSON document; redirects and proxies are ignored, certificates of https are verified.

    Beside `allowed_hosts`, from `receiver.read_hosts`, only this machine is called.

    Raises:
        DeliveryError: the receiver may not be called, or did not answer with 2xx in time.
    """
    if not (is_local(receiver.host) or receiver.host.rstrip(".") in allowed_hosts):
        raise DeliveryError("the host is neither on loopback nor allowed")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            line = await _exchange(receiver, _write_head(receiver, len(body)) + body)
    except TimeoutError:
        raise DeliveryError(f"no answer within {TIMEOUT_S:g} s") from None
    except (OSError, ValueError) as error:
        # Their own messages may repeat the address.
        raise DeliveryError(f"the connection failed ({type(error).__name__})") from None
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise DeliveryError("the answer is not HTTP")
    if not match[1].startswith(b"2"):
        raise DeliveryError(f"answered {match[1].decode()}")


async def _exchange(receiver: Receiver, request: bytes) -> bytes:
    """Return the first line of the answer."""
    reader, writer = await asyncio.open_connection(
        receiver.host, receiver.port, ssl=receiver.is_secure or None
    )
    try:
        writer.write(request)
        line = await reader.readline()
        # A receiver logs an error if the connection ends within its answer.
        with suppress(OSError, EOFError):
            async with asyncio.timeout(_LAST_WAIT_S):
                await reader.readexactly(_MOST_DROPPED)
        return line
    finally:
        writer.transport.abort()


def _write_head(receiver: Receiver, length: int) -> bytes:
    lines = (
        f"POST {receiver.target} HTTP/1.1",
        f"Host: {receiver.authority}",
        "User-Agent: messaging-sandbox",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        "Connection: close",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("ascii")


class WebhookSender:
    """The background task of a service that empties the store's queue of webhooks.

    Results come in no order, and perhaps twice, with the same `result_guid`. `allowed_hosts`, from
    `receiver.read_hosts`, may be called beside loopback.
    """

    def __init__(self, writer: Writer, allowed_hosts: Collection[str] = ()) -> None:
        self._writer = writer
        self._store = writer.service.store
        self._allowed_hosts = allowed_hosts
        self._listing = RecordList(self._store)

    async def run(self, stop: asyncio.Event) -> None:
        """Send due webhooks until `stop` is set; the current ones then have a second left."""
        under_way: dict[asyncio.Task[None], int] = {}
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                # Another process may hold the file's lock for too long; nothing is lost by waiting.
                with suppress(sqlite3.OperationalError):
                    ids, free = list(under_way.values()), _AT_ONCE - len(under_way)
                    for webhook in list_due_webhooks(self._store.connection, read_clock(), ids, free):
                        under_way[asyncio.create_task(self._deliver(webhook))] = webhook.id
                tasks = {stopped, *under_way}
                await asyncio.wait(tasks, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
                under_way = {task: number for task, number in under_way.items() if not task.done()}
            if under_way:
                await asyncio.wait(under_way, timeout=_LAST_WAIT_S)
        finally:
            for task in (stopped, *under_way):
                task.cancel()
            await asyncio.gather(stopped, *under_way, return_exceptions=True)

    async def _deliver(self, webhook: Webhook) -> None:
        # A try whose outcome could not be written is repeated.
        with suppress(sqlite3.OperationalError):
            problem, retry_at = None, None
            try:
                await self._post(webhook)
            except DeliveryError as error:
                problem = str(error)
                if webhook.tries < len(WAITS):
                    retry_at = read_clock() + WAITS[webhook.tries]
            await self._writer.write(lambda: settle_webhook(self._store, webhook, problem, retry_at))

    async def _post(self, webhook: Webhook) -> None:
        receiver = parse_receiver(webhook.question.webhook or "")
        record = self._listing.find_result(webhook.result_guid)
        if receiver is None or record is None:
            raise DeliveryError("the result or its address is gone")
        number = record["result_answer"] if webhook.question.responses else None
        body = json.dumps({**record, "numeric_response": number}, ensure_ascii=False).encode()
        await post(receiver, body, self._allowed_hosts)
