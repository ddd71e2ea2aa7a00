"""Where the service's requests come in: HTTP on a loopback port that can be shut."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from tests.patient_server import PatientServer
from tests.torture.arrival import read_age_s

if TYPE_CHECKING:
    from tests.torture.gauge import Meter

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers beside the usual ones, and body."""


class Clerk(Protocol):
    """Answers requests; a string says how the connection ends without an answer: `drop` or `reset`."""

    def take_send(self, body: dict[str, Any], came_at: float) -> Answer | str:
        """Meet one POST, which came at this moment, in monotonic seconds."""

    def take_list(self, query: dict[str, str]) -> Answer | str:
        """Meet one GET of the stats."""

    def find_stat(self, guid: str) -> Answer:
        """Meet one GET of one launch."""


class Doorway(Protocol):
    """Where a service is reached, or just now isn't."""

    @property
    def url(self) -> str:
        """The base URL, the same while it is shut."""

    def open(self) -> None:
        """Listen, if it doesn't yet."""

    def shut(self) -> None:
        """Stop listening: connections are refused."""

    def close(self) -> None:
        """End."""


class Door:
    """Lets requests in. Its address stays the same while it is shut.

    Args:
        clerk: answers them.
        meter: is told of those that send; None for nobody.
    """

    def __init__(self, clerk: Clerk, meter: Meter | None = None) -> None:
        self._clerk = clerk
        self._meter = meter
        self._server: _Server | None = None
        self._holder = hold_port()
        self._port = int(self._holder.getsockname()[1])

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._port}"

    def open(self) -> None:
        """Listen, if it doesn't yet."""
        if self._server is not None:
            return
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.clerk, self._server.meter = self._clerk, self._meter
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def shut(self) -> None:
        """Stop listening: connections are refused. The port stays taken."""
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._server = None

    def close(self) -> None:
        """End."""
        self.shut()
        self._holder.close()


def hold_port() -> socket.socket:
    """Take a port at which nobody listens: connections are refused, and only who is told of it can listen."""
    holder = socket.socket()
    # With this, on both, Linux lets another socket listen at a port that is only bound.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


class _Server(PatientServer):
    clerk: Clerk
    meter: Meter | None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        # A process that died while it sent has sent nothing.
        if len(body) == length:
            self._answer(self._take_send(json.loads(body)))

    def _take_send(self, body: dict[str, Any]) -> Answer | str:
        meter = self.server.meter
        came_at = time.monotonic() - read_age_s(self.connection)
        if meter is None:
            return self.server.clerk.take_send(body, came_at)
        meter.enter(self.connection)
        try:
            return self.server.clerk.take_send(body, came_at)
        finally:
            meter.leave(self.connection)

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query))
        clerk = self.server.clerk
        if address.path == "/api/stats/":
            self._answer(clerk.take_list(query))
        elif address.path.startswith("/api/stats/"):
            self._answer(clerk.find_stat(address.path.split("/")[3]))
        else:
            self._answer((200, {}, b'{"meta": {"total_count": 0}, "objects": []}'))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
        """Say nothing."""

    def _answer(self, answer: Answer | str) -> None:
        if isinstance(answer, str):
            self.close_connection = True
            if answer == "reset":
                # Lingering for 0 s turns the end of the connection into a reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        status, headers, content = answer
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = self.close_connection or "Content-Length" in headers
