"""The one door to the network: an exchange is one request and its answer, and no more.

No retries, no redirects, no cookies, no netrc. What requests and urllib3 know of proxies, certificates and
kept connections is used; what they do for each call is not: it costs more than the call itself
(design: performance).
"""

from __future__ import annotations

import logging
import ssl
from collections import deque
from http.client import HTTPException
from time import monotonic
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from requests.adapters import HTTPAdapter
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError
from urllib3.util import wait_for_read

from runner import __version__
from runner.service.answer import Answer, AnswerReader, BrokenAnswerError
from runner.service.route import open_pool, parse_base_url

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from urllib3.connection import HTTPConnection

    from runner.service.target import Target

# The library logs addresses.
logging.getLogger("urllib3").setLevel(logging.CRITICAL + 1)

_PIECE = 1 << 16
_DOUBT_S = 0.02
"""How far behind an answer the connection's end may come."""


class NetworkError(Exception):
    """No whole answer came back.

    Attributes:
        reason: in words, without the address, which carries credentials.
        bytes_left: whether any byte of the request can have left this machine.
    """

    def __init__(self, reason: str, *, bytes_left: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.bytes_left = bytes_left


class Connection:
    """Speaks HTTP with one target, from any number of threads.

    Args:
        target: its base URL and credentials must be there.
        verify: a CA bundle, as a file or a folder; True for the system's and that of requests.

    Raises:
        ConfigurationError: the target's host, the proxy for it or the CA bundle is not one that can be used.
    """

    def __init__(self, target: Target, *, verify: bool | str = True) -> None:
        if target.base_url is None or target.credentials is None:
            raise ValueError(target.name)
        url = parse_base_url(target)
        self._adapter = HTTPAdapter(pool_connections=1, max_retries=0)
        self._pool = open_pool(self._adapter, target, verify=verify)
        self._kept: deque[HTTPConnection] = deque()
        self._trusts_kept = False
        # A proxy that is asked for an address in the clear is told all of it; through others goes a tunnel.
        is_proxied = self._pool.proxy is not None
        is_forwarded = is_proxied and url.scheme == "http"
        self._is_tunnelled = is_proxied and not is_forwarded
        self._prefix = (f"http://{url.netloc}" if is_forwarded else "") + (url.path or "")
        self._connect_timeout, self._read_timeout = target.connect_timeout, target.read_timeout
        self._credentials = urlencode(
            {"username": target.credentials.username, "api_key": target.credentials.api_key}
        )
        self._headers = (
            f"Host: {url.netloc}\r\n"
            "Accept: application/json\r\n"
            "Accept-Encoding: identity\r\n"
            f"User-Agent: sms-campaign-runner/{__version__}\r\n"
        )
        if is_forwarded:
            self._headers += "".join(f"{n}: {v}\r\n" for n, v in self._pool.proxy_headers.items())

    def post(self, path: str, body: bytes, look: Callable[[], None] = lambda: None) -> Answer:
        """Send one POST with a JSON body.

        Args:
            path: below the base URL.
            body: JSON.
            look: is called when the connection stands, right before the first byte; what it raises comes
                through, and nothing has been sent.

        Raises:
            NetworkError: no whole answer came back.
        """
        head = (
            f"POST {self._prefix}{path}?{self._credentials} HTTP/1.1\r\n{self._headers}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return self._exchange(head.encode("ascii") + body, look)

    def get(self, path: str, query: dict[str, str | int]) -> Answer:
        """Send one GET.

        Raises:
            NetworkError: no whole answer came back.
        """
        asked = "&".join(filter(None, (urlencode(query), self._credentials)))
        head = f"GET {self._prefix}{path}?{asked} HTTP/1.1\r\n{self._headers}\r\n"
        return self._exchange(head.encode("ascii"))

    def close(self) -> None:
        """Close the kept connections."""
        while self._kept:
            self._kept.pop().close()
        self._adapter.close()

    def _exchange(self, request: bytes, look: Callable[[], None] = lambda: None) -> Answer:
        try:
            connection = self._take_kept() or self._open_connection()
        except (HTTPError, HTTPException, OSError) as error:
            # The library's own message holds the address.
            reason = _explain_no_connection(error, is_proxied=self._pool.proxy is not None)
            raise NetworkError(reason, bytes_left=False) from None
        reader = AnswerReader()
        try:
            look()
            _converse(connection.sock, request, reader, self._read_timeout)
            answer = reader.read()
        except (BrokenAnswerError, OSError) as error:
            connection.close()
            raise NetworkError(_explain_no_answer(error, reader), bytes_left=True) from None
        except BaseException:
            connection.close()
            raise
        if reader.leaves_open:
            self._kept.append(connection)
        else:
            connection.close()
        return answer

    def _take_kept(self) -> HTTPConnection | None:
        """Return a kept connection that is still open, the one that rested least; None if there is none.

        A service may close one after each answer without a word: its end then comes just behind the
        answer, and a request that crosses it would have an unknown outcome. So it is waited for, until one
        is found open, and whenever one was found closed.
        """
        while True:
            try:
                connection = self._kept.pop()
            except IndexError:
                return None
            # What can be read from a resting connection is its end, or what nobody asked for.
            is_open = not wait_for_read(connection.sock, timeout=0.0 if self._trusts_kept else _DOUBT_S)
            self._trusts_kept = is_open
            if is_open:
                return connection
            connection.close()

    def _open_connection(self) -> HTTPConnection:
        """Return a new connection that stands.

        The pool only makes it: lending it out for each exchange would cost more than the exchange.
        """
        pool: Any = self._pool
        connection = pool._new_conn()  # noqa: SLF001  see above
        connection.timeout = self._connect_timeout
        try:
            if self._is_tunnelled:
                pool._prepare_proxy(connection)  # noqa: SLF001  see above
            else:
                connection.connect()
            connection.sock.settimeout(self._read_timeout)
        except BaseException:
            connection.close()
            raise
        return cast("HTTPConnection", connection)


def _converse(sock: socket.socket, request: bytes, reader: AnswerReader, patience_s: float) -> None:
    """Send a request and read its answer; `patience_s` is what the socket's timeout is set to."""
    # In one piece: two would be two system calls, and two packets.
    sock.sendall(request)
    deadline = monotonic() + patience_s
    while not _receive(sock, reader):
        # The socket waits as long as before for each piece: an answer in many of them would never be late.
        left_s = deadline - monotonic()
        if left_s <= 0:
            raise TimeoutError
        sock.settimeout(left_s)
    # Setting it is a system call, which the answer in one piece doesn't need.
    if sock.gettimeout() != patience_s:
        sock.settimeout(patience_s)


def _receive(sock: socket.socket, reader: AnswerReader) -> bool:
    """Give the reader the next piece; return whether its answer is whole."""
    piece = sock.recv(_PIECE)
    if piece:
        reader.feed(piece)
    else:
        reader.end()
    return reader.is_whole


def _explain_no_connection(error: Exception, *, is_proxied: bool) -> str:
    # Asked for first: urllib3 has it as a kind of its error for a slow one.
    if isinstance(error, NewConnectionError):
        return "the proxy cannot be reached" if is_proxied else "it cannot be reached"
    if isinstance(error, (ConnectTimeoutError, TimeoutError)):
        return "it did not take the connection in time"
    if isinstance(error, ssl.SSLError):
        return "its certificate was not accepted, or TLS failed"
    return "the proxy refused" if is_proxied else "it cannot be reached"


def _explain_no_answer(error: Exception, reader: AnswerReader) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return str(error) if isinstance(error, BrokenAnswerError) else reader.describe_break()
