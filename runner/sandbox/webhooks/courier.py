"""POSTs a body to a webhook's receiver: the sandbox must not be made to call inside networks."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from runner.sandbox.webhooks.receiver import choose_addresses

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

    from runner.sandbox.webhooks.receiver import Receiver

_MOST_DROPPED = 64 * 1024  # bytes of an answer that nobody reads
_LAST_WAIT_S = 1.0
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: .*)?\r?\n")


class DeliveryError(Exception):
    """A body was not taken; the message says why and never repeats the address.

    Attributes:
        is_final: whether trying again cannot help.
    """

    def __init__(self, problem: str, *, is_final: bool = False) -> None:
        super().__init__(problem)
        self.is_final = is_final


class ForbiddenHostError(DeliveryError):
    """The receiver's host may not be called by this service."""

    def __init__(self) -> None:
        super().__init__("the host is neither on loopback nor allowed", is_final=True)


class Courier:
    """Speaks HTTP/1.1 to receivers, one connection a request.

    Names are resolved once for each request, the addresses are checked, and the connection goes to one of
    these very addresses, so that a name that changes its meaning (DNS rebinding) leads nowhere. Redirects are
    not followed, proxies are not used, https certificates are verified.

    Args:
        allowed_hosts: names and addresses, as `allowance.read_hosts` gives them, that may be called wherever
            they lead; others only on loopback.
        timeout: for a whole request, up to the first line of the answer.
        tls: what https trusts; the system's certificate authorities if None.
    """

    def __init__(
        self, *, allowed_hosts: Collection[str], timeout: timedelta, tls: ssl.SSLContext | None = None
    ) -> None:
        self._allowed_hosts = frozenset(allowed_hosts)
        self._timeout_s = timeout.total_seconds()
        self._given_tls = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # Loading the system's certificates takes a while: only where https is spoken.
        return self._given_tls or ssl.create_default_context()

    async def post(self, receiver: Receiver, body: bytes) -> None:
        """POST a JSON document.

        Raises:
            ForbiddenHostError: the receiver may not be called.
            DeliveryError: it did not answer with 2xx in time.
        """
        try:
            status = await self._exchange(receiver, body)
        except TimeoutError:
            raise DeliveryError(f"no answer within {self._timeout_s:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise DeliveryError(f"the certificate is not trusted: {error.verify_message}") from None
        except (OSError, ValueError, EOFError) as error:
            # Their own words may repeat the address.
            raise DeliveryError(f"the connection failed ({type(error).__name__})") from None
        if 300 <= status < 400:  # noqa: PLR2004  RFC 9110, section 15.4
            raise DeliveryError(f"answered {status}; redirects are not followed")
        if not 200 <= status < 300:  # noqa: PLR2004  RFC 9110, section 15.3
            raise DeliveryError(f"answered {status}")

    async def _exchange(self, receiver: Receiver, body: bytes) -> int:
        ends = asyncio.get_running_loop().time() + self._timeout_s
        async with asyncio.timeout_at(ends):
            reader, writer = await self._connect(receiver, ends)
        try:
            async with asyncio.timeout_at(ends):
                writer.write(_write_head(receiver, len(body)) + body)
                await writer.drain()
                status = await _read_status(reader)
            await _drop_rest(reader, min(_LAST_WAIT_S, self._timeout_s))
            return status
        finally:
            writer.close()

    async def _connect(
        self, receiver: Receiver, ends: float
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first of the receiver's addresses that takes it; each has its share of the time."""
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
                # Somebody is there whom nobody trusts: that is worth telling.
                if left == 1 or isinstance(error, ssl.SSLError):
                    raise
        raise ForbiddenHostError


async def _resolve(receiver: Receiver) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(receiver.host, receiver.port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


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


async def _read_status(reader: asyncio.StreamReader) -> int:
    """Read the first line of the answer, after interim ones (RFC 9110, section 15.2)."""
    while True:
        match = _STATUS_LINE.fullmatch(await reader.readline())
        if match is None:
            raise DeliveryError("the answer is not HTTP")
        if (status := int(match[1])) >= 200:  # noqa: PLR2004  the first status that is no interim one
            return status
        while (await reader.readline()).strip():
            pass


async def _drop_rest(reader: asyncio.StreamReader, seconds: float) -> None:
    """Let the receiver finish: one that is hung up on in the middle of its answer logs an error."""
    left = _MOST_DROPPED
    with suppress(OSError):
        async with asyncio.timeout(seconds):
            while left > 0 and (dropped := await reader.read(left)):
                left -= len(dropped)
