"""Connections that ask for nothing, or never to the end: the service lets go of them."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from runner.sandbox.web.server import BACKLOG, ConnectionLimits, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

POST = b"POST / HTTP/1.1\r\nHost: sandbox\r\nContent-Length: 5\r\n\r\n"


async def _answer(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"<{(await request.body()).decode()}>")


@contextmanager
def listening(limits: ConnectionLimits) -> Iterator[tuple[str, int]]:
    """Serve an application that echoes bodies, and yield its address."""
    app = Starlette(routes=[Route("/", _answer, methods=["POST"])])
    with closing(socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)) as listener:
        address = listener.getsockname()
        with serving(app, listener, (), limits):
            yield address


def connect(address: tuple[str, int]) -> closing[socket.socket]:
    return closing(socket.create_connection(address, timeout=60))


def is_closed(client: socket.socket) -> bool:
    """Wait until the other side closes, and return whether it did so without a word."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def ask(client: socket.socket) -> bytes:
    client.sendall(POST + b"Hello")
    answer = b""
    while not answer.endswith(b"<Hello>"):
        read = client.recv(1 << 10)
        assert read, answer
        answer += read
    return answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent", [b"", b"\r\n", b"POST", b"POST / HTTP/1.1\r\nHost: sandbox\r\nX-", POST, POST + b"Hell"]
)
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_request_that_does_not_end_is_let_go(sent: bytes, *, is_kept: bool) -> None:
    """A head or body that stays half sent ends its connection, be it the first request on it or a later one."""
    limits = ConnectionLimits(request_s=60 if is_kept else 0.3)
    with listening(limits) as address, connect(address) as client:
        if is_kept:
            assert ask(client).startswith(b"HTTP/1.1 200")
            # From here on: a busy machine may not have sent the whole request by then.
            object.__setattr__(limits, "request_s", 0.3)
        # It may be let go before: then nothing can be written.
        with suppress(ConnectionError):
            client.sendall(sent)
        assert is_closed(client)


def test_many_half_requests_are_not_held() -> None:
    """There are only so many connections at once; when those that were held are let go, others are served."""
    limits = ConnectionLimits(request_s=1.0, connections=50)
    with listening(limits) as address, ExitStack() as stack:
        clients = [stack.enter_context(connect(address)) for _ in range(400)]
        for client in clients:
            try:
                client.sendall(b"POST / HTTP/1.1\r\nHost: ")
            except OSError:  # one of those that were closed at once
                continue
        assert all(map(is_closed, clients))
        # A busy machine may not have sent the whole request by then.
        object.__setattr__(limits, "request_s", 60)
        with connect(address) as client:
            assert ask(client).startswith(b"HTTP/1.1 200")


def test_a_connection_beyond_the_most_is_closed_at_once() -> None:
    """While as many connections as there may be are held, another one is closed."""
    with listening(ConnectionLimits(connections=2)) as address, ExitStack() as stack:
        held = [stack.enter_context(connect(address)) for _ in range(2)]
        for client in held:
            assert ask(client).startswith(b"HTTP/1.1 200")
        with connect(address) as further:
            assert is_closed(further)
