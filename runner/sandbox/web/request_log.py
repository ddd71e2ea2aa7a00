"""The last requests of the service's clients, in memory, so that tests can ask what their program did.

Credentials are left out. Requests for the sandbox's own pages and control routes are not in it.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from runner.sandbox.clock import read_clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_REQUESTS = 1000
"""Requests that are kept; older ones are dropped."""
MOST_BODY_BYTES = 16 * 1024
"""Size of the largest body that is kept."""
_API = "/api"
_SECRET = ("username", "api_key")
_MASK = "***"


@dataclass(slots=True)
class LoggedRequest:
    """A request, with its answer's `status` once there is one; read only when somebody asks for it."""

    id: int
    at: str
    method: str
    path: str
    query: bytes = field(repr=False)
    body: bytearray | None = field(default_factory=bytearray, repr=False)
    status: int | None = None

    def to_dict(self, secret: str) -> dict[str, Any]:
        """Return the values as JSON has them, without the credentials; `secret` is masked wherever it is."""
        pairs = parse_qsl(self.query.decode("latin-1"), keep_blank_values=True)
        return {
            "id": self.id,
            "at": self.at,
            "method": self.method,
            "path": self.path.replace(secret, _MASK),
            "query": {name: value.replace(secret, _MASK) for name, value in pairs if name not in _SECRET},
            "body": self._read_body(secret),
            "status": self.status,
        }

    def _read_body(self, secret: str) -> Any:
        if not self.body or secret.encode() in self.body:
            return None
        try:
            document = json.loads(self.body)
            # What the parser takes beyond JSON, such as NaN and half a surrogate pair, cannot be shown.
            json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            return None
        return document


class RequestLog:
    """The last requests of one running service, in the order of their arrival.

    Attributes:
        total: number of requests since the start of the service or the last `clear`, with the dropped ones.
    """

    def __init__(self, api_key: str) -> None:
        self.total = 0
        self._api_key = api_key
        self._last_id = 0
        self._kept: deque[LoggedRequest] = deque(maxlen=MOST_REQUESTS)

    def watch(self, app: ASGIApp) -> ASGIApp:
        """Return an application that logs the requests of another one."""

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            request = LoggedRequest(
                0, read_clock().isoformat(), scope["method"], scope["path"], scope["query_string"]
            )
            is_call = request.path.startswith(_API)
            if is_call:
                self._keep(request)
            try:
                await app(scope, _read_into(request, receive), _answer_into(request, send))
            finally:
                # What no route takes is a client's mistake in the address.
                if not is_call and "endpoint" not in scope:
                    self._keep(request)

        return call

    def select(self, wanted: Mapping[str, str], *, after: int = 0) -> list[dict[str, Any]]:
        """Return the requests after the one with the id `after`, oldest first, as JSON has them.

        Args:
            wanted: required `method`, `path` or `status`; a final slash of a path does not matter.
            after: an id; 0 for all.
        """
        found = (each.to_dict(self._api_key) for each in self._kept if each.id > after)
        return [
            each
            for each in found
            if all(_plain(each[name]) == _plain(value) for name, value in wanted.items())
        ]

    def clear(self) -> None:
        """Forget all requests."""
        self.total = 0
        self._kept.clear()

    def _keep(self, request: LoggedRequest) -> None:
        self.total += 1
        self._last_id += 1
        request.id = self._last_id
        self._kept.append(request)


def _read_into(request: LoggedRequest, receive: Receive) -> Receive:
    async def read() -> Message:
        message = await receive()
        if message["type"] == "http.request" and request.body is not None:
            request.body += message.get("body", b"")
            if len(request.body) > MOST_BODY_BYTES:
                request.body = None
        return message

    return read


def _answer_into(request: LoggedRequest, send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            request.status = message["status"]
        await send(message)

    return answer


def _plain(value: str | int | None) -> str:
    return str(value).rstrip("/").upper()
