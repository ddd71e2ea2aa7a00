"""HTTP connections to the service: one request and its answer make an exchange.

There are no retries, cookies or netrc; only GETs follow redirects, and only within the service.
urllib3 passes a request's own settings only to its pools, so connections get the current exchange from the
thread that makes it.
"""

from __future__ import annotations

import logging
import ssl
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from http.client import HTTPException
from time import monotonic
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode, urljoin

import certifi
import requests
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies, select_proxy
from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, LocationParseError, NewConnectionError
from urllib3.util import parse_url, wait_for_read
from urllib3.util.ssl_ import create_urllib3_context

from runner.errors import ConfigurationError
from runner.service.answer import (
    BROKE_OFF,
    LATE,
    NO_ANSWER,
    UNREADABLE,
    Answer,
    BrokenAnswerError,
    Location,
    WireAnswer,
    read_body,
)
from runner.service.target import SANDBOX, name_origin, parse_base_url
from runner.version import __version__

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from urllib3 import HTTPConnectionPool, PoolManager

    from runner.service.target import Target


_DOUBT_S = 0.02
"""Time by which the connection's end may follow an answer."""
_SPARE = 2
"""Connections for those who ask while all others send."""
_REDIRECTS = {
    HTTPStatus.MOVED_PERMANENTLY,
    HTTPStatus.FOUND,
    HTTPStatus.SEE_OTHER,
    HTTPStatus.TEMPORARY_REDIRECT,
    HTTPStatus.PERMANENT_REDIRECT,
}
_MOST_REDIRECTS = 5
_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"sms-campaign-runner/{__version__}",
}


class NoConnectionError(Exception):
    """A failure to connect; nothing has been sent."""


class StoppedError(Exception):
    """A refusal by the last look before sending, which raised `cause`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__()
        self.cause = cause


@dataclass(slots=True)
class Exchange:
    """One request and its answer.

    Attributes:
        look: called once connected, right before the first byte.
        service: all exchanges with the service.
        bytes_left: True if any byte of the request may have left this machine.
        answer: the part that has arrived.
    """

    look: Callable[[], None]
    service: Connection
    bytes_left: bool = field(default=False, init=False)
    answer: WireAnswer | None = field(default=None, init=False)


_current: ContextVar[Exchange] = ContextVar("exchange")
"""The exchange that this thread's connection carries."""


class GuardedConnection(HTTPConnection):
    """A connection that sends each request in one piece and keeps to its time."""

    _answer: WireAnswer | None = None
    _pieces: list[bytes] | None = None
    _deadline = 0.0

    @property
    def is_connected(self) -> bool:
        """True if the pool can use it again.

        Some services close the connection silently after each answer. A request that crosses the close would
        have an unknown outcome, so this waits briefly for one, until a connection is found open, and whenever
        one was found closed.
        """
        # An idle connection is readable if it has ended, or has bytes that nobody asked for.
        if self.sock is None or self._has_more():
            return False
        service = _current.get().service
        service.leaves_open = not wait_for_read(self.sock, timeout=0.0 if service.leaves_open else _DOUBT_S)
        return service.leaves_open

    def _has_more(self) -> bool:
        """Return True if bytes after the last answer were received, in the buffer or in TLS."""
        if self._answer is not None and self._answer.has_more_behind:
            return True
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def connect(self) -> None:
        """Connect, through a tunnel and with TLS where needed.

        Raises:
            NoConnectionError: the connection failed.
        """
        self._deadline = monotonic() + (self.timeout or 0.0)
        is_proxied = self.proxy is not None
        try:
            super().connect()
        except (HTTPError, HTTPException, OSError, ValueError, BrokenAnswerError) as error:
            # The library's own message contains the address.
            raise NoConnectionError(_explain_connection(error, is_proxied=is_proxied)) from None

    def request(self, *args: Any, **options: Any) -> None:
        """Send a request in one piece: two would be two system calls and two packets.

        Raises:
            NoConnectionError: the connection failed.
            StoppedError: the last look refused.
            BrokenAnswerError: only a part of it was sent.
        """
        exchange = _current.get()
        if self.sock is None:
            self.connect()
        # The library sets the socket's timeout to it.
        self.timeout = exchange.service.patience_s
        self._pieces = []
        try:
            super().request(*args, **options)
        finally:
            pieces, self._pieces = self._pieces, None
        try:
            exchange.look()
        except Exception as error:  # noqa: BLE001  it comes through the library as something of its own
            raise StoppedError(error) from None
        exchange.bytes_left = True
        try:
            self.send(b"".join(pieces))
        except TimeoutError:
            raise BrokenAnswerError(LATE) from None
        except (BrokenPipeError, ConnectionResetError):
            # A service may answer before it has read everything: the pool goes on to read the answer.
            raise
        except OSError:
            raise BrokenAnswerError(NO_ANSWER) from None
        finally:
            self._deadline = monotonic() + exchange.service.patience_s

    def send(self, data: Any) -> None:
        """Send bytes, or keep them until their request is complete."""
        if self._pieces is None:
            super().send(data)
        else:
            self._pieces.append(data)

    def response_class(  # type: ignore[override]  # http.client calls it, and says no more of it
        self, sock: socket.socket, *, method: str | None = None
    ) -> WireAnswer:
        """Return an unread response."""
        self._answer = _current.get().answer = WireAnswer(sock, method, self._deadline)
        return self._answer


def guard_pools(manager: PoolManager) -> None:
    """Make all connections of a manager's pools guarded ones."""
    manager.pool_classes_by_scheme = {
        scheme: _guard(pool) for scheme, pool in manager.pool_classes_by_scheme.items()
    }


@cache
def _guard(pool: type[HTTPConnectionPool]) -> type[HTTPConnectionPool]:
    if issubclass(pool.ConnectionCls, GuardedConnection):
        return pool
    connection = type(f"Guarded{pool.ConnectionCls.__name__}", (GuardedConnection, pool.ConnectionCls), {})
    return type(f"Guarded{pool.__name__}", (pool,), {"ConnectionCls": connection})


def _explain_connection(error: Exception, *, is_proxied: bool) -> str:
    # Checked first: urllib3 makes it a subclass of its timeout error.
    if isinstance(error, NewConnectionError):
        return "the proxy cannot be reached" if is_proxied else "it cannot be reached"
    if isinstance(error, (ConnectTimeoutError, TimeoutError)) or LATE in error.args:
        return "it did not take the connection in time"
    if isinstance(error, ssl.SSLError):
        return "its certificate was not accepted, or TLS failed"
    return "the proxy refused" if is_proxied else "it cannot be reached"


class ServiceAdapter(HTTPAdapter):
    """An adapter that sends requests to one target, without cookies, netrc and retries.

    The pool and the TLS context are made once: requests would look up the pool for each request, and reading
    all certificates takes longer than many sends.
    """

    def __init__(
        self, url: str, proxies: dict[str, str], context: ssl.SSLContext | None, connections: int
    ) -> None:
        self._context = context
        super().__init__(pool_connections=1, pool_maxsize=connections, max_retries=0)
        self._sample = requests.PreparedRequest()
        self._sample.url = url
        self._proxies = proxies
        self._pool = self._find_pool()
        # An HTTP proxy gets the whole address of a plain request; TLS goes through a tunnel.
        self._is_forwarded = not super().request_url(self._sample, proxies).startswith("/")

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Make pools with guarded connections."""
        super().init_poolmanager(*args, ssl_context=self._context, **options)
        guard_pools(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        """Return a manager of guarded connections through a proxy."""
        contexts = {"ssl_context": self._context, "proxy_ssl_context": self._context}
        manager = super().proxy_manager_for(proxy, **contexts, **options)
        guard_pools(manager)
        return manager

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:
        """Return the one pool."""
        return self._pool

    def close(self) -> None:
        """Close the kept connections; a later request opens others."""
        super().close()
        self._pool.close()
        self._pool = self._find_pool()

    def _find_pool(self) -> HTTPConnectionPool:
        pool = super().get_connection_with_tls_context(self._sample, verify=True, proxies=self._proxies)
        return cast("HTTPConnectionPool", pool)

    def cert_verify(self, *_: Any) -> None:
        """Do nothing: the context has read the certificates."""

    def request_url(self, request: requests.PreparedRequest, _proxies: Any) -> str:
        """Return an address as the request line contains it."""
        return str(request.url) if self._is_forwarded else request.path_url


def _open_adapter(target: Target, verify: bool | str) -> ServiceAdapter:  # noqa: FBT001  as in requests
    """Return the adapter of a target; it reads the environment once."""
    url = str(parse_base_url(target).url)
    # The sandbox runs on this machine; a proxy would look for it on its own.
    proxies = {} if target.name == SANDBOX else get_environ_proxies(url)
    proxy = select_proxy(url, proxies) or ""
    needs_tls = any(address.lower().startswith("https:") for address in (url, proxy))
    context = _make_tls_context(verify) if needs_tls else None
    try:
        return ServiceAdapter(url, proxies, context, target.concurrency + _SPARE)
    except (requests.RequestException, HTTPError, TypeError):
        # Their messages contain the proxy's password. requests raises TypeError for a proxy without a host.
        raise ConfigurationError(
            f"the proxy for the target {target.name!r} is not one that can be used",
            hint="check http_proxy, https_proxy and all_proxy: only HTTP proxies can be used",
        ) from None


def _make_tls_context(verify: bool | str) -> ssl.SSLContext:  # noqa: FBT001  as in requests
    context = create_urllib3_context()
    if not isinstance(verify, str):
        # The system's bundle for companies with their own; that of requests for systems without one.
        context.load_default_certs()
        verify = certifi.where()
    try:
        context.load_verify_locations(verify)
    except OSError:
        raise ConfigurationError(
            f"the CA bundle {verify} cannot be read", hint="check REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE"
        ) from None
    return context


# The library logs addresses.
logging.getLogger("urllib3").setLevel(logging.CRITICAL + 1)


class NetworkError(Exception):
    """An exchange without a complete answer; the reason leaves out the address with its credentials.

    `bytes_left` is True if any byte of the request may have left this machine.
    """

    def __init__(self, reason: str, *, bytes_left: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.bytes_left = bytes_left


class Connection:
    """HTTP with one target, from any number of threads.

    `verify` is a CA bundle, or True for the system's and that of requests. A request has `patience_s` seconds
    to leave, and its answer as many to arrive. The service `leaves_open` connections if the last one that was
    used again was still open.
    """

    def __init__(self, target: Target, *, verify: bool | str = True) -> None:
        if target.base_url is None or target.credentials is None:
            raise ValueError(target.name)
        url = parse_base_url(target)
        self._origin = name_origin(url)
        self._base_url = f"{url.scheme}://{url.netloc}{url.path or ''}"
        self._adapter = _open_adapter(target, verify)
        self._timeout = (target.connect_timeout, target.read_timeout)
        self.patience_s, self.leaves_open = target.read_timeout, False
        self._credentials = urlencode(
            {"username": target.credentials.username, "api_key": target.credentials.api_key}
        )
        self._get = requests.Request("GET", self._base_url, headers=_HEADERS).prepare()
        post_headers = {**_HEADERS, "Content-Type": "application/json"}
        self._post = requests.Request("POST", self._base_url, headers=post_headers).prepare()

    def post(self, path: str, body: bytes, look: Callable[[], None] = lambda: None) -> Answer:
        """Send one POST with a JSON body to a path below the base URL.

        `look` is called once connected, right before the first byte; an exception from it is passed on, and
        nothing is sent.

        Raises:
            NetworkError: no complete answer arrived.
        """
        request = self._post.copy()
        request.url = f"{self._base_url}{path}?{self._credentials}"
        request.body = body
        request.headers["Content-Length"] = str(len(body))
        return self._exchange(request, look)

    def get(self, path: str, query: dict[str, str | int]) -> Answer:
        """Send one GET, and follow redirects within the service.

        Raises:
            NetworkError: no complete answer arrived.
        """
        asked = "&".join(filter(None, (urlencode(query), self._credentials)))
        url = f"{self._base_url}{path}"
        for _ in range(_MOST_REDIRECTS + 1):
            request = self._get.copy()
            request.url = f"{url}?{asked}"
            answer = self._exchange(request)
            if answer.location is None or answer.location.origin != self._origin:
                return answer
            # Only the path is taken from the new address: query and credentials are our own.
            url = f"{self._origin}{answer.location.path}"
        raise NetworkError(f"it redirects more than {_MOST_REDIRECTS} times", bytes_left=True)

    def close(self) -> None:
        """Close the kept connections."""
        self._adapter.close()

    def _exchange(self, request: requests.PreparedRequest, look: Callable[[], None] = lambda: None) -> Answer:
        exchange = Exchange(look, self)
        try:
            response, body = self._fetch(request, exchange)
        except StoppedError as stopped:
            # Raised without its context, as it was.
            raise stopped.cause from stopped.cause.__cause__
        except (NoConnectionError, BrokenAnswerError) as error:
            raise NetworkError(str(error), bytes_left=exchange.bytes_left) from None
        except (requests.RequestException, HTTPError, HTTPException, OSError, ValueError):
            # The library's own message contains the address.
            raise NetworkError(_explain(exchange), bytes_left=exchange.bytes_left) from None
        headers = {name.lower(): value for name, value in response.headers.items()}
        location = _find_location(response) if response.status_code in _REDIRECTS else None
        return Answer(response.status_code, headers, body, location)

    def _fetch(
        self, request: requests.PreparedRequest, exchange: Exchange
    ) -> tuple[requests.Response, bytes]:
        token = _current.set(exchange)
        try:
            response = self._adapter.send(request, stream=True, timeout=self._timeout)
        finally:
            _current.reset(token)
        with response:
            return response, read_body(response.raw)


def _explain(exchange: Exchange) -> str:
    """Explain the failure of an exchange."""
    if not exchange.bytes_left:
        return "its address cannot be asked"
    is_cut_off = exchange.answer is not None and exchange.answer.is_cut_off
    return BROKE_OFF if is_cut_off else UNREADABLE


def _find_location(response: requests.Response) -> Location | None:
    """Return a redirect's target; None without a readable one."""
    try:
        url = parse_url(urljoin(str(response.url), response.headers["location"]))
        return Location(name_origin(url), url.path or "/") if url.host else None
    except (KeyError, ValueError, LocationParseError):
        return None
