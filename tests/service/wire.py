"""Services and proxies on real sockets that do exactly what a test says, byte by byte."""

from __future__ import annotations

import socket
import threading
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from typing import Self


@dataclass(frozen=True, slots=True)
class Message:
    """A request or an answer as it came over the wire.

    Attributes:
        start: its first line.
        headers: by their names in lower case.
        body: as its `Content-Length` says.
    """

    start: str
    headers: dict[str, str]
    body: bytes

    @property
    def method(self) -> str:
        """A request's first word."""
        return self.start.split(" ")[0]

    @property
    def target(self) -> str:
        """A request's second word."""
        return self.start.split(" ")[1]


def read_message(reader: BinaryIO) -> Message | None:
    """Return the next request or answer; None at the connection's end."""
    start = reader.readline().decode("ascii").strip()
    if not start:
        return None
    headers = {}
    while line := reader.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Message(start, headers, reader.read(int(headers.get("content-length", "0"))))


def write_answer(status: int = 200, body: bytes = b"", *headers: str) -> bytes:
    """Return an answer's bytes."""
    head = [f"HTTP/1.1 {status} As The Test Says", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


class WireServer:
    """Takes connections on loopback, each in a thread of its own.

    Args:
        serve: is given a connection, as a socket and as a file to read from; it is closed afterwards.
        context: for TLS.

    Attributes:
        connections: how many were taken.
        port: where it listens.
    """

    def __init__(
        self, serve: Callable[[socket.socket, BinaryIO], None], context: ssl.SSLContext | None = None
    ) -> None:
        self.connections = 0
        self._serve = serve
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.settimeout(0.05)
        self.port: int = self._listener.getsockname()[1]
        self._streams: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._is_closed = threading.Event()

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed.set()
        self._threads[0].join()
        self._listener.close()
        for stream in self._streams:
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                stream = self._listener.accept()[0]
            except TimeoutError:
                continue
            self.connections += 1
            self._streams.append(stream)
            thread = threading.Thread(target=self._talk, args=[stream])
            self._threads.append(thread)
            thread.start()

    def _talk(self, stream: socket.socket) -> None:
        stream.settimeout(None)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Clients that vanish are what these tests are about.
        with suppress(OSError), stream:
            if self._context is not None:
                stream = self._context.wrap_socket(stream, server_side=True)
                # It has taken the plain one's place.
                self._streams.append(stream)
            with stream, stream.makefile("rb") as reader:
                self._serve(stream, cast("BinaryIO", reader))


def echo(stream: socket.socket, reader: BinaryIO) -> None:
    """Answer every request with its own body."""
    while request := read_message(reader):
        stream.sendall(write_answer(200, request.body))


class ForwardProxy:
    """Forwards requests in absolute form, and opens tunnels (RFC 9110, 7.6 and 9.3.6), for a `WireServer`.

    Args:
        upstream_port: where all requests go, whatever host they name: it knows names that nobody else does.
        login: `user:password`, if it wants one.
        answer: what it says to every request instead of forwarding it; empty to hang up.

    Attributes:
        requests: all that came, in their order.
    """

    def __init__(self, upstream_port: int, *, login: str | None = None, answer: bytes | None = None) -> None:
        self.requests: list[Message] = []
        self._upstream_port = upstream_port
        self._wanted = login and f"Basic {b64encode(login.encode()).decode()}"
        self._answer = answer

    def serve(self, stream: socket.socket, reader: BinaryIO) -> None:
        """Serve one connection."""
        with (
            socket.create_connection(("127.0.0.1", self._upstream_port)) as upstream,
            upstream.makefile("rb") as answers,
        ):
            while request := read_message(reader):
                self.requests.append(request)
                if self._answer is not None:
                    stream.sendall(self._answer)
                    return
                if self._wanted not in (None, request.headers.get("proxy-authorization")):
                    stream.sendall(write_answer(407))
                elif request.method == "CONNECT":
                    stream.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    _join(stream, upstream)
                    return
                else:
                    upstream.sendall(_in_origin_form(request))
                    answer = read_message(cast("BinaryIO", answers))
                    assert answer is not None
                    headers = [
                        f"Location: {location}" for location in [answer.headers.get("location")] if location
                    ]
                    stream.sendall(write_answer(int(answer.start.split(" ")[1]), answer.body, *headers))


def _in_origin_form(request: Message) -> bytes:
    path = "/" + request.target.split("/", 3)[3]
    head = [f"{request.method} {path} HTTP/1.1", *(f"{n}: {v}" for n, v in request.headers.items()), "", ""]
    return "\r\n".join(head).encode() + request.body


def _join(one: socket.socket, other: socket.socket) -> None:
    thread = threading.Thread(target=_pump, args=(other, one))
    thread.start()
    _pump(one, other)
    thread.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            sink.sendall(piece)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
