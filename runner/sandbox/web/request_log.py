"""The last requests of the service's clients, in memory, so that tests can ask what their program did.

Credentials in queries are left out. Requests for the sandbox's own pages and control routes are not in it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec

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


class RequestLog:
    """The last requests of one running service, in the order of their arrival.

    Attributes:
        total: number of requests since the start of the service or the last `clear`, with the dropped ones.
    """

    def __init__(self) -> None:
        self.total = 0
        self._last_id = 0
        # As they came: a request costs more only when somebody asks for it.
        self._kept: deque[dict[str, Any]] = deque(maxlen=MOST_REQUESTS)

    def watch(self, app: ASGIApp) -> ASGIApp:
        """Return an application that logs the requests of another one."""

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            request: dict[str, Any] = {
                "at": read_clock(),
                "method": scope["method"],
                "path": scope["path"],
                "query": scope["query_string"],
                "body": bytearray(),
                "status": None,
            }

            async def read() -> Message:
                message = await receive()
                if message["type"] == "http.request" and request["body"] is not None:
                    request["body"] += message.get("body", b"")
                    if len(request["body"]) > MOST_BODY_BYTES:
                        request["body"] = None
                return message

            async def answer(message: Message) -> None:
                if message["type"] == "http.response.start":
                    request["status"] = message["status"]
                await send(message)

            is_call = scope["path"].startswith(_API)
            if is_call:
                self._keep(request)
            try:
                await app(scope, read, answer)
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
        found = (self._describe(**each) for each in self._kept if each["id"] > after)
        return [
            each
            for each in found
            if all(_plain(each[name]) == _plain(value) for name, value in wanted.items())
        ]

    def clear(self) -> None:
        """Forget all requests."""
        self.total = 0
        self._kept.clear()

    def _keep(self, request: dict[str, Any]) -> None:
        self.total += 1
        self._last_id += 1
        request["id"] = self._last_id
        self._kept.append(request)

    def _describe(self, *, query: bytes, body: bytearray | None, **shown: Any) -> dict[str, Any]:
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        return {
            **shown,
            "at": shown["at"].isoformat(),
            "query": {name: value for name, value in pairs if name not in _SECRET},
            "body": _read_json(body) if body else None,
        }


def _read_json(body: bytearray) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _plain(value: str | int | None) -> str:
    return str(value).rstrip("/").upper()
