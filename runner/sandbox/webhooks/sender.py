"""Background sending of each result to its question's webhook, until it is accepted or given up.

POSTs must not lead the sandbox into inside networks.
"""

from __future__ import annotations

import asyncio
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
from runner.sandbox.commits import CommitGroup
from runner.sandbox.records import RecordList
from runner.sandbox.webhooks.queue import RetrySchedule, Webhook, WebhookQueue
from runner.sandbox.webhooks.receiver import choose_addresses, is_kept, parse_receiver
from runner.sandbox.webhooks.signature import sign

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import datetime

    from runner.sandbox.store import Store
    from runner.sandbox.webhooks.receiver import Receiver


_AT_ONCE = 32
_AT_ONCE_EACH = 8  # to one receiver, so that a hanging one leaves room for others
_LEFT_FOR = timedelta(seconds=5)  # after which the other service may be gone
_POLL_S = 0.2  # other processes on the same file record results, too
_LAST_WAIT_S = 1.0
_MOST_DROPPED = 64 * 1024  # bytes of an answer that nobody reads
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: .*)?\r?\n")


class DeliveryError(Exception):
    """A failed delivery, explained without the address.

    Attributes:
        is_final: True if trying again cannot help.
        forbidden_host: the receiver's host, if this service may not call it.
    """

    def __init__(self, problem: str, *, is_final: bool = False, forbidden_host: str | None = None) -> None:
        super().__init__(problem)
        self.is_final = is_final
        self.forbidden_host = forbidden_host


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
            status = await self._exchange(receiver, body, headers)
        except TimeoutError:
            raise DeliveryError(f"no answer within {self._timeout_s:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise DeliveryError(f"the certificate is not trusted: {error.verify_message}") from None
        except (OSError, ValueError, EOFError) as error:
            # Their own messages may repeat the address.
            raise DeliveryError(f"the connection failed ({type(error).__name__})") from None
        if 300 <= status < 400:  # noqa: PLR2004  RFC 9110, section 15.4
            raise DeliveryError(f"answered {status}; redirects are not followed")
        if not 200 <= status < 300:  # noqa: PLR2004  RFC 9110, section 15.3
            raise DeliveryError(f"answered {status}")

    async def _exchange(self, receiver: Receiver, body: bytes, headers: Mapping[str, str]) -> int:
        ends = asyncio.get_running_loop().time() + self._timeout_s
        async with asyncio.timeout_at(ends):
            reader, writer = await self._connect(receiver, ends)
        try:
            async with asyncio.timeout_at(ends):
                writer.write(_write_head(receiver, len(body), headers) + body)
                await writer.drain()
                status = await _read_status(reader)
            await _drop_rest(reader, min(_LAST_WAIT_S, self._timeout_s))
            return status
        finally:
            writer.close()
            if receiver.is_secure:
                # TLS would wait for the receiver's goodbye, perhaps beyond the end of the loop.
                writer.transport.abort()

    async def _connect(
        self, receiver: Receiver, ends: float
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the receiver's first address that accepts; each has its share of the time."""
        addresses = choose_addresses(receiver, await _resolve(receiver), self._allowed_hosts)
        loop = asyncio.get_running_loop()
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                async with asyncio.timeout((ends - loop.time()) / left):
                    return await asyncio.open_connection(
                        address,
                        receiver.port,
                        ssl=self._tls if receiver.is_secure else None,
                        server_hostname=receiver.host if receiver.is_secure else None,
                    )
            except OSError as error:
                # An untrusted certificate is worth reporting.
                if left == 1 or isinstance(error, ssl.SSLError):
                    raise
        problem = "the host is neither on loopback nor allowed"
        raise DeliveryError(problem, is_final=True, forbidden_host=receiver.host)


async def _resolve(receiver: Receiver) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(receiver.host, receiver.port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


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


async def _read_status(reader: asyncio.StreamReader) -> int:
    """Return the status of the answer, after interim ones (RFC 9110, section 15.2)."""
    while True:
        match = _STATUS_LINE.fullmatch(await reader.readline())
        if match is None:
            raise DeliveryError("the answer is not HTTP")
        if (status := int(match[1])) >= 200:  # noqa: PLR2004  the first status that is no interim one
            return status
        while (await reader.readline()).strip():
            pass


async def _drop_rest(reader: asyncio.StreamReader, seconds: float) -> None:
    """Read the rest: a receiver logs an error if the connection ends within its answer."""
    left = _MOST_DROPPED
    with suppress(OSError):
        async with asyncio.timeout(seconds):
            while left > 0 and (dropped := await reader.read(left)):
                left -= len(dropped)


class WebhookSender:
    """The background task of a service that empties the store's queue of webhooks.

    Several services on one file share the work. Results come in no order, and perhaps twice, with the same
    `result_guid`.

    Args:
        store: the service's state; used on the event loop alone.
        allowed_hosts: names and addresses, from `receiver.read_hosts`, that may always be called. Others
            must be loopback, or are left to another service on the file that may call them.
        secret: key of the signatures, as the bytes of its UTF-8; without one nothing is signed.
        patience: the retry schedule.
        clock: the machine's clock, since the service's may be moved.
    """

    def __init__(
        self,
        store: Store,
        *,
        allowed_hosts: Collection[str] = (),
        secret: str | None = None,
        patience: RetrySchedule | None = None,
        clock: Callable[[], datetime] = read_clock,
    ) -> None:
        patience = patience or RetrySchedule()
        self._store = store
        self._commits = CommitGroup(store)
        self._queue = WebhookQueue(store, patience)
        self._client = WebhookClient(allowed_hosts=allowed_hosts, timeout=patience.timeout)
        self._listing = RecordList(store)
        self._clock = clock
        self._key = None if secret is None else secret.encode(errors="replace")
        # Receivers that are left to other services, and until when. Postponing their webhooks would not do:
        # of services that look equally often, the same one would always be first.
        self._left: dict[str, datetime] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Send due webhooks until `stop` is set; the current ones then have a second left."""
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
        """Claim further webhooks in steps that fit every receiver's limit."""
        counts = Counter(webhook.receiver for webhook in under_way)
        while (free := _AT_ONCE - counts.total()) > 0:
            now = self._clock()
            self._left = {receiver: until for receiver, until in self._left.items() if until > now}
            busy = [receiver for receiver, count in counts.items() if count >= _AT_ONCE_EACH]
            # All due webhooks may be for the busiest receiver.
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
        # A try whose outcome could not be written counts as lost and is repeated.
        with suppress(sqlite3.OperationalError):
            settle = await self._try(webhook)
            await self._commits.write(settle)

    async def _try(self, webhook: Webhook) -> Callable[[], None]:
        """Try once, and return the function that records the outcome."""
        problem, is_final = None, False
        try:
            await self._post(webhook)
        except DeliveryError as error:
            if error.forbidden_host is not None and is_kept(self._store, error.forbidden_host):
                # Another service on the file may call it.
                self._left[webhook.receiver] = self._clock() + _LEFT_FOR
                return lambda: self._queue.release([webhook], self._clock())
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
        body = json.dumps(document, ensure_ascii=False).encode()
        # The machine's time: receivers compare it with their own.
        now, key = self._clock(), self._key
        await self._client.post(
            receiver, body, {} if key is None else sign(key, webhook.result_guid, now, body)
        )
