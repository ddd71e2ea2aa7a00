"""Requests and answers on a real socket: HTTP/1.1 that keeps connections, and ends them badly when told to."""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

MOVED = "/moved"
"""The folder that redirects lead to: every path is there, too."""
_OWN_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request.

    Attributes:
        status: 0 for no answer at all.
        headers: beside the usual ones; a `Content-Length` among them may lie.
        content: the body.
        ending: `close` or `reset`, to end the connection after that; empty to keep it.
    """

    status: int
    headers: dict[str, str]
    content: bytes
    ending: str = ""

    @classmethod
    def of_json(cls, status: int, data: object) -> Answer:
        """Return an answer that carries JSON."""
        return cls(status, {"Content-Type": "application/json"}, json.dumps(data).encode())


def refuse(status: int, reason: str) -> Answer:
    """Return an error, whose form the reference does not show."""
    return Answer.of_json(status, {"error": reason})


class Responder(Protocol):
    """Answers requests.

    Attributes:
        credentials: the query parameters that each request has to carry.
        strays: requests that came by another host name than the service's own.
    """

    credentials: dict[str, str]
    strays: int

    def take_send(self, content: bytes, query: str) -> Answer:
        """Meet one POST of a send."""

    def take_get(self, path: str, query: dict[str, str]) -> Answer:
        """Meet one GET."""

    def redirect(self, method: str, target: str) -> Answer | None:
        """Return where a request is sent on to, if it is."""


class Server(ThreadingHTTPServer):
    """A listening socket.

    Args:
        address: host and port; port 0 takes a free one.
        responder: answers what comes in.
    """

    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], responder: Responder) -> None:
        super().__init__(address, _Handler)
        self.responder = responder

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that die belong to the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # One packet an answer.
    server: Server

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length)
        # A client that died while it sent has sent nothing.
        if len(content) < length:
            self.close_connection = True
            return
        address = urlsplit(self.path)
        if self._path(address.path) != "/api/send":
            self._write(refuse(404, "there is nothing here"))
            return
        self._write(self._turn_away() or self.server.responder.take_send(content, address.query))

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query, keep_blank_values=True))
        self._write(self._turn_away() or self.server.responder.take_get(self._path(address.path), query))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
        """Say nothing."""

    def _path(self, path: str) -> str:
        return path.removeprefix(MOVED)

    def _turn_away(self) -> Answer | None:
        """Return the answer to a request that goes elsewhere, or lacks credentials."""
        responder = self.server.responder
        is_stray = not self.headers.get("Host", "").startswith(_OWN_HOST)
        responder.strays += is_stray
        if not is_stray and not self.path.startswith(MOVED):
            moved = responder.redirect(self.command, self.path)
            if moved is not None:
                return moved
        query = dict(parse_qsl(urlsplit(self.path).query))
        given = {name: query.get(name) for name in responder.credentials}
        if None in given.values():
            return refuse(401, "username and api_key are needed")
        return None if given == responder.credentials else refuse(403, "username and api_key do not fit")

    def _write(self, answer: Answer) -> None:
        if answer.status:
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.content)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.content)
            self.wfile.flush()
        if answer.ending:
            self.close_connection = True
        if answer.ending == "reset":
            # Lingering for 0 s turns the end of the connection into a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
