"""A service that only accepts launches, after a fixed time: the ceiling that clients are held against.

It runs as a process of its own and says its port on standard output. `GET /progress` tells how many launches it
accepted, and when the first came in and the last was answered (seconds of the monotonic clock).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from typing import cast

import uvloop

_HEAD_END = b"\r\n\r\n"
_NO_RECORDS = b'{"meta":{"total_count":0,"limit":100,"offset":0},"objects":[]}'


@dataclass(slots=True)
class Progress:
    """What the service has done since it was last asked."""

    accepted: int = 0
    first_at: float = 0.0
    last_at: float = 0.0


class Service(asyncio.Protocol):
    """One connection. Requests of a connection come one after the other, as HTTP clients send them.

    Args:
        latency: seconds from a whole request to its answer.
        progress: shared by all connections.
    """

    def __init__(self, latency: float, progress: Progress) -> None:
        self._latency = latency
        self._progress = progress
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection's transport."""
        # uvloop's transports only look like asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the protocol's signature
        """Forget the transport: the client has left."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Take a request, and answer it when it is whole."""
        self._buffer += data
        head, separator, body = self._buffer.partition(_HEAD_END)
        if not separator or len(body) < _content_length(head):
            return
        self._buffer = b""
        if head.startswith(b"POST"):
            self._progress.first_at = self._progress.first_at or time.monotonic()
            asyncio.get_running_loop().call_later(self._latency, self._accept)
        elif head.startswith(b"GET /progress"):
            self._answer(
                json.dumps(
                    [self._progress.accepted, self._progress.first_at, self._progress.last_at]
                ).encode()
            )
            self._progress.accepted, self._progress.first_at = 0, 0.0
        else:
            self._answer(_NO_RECORDS)

    def _accept(self) -> None:
        self._progress.accepted += 1
        self._progress.last_at = now = time.monotonic()
        # The clock ticks in nanoseconds and the loop is one thread: no two launches share a name.
        self._answer(b'{"project_launch_guid":"%d-%d"}' % (now * 1e9, self._progress.accepted))

    def _answer(self, body: bytes) -> None:
        if self._transport is not None:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            self._transport.write(head % len(body) + body)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def serve(latency: float) -> None:
    """Serve until the process is ended.

    Args:
        latency: seconds.
    """
    progress = Progress()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Service(latency, progress), "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(float(sys.argv[1])))
