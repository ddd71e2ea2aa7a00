"""Connections of urllib3's pools that ask before the first byte, and know if one can have left.

What a connection has to know of the request that it carries comes from the thread that makes the request:
the library hands a request's own settings through no further than to its pools.
"""

from __future__ import annotations

import ssl
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException
from time import monotonic
from typing import TYPE_CHECKING, Any

from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError
from urllib3.util import wait_for_read

from runner.service.answer import LATE, NO_ANSWER, BrokenAnswerError, WireAnswer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from urllib3 import HTTPConnectionPool, PoolManager

_DOUBT_S = 0.02
"""How far behind an answer the connection's end may come."""


class NoConnectionError(Exception):
    """No connection stands, and nothing has been sent; says in words why."""


class StoppedError(Exception):
    """The last look has found that nothing may leave.

    Attributes:
        cause: what it raised.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__()
        self.cause = cause


@dataclass(slots=True)
class Habits:
    """What a service was found to do with connections after an answer.

    Attributes:
        leaves_open: whether the last one that was to be used again was still open.
    """

    leaves_open: bool = False


@dataclass(slots=True)
class Exchange:
    """One request and its answer.

    Attributes:
        look: is called when the connection stands, right before the first byte.
        patience_s: for the request to leave, and then for its whole answer to come.
        habits: of the service, shared by all exchanges with it.
        bytes_left: whether any byte of the request can have left this machine.
        answer: as far as it has come.
    """

    look: Callable[[], None]
    patience_s: float
    habits: Habits
    bytes_left: bool = field(default=False, init=False)
    answer: WireAnswer | None = field(default=None, init=False)

    @contextmanager
    def carried_by_this_thread(self) -> Iterator[None]:
        """Have connections that this thread uses know of it as long as the block lasts."""
        before, _here.exchange = _here.exchange, self
        try:
            yield
        finally:
            _here.exchange = before


class _Here(threading.local):
    exchange: Exchange | None = None


_here = _Here()


def _find_exchange() -> Exchange:
    if _here.exchange is None:
        raise RuntimeError("guarded connections carry exchanges, and nothing else")
    return _here.exchange


class GuardedConnection(HTTPConnection):
    """A connection that carries exchanges, each of them in one piece and within its time."""

    _answer: WireAnswer | None = None
    _pieces: list[bytes] | None = None
    _deadline = 0.0

    @property
    def is_connected(self) -> bool:
        """Whether it can be used again, which the pool asks before it is.

        A service may close one after each answer without a word: its end then comes just behind the
        answer, and a request that crosses it would have an unknown outcome. So it is waited for, until one
        is found open, and whenever one was found closed.
        """
        # What can be read from a resting connection is its end, or what nobody asked for.
        if self.sock is None or self._has_more():
            return False
        habits = _find_exchange().habits
        is_open = not wait_for_read(self.sock, timeout=0.0 if habits.leaves_open else _DOUBT_S)
        habits.leaves_open = is_open
        return is_open

    def _has_more(self) -> bool:
        """Return whether more than the last answer was received, and lies here or where TLS keeps it."""
        if self._answer is not None and self._answer.has_more_behind:
            return True
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def connect(self) -> None:
        """Connect, through a tunnel if there is to be one, and with TLS if that is spoken.

        Raises:
            NoConnectionError: no connection stands.
        """
        self._deadline = monotonic() + (self.timeout or 0.0)
        is_proxied = self.proxy is not None
        try:
            super().connect()
        except (HTTPError, HTTPException, OSError, ValueError, BrokenAnswerError) as error:
            # The library's own message holds the address.
            raise NoConnectionError(_explain(error, is_proxied=is_proxied)) from None

    def request(self, *args: Any, **options: Any) -> None:
        """Send a request in one piece: two would be two system calls, and two packets.

        Raises:
            NoConnectionError: no connection stands.
            StoppedError: the last look raised this.
            BrokenAnswerError: not all of it could be sent.
        """
        exchange = _find_exchange()
        if self.sock is None:
            self.connect()
        # The library sets the socket to it.
        self.timeout = exchange.patience_s
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
            # A service may answer before it has read everything: the pool goes on, and reads what came.
            raise
        except OSError:
            raise BrokenAnswerError(NO_ANSWER) from None
        finally:
            self._deadline = monotonic() + exchange.patience_s

    def send(self, data: Any) -> None:
        """Send some bytes, or keep them until their request is whole."""
        if self._pieces is None:
            super().send(data)
        else:
            self._pieces.append(data)

    def response_class(  # type: ignore[override]  # http.client calls it, and says no more of it
        self, sock: socket.socket, *, method: str | None = None
    ) -> WireAnswer:
        """Return a response that is about to be read."""
        self._answer = _find_exchange().answer = WireAnswer(sock, method, self._deadline)
        return self._answer


def guard_pools(manager: PoolManager) -> None:
    """Have all connections that a manager's pools will make be guarded ones."""
    manager.pool_classes_by_scheme = {
        scheme: _guard(pool) for scheme, pool in manager.pool_classes_by_scheme.items()
    }


@cache
def _guard(pool: type[HTTPConnectionPool]) -> type[HTTPConnectionPool]:
    if issubclass(pool.ConnectionCls, GuardedConnection):
        return pool
    connection = type(f"Guarded{pool.ConnectionCls.__name__}", (GuardedConnection, pool.ConnectionCls), {})
    return type(f"Guarded{pool.__name__}", (pool,), {"ConnectionCls": connection})


def _explain(error: Exception, *, is_proxied: bool) -> str:
    # Asked for first: urllib3 has it as a kind of its error for a slow one.
    if isinstance(error, NewConnectionError):
        return "the proxy cannot be reached" if is_proxied else "it cannot be reached"
    if isinstance(error, (ConnectTimeoutError, TimeoutError)) or LATE in error.args:
        return "it did not take the connection in time"
    if isinstance(error, ssl.SSLError):
        return "its certificate was not accepted, or TLS failed"
    return "the proxy refused" if is_proxied else "it cannot be reached"
