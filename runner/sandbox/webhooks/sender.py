"""Delivery of results to the webhooks of their questions.

A POST has the result's record and `numeric_response`, and a signature as version 1 of the Standard Webhooks
specification (standardwebhooks.com).
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import re
import socket
import sqlite3
import ssl
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from runner.sandbox.clock import read_clock
from runner.sandbox.records import RecordList
from runner.sandbox.webhooks.queue import Webhook, list_due_webhooks, settle_webhook
from runner.sandbox.webhooks.receiver import is_loopback, parse_receiver

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from runner.sandbox.commits import Writer
    from runner.sandbox.webhooks.receiver import Receiver


TIMEOUT = timedelta(seconds=5)
WAITS = (timedelta(seconds=1), timedelta(seconds=10))
"""The waits between the three tries of a webhook."""
_AT_ONCE = 32
_AT_ONCE_EACH = 8  # of one receiver: while it hangs, the others get theirs
_POLL_S = 0.2  # other processes on the same file record results, too
_LAST_WAIT_S = 1.0
_MOST_DROPPED = 64 * 1024  # bytes of an answer that nobody reads
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5])([0-9]{2})(?: .*)?\r?\n")


class DeliveryError(Exception):
    """A failed delivery, explained without the address; `is_final` if trying again cannot help."""

    def __init__(self, problem: str, *, is_final: bool = False) -> None:
        super().__init__(problem)
        self.is_final = is_final


class WebhookClient:
    """A client of receivers for HTTP/1.1, with one connection a request.

    A name is resolved once for each request, and the connection goes to a checked address, so that DNS
    rebinding leads nowhere. Redirects and proxies are ignored, https certificates are verified.

    Args:
        allowed_hosts: names and addresses, from `receiver.read_hosts`, that may always be called; others
            only on loopback.
        timeout: for a whole request, up to the first line of the answer.
        tls: trust for https; the system's certificate authorities if None.
    """

    def __init__(
        self, *, allowed_hosts: Collection[str], timeout: timedelta, tls: ssl.SSLContext | None = None
    ) -> None:
        self._allowed_hosts = frozenset(allowed_hosts)
        self._timeout_s = timeout.total_seconds()
        self._given_tls = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # Loading the system's certificates takes a while: only for https.
        return self._given_tls or ssl.create_default_context()

    async def post(
        self, receiver: Receiver, body: bytes, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """POST a JSON document, with further headers.

        Raises:
            DeliveryError: the receiver may not be called, or did not answer with 2xx in time.
        """
        try:
            line = await self._exchange(receiver, _write_head(receiver, len(body), headers) + body)
        except TimeoutError:
            raise DeliveryError(f"no answer within {self._timeout_s:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise DeliveryError(f"the certificate is not trusted: {error.verify_message}") from None
        except (OSError, ValueError) as error:
            # Their own messages may repeat the address.
            raise DeliveryError(f"the connection failed ({type(error).__name__})") from None
        match = _STATUS_LINE.fullmatch(line)
        if match is None:
            raise DeliveryError("the answer is not HTTP")
        if match[1] != b"2":
            redirects = "; redirects are not followed" if match[1] == b"3" else ""
            raise DeliveryError(f"answered {match[1].decode()}{match[2].decode()}{redirects}")

    async def _exchange(self, receiver: Receiver, request: bytes) -> bytes:
        """Return the first line of the answer."""
        writer = None
        try:
            async with asyncio.timeout(self._timeout_s):
                reader, writer = await self._connect(receiver)
                writer.write(request)
                line = await reader.readline()
            # A receiver logs an error if the connection ends within its answer.
            with suppress(OSError, EOFError):
                async with asyncio.timeout(_LAST_WAIT_S):
                    await reader.readexactly(_MOST_DROPPED)
            return line
        finally:
            if writer is not None:
                writer.transport.abort()

    async def _connect(self, receiver: Receiver) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the receiver's first address that may be called and accepts."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(receiver.host, receiver.port, type=socket.SOCK_STREAM)
        is_allowed = receiver.host.rstrip(".") in self._allowed_hosts
        problem: Exception = DeliveryError("the host is neither on loopback nor allowed", is_final=True)
        for address in dict.fromkeys(str(each[0]) for *_, each in found):
            if not (is_allowed or is_loopback(address)):
                continue
            try:
                return await asyncio.open_connection(
                    address,
                    receiver.port,
                    ssl=self._tls if receiver.is_secure else None,
                    server_hostname=receiver.host if receiver.is_secure else None,
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                problem = error
        raise problem


def _write_head(receiver: Receiver, length: int, headers: Mapping[str, str]) -> bytes:
    lines = (
        f"POST {receiver.target} HTTP/1.1",
        f"Host: {receiver.authority}",
        "User-Agent: messaging-sandbox",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        *(f"{name}: {value}" for name, value in headers.items()),
        "Connection: close",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("ascii")


def sign(key: bytes, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers that prove a body's origin and age.

    Args:
        key: shared with the receiver.
        message_id: the same in every try, so that receivers recognise repetitions; without a full stop.
        at: the moment of this try.
        body: as it is sent.
    """
    timestamp = str(int(at.timestamp()))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    digest = hmac.digest(key, signed, "sha256")
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


class WebhookSender:
    """The background task of a service that empties the store's queue of webhooks.

    Results come in no order, and perhaps twice, with the same `result_guid`.

    Args:
        writer: of the service.
        allowed_hosts: names and addresses, from `receiver.read_hosts`, that may be called beside loopback.
        secret: key of the signatures, as the bytes of its UTF-8; without one nothing is signed.
        timeout: of a try, up to the first line of the answer; `TIMEOUT` if None.
        waits: between the tries; after one more than these a webhook is given up.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        allowed_hosts: Collection[str] = (),
        secret: str | None = None,
        timeout: timedelta | None = None,
        waits: Sequence[timedelta] = WAITS,
    ) -> None:
        self._writer = writer
        self._store = writer.service.store
        self._client = WebhookClient(allowed_hosts=allowed_hosts, timeout=timeout or TIMEOUT)
        self._waits = waits
        self._listing = RecordList(self._store)
        self._key = None if secret is None else secret.encode(errors="replace")

    async def run(self, stop: asyncio.Event) -> None:
        """Send due webhooks until `stop` is set; the current ones then have a second left."""
        under_way: dict[asyncio.Task[None], Webhook] = {}
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                # Another process may hold the file's lock for too long; nothing is lost by waiting.
                with suppress(sqlite3.OperationalError):
                    for webhook in self._choose(list(under_way.values())):
                        under_way[asyncio.create_task(self._deliver(webhook))] = webhook
                tasks = {stopped, *under_way}
                await asyncio.wait(tasks, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
                under_way = {task: webhook for task, webhook in under_way.items() if not task.done()}
            if under_way:
                await asyncio.wait(under_way, timeout=_LAST_WAIT_S)
        finally:
            for task in (stopped, *under_way):
                task.cancel()
            await asyncio.gather(stopped, *under_way, return_exceptions=True)

    def _choose(self, under_way: list[Webhook]) -> Iterator[Webhook]:
        """Yield the webhooks to be tried now."""
        calls = Counter(each.receiver for each in under_way)
        busy = [receiver for receiver, count in calls.items() if count >= _AT_ONCE_EACH]
        ids = [each.id for each in under_way]
        free = _AT_ONCE - len(under_way)
        for webhook in list_due_webhooks(self._store.connection, read_clock(), ids, busy, free):
            calls[webhook.receiver] += 1
            if calls[webhook.receiver] <= _AT_ONCE_EACH:
                yield webhook

    async def _deliver(self, webhook: Webhook) -> None:
        # A try whose outcome could not be written is repeated.
        with suppress(sqlite3.OperationalError):
            problem, is_final, retry_at = None, False, None
            try:
                await self._post(webhook)
            except DeliveryError as error:
                problem, is_final = str(error), error.is_final
            except sqlite3.OperationalError:
                raise
            except Exception as error:  # noqa: BLE001  our own mistake counts as a try, or it is made for ever
                problem = f"the sandbox failed ({type(error).__name__})"
            if problem and not is_final and webhook.tries < len(self._waits):
                retry_at = read_clock() + self._waits[webhook.tries]
            await self._writer.write(lambda: settle_webhook(self._store, webhook, problem, retry_at))

    async def _post(self, webhook: Webhook) -> None:
        receiver = parse_receiver(webhook.question.webhook or "")
        if receiver is None:
            raise DeliveryError("the address is no http or https URL", is_final=True)
        record = self._listing.find_result(webhook.result_guid)
        if record is None:
            raise DeliveryError("the result is gone", is_final=True)
        number = record["result_answer"] if webhook.question.responses else None
        document = {**record, "numeric_response": number}
        body = json.dumps(document, ensure_ascii=False).encode()
        # This machine's time, not the service's: receivers compare it with their own.
        now, key = read_clock(), self._key
        await self._client.post(
            receiver, body, {} if key is None else sign(key, webhook.result_guid, now, body)
        )
