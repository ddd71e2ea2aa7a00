"""An ASGI application served by uvicorn in a thread of its own, and what runs beside it."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from runner.sandbox.errors import SandboxError

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from starlette.types import ASGIApp

    Background = Callable[[asyncio.Event], Awaitable[None]]

BACKLOG = 2048
_LAST_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of what clients can hold open.

    Attributes:
        request_s: how long a request's head and body may take to arrive, in seconds.
        connections: how many there may be at once, more than a run's most senders; a further one is closed.
    """

    request_s: float = 20.0
    connections: int = 1_200


@contextmanager
def serving(
    app: ASGIApp,
    listener: socket.socket,
    background: Sequence[Background] = (),
    limits: ConnectionLimits = ConnectionLimits(),
) -> Iterator[None]:
    """Serve while the block lasts; the application answers when the block begins.

    In its requests, `scope["state"]["transport"]` is the connection's transport: asked-for faults close it.

    Args:
        app: the application.
        listener: a listening socket.
        background: run on the application's event loop from its start until the event that they are given is
            set; what goes on for two more seconds is cancelled.
        limits: of its connections.

    Raises:
        SandboxError: the server did not start.
    """
    server = _Server(_configure(app, limits), background)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="sandbox-service", daemon=True
    )
    thread.start()
    while not server.answers.wait(timeout=1):
        if not thread.is_alive():
            raise SandboxError("the sandbox service could not start")
    try:
        yield
    finally:
        server.stop()
        thread.join()


class _Config(uvicorn.Config):
    """Uvicorn's settings, and the limits of connections, which protocols read here."""

    limits = ConnectionLimits()


def _configure(app: ASGIApp, limits: ConnectionLimits) -> uvicorn.Config:
    # No access log: query strings carry the credentials. No other log: exceptions may carry phones.
    config = _Config(
        app,
        interface="asgi3",
        http=_Protocol,
        lifespan="off",
        ws="none",
        log_config=None,
        log_level=logging.CRITICAL + 1,
        access_log=False,
        server_header=False,
        date_header=False,
        # What a proxy says of its client is nobody's business here.
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=1,
    )
    config.limits = limits
    return config


class _Protocol(HttpToolsProtocol):
    """Uvicorn's protocol with limits, which tells applications the transport: once a connection."""

    config: _Config
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}
        if len(self.connections) > self.config.limits.connections:
            transport.abort()
        else:
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # Any bytes end uvicorn's wait between requests, also those that begin none.
        cycle: RequestResponseCycle | None = self.cycle
        if self._deadline is None and (cycle is None or cycle.response_complete):
            self._await_request()
        super().data_received(data)

    def on_message_complete(self) -> None:
        self._stop_waiting()
        super().on_message_complete()

    def _await_request(self) -> None:
        self._deadline = self.loop.call_later(self.config.limits.request_s, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    """Uvicorn that tells when it answers, and stops when told instead of looking ten times a second."""

    def __init__(self, config: uvicorn.Config, background: Sequence[Background]) -> None:
        super().__init__(config)
        self.answers = threading.Event()
        self._background = background
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Stop serving; may be called from any thread once the server answers."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def main_loop(self) -> None:
        """Serve until `stop` is called."""
        self._loop = asyncio.get_running_loop()
        tasks = [asyncio.ensure_future(run(self._stopping)) for run in self._background]
        self.answers.set()
        await self._stopping.wait()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_LAST_WAIT_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
