"""Serves the sandbox on a real socket: inside another program, or in the foreground."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import uvicorn

from runner.sandbox.app import make_app
from runner.sandbox.clock import read_clock
from runner.sandbox.errors import SandboxError
from runner.sandbox.model import Plan
from runner.sandbox.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from starlette.applications import Starlette

DEFAULT_USERNAME = "sandbox"
DEFAULT_HOST = "127.0.0.1"
_BACKLOG = 2048


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where a running service is reached, and as whom.

    Attributes:
        url: the base URL, without a slash at its end.
        username: goes into the query of every request.
        api_key: goes there too, and is kept out of the repr.
    """

    url: str
    username: str
    api_key: str = field(repr=False)


@contextmanager
def running_service(
    db: Path,
    *,
    host: str = DEFAULT_HOST,
    port: int = 0,
    username: str | None = None,
    api_key: str | None = None,
    plan_renders: int | None = None,
) -> Iterator[ServiceAddress]:
    """Run the service in a thread of its own while the block lasts; it answers when the block begins.

    Args:
        db: the database file, created where there is none; several services may share it.
        host: address to listen on.
        port: 0 takes a free one.
        username: default "sandbox".
        api_key: default one that the service made up and keeps in its database.
        plan_renders: renders that the plan allows.

    Yields:
        The service's address.

    Raises:
        SandboxError: the database or the port cannot be used; the message says why.
    """
    with closing(open_store(db)) as store, closing(_listen(host, port)) as listener:
        address = ServiceAddress(
            url=_write_url(host, listener.getsockname()[1]),
            username=username or DEFAULT_USERNAME,
            api_key=api_key or store.keep_api_key(),
        )
        plan = Plan() if plan_renders is None else replace(Plan(), renders_max=plan_renders)
        app = make_app(store, username=address.username, api_key=address.api_key, plan=plan, clock=read_clock)
        with _serving(app, listener):
            yield address


def serve(
    db: Path,
    *,
    host: str,
    port: int,
    username: str | None,
    api_key: str | None,
    on_start: Callable[[ServiceAddress], None],
) -> None:
    """Serve until SIGINT or SIGTERM; must be called in the main thread.

    Args:
        db: the database file, created where there is none.
        host: address to listen on.
        port: 0 takes a free one.
        username: default "sandbox".
        api_key: default one that the service made up and keeps in its database.
        on_start: is told the address once the service answers.

    Raises:
        SandboxError: the database or the port cannot be used; the message says why.
    """
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    # Before the address is told: whoever reads it may stop the service at once.
    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with running_service(db, host=host, port=port, username=username, api_key=api_key) as address:
            on_start(address)
            stopped.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):
    """Uvicorn that tells when it answers, and stops when told instead of looking ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answers = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Stop serving; may be called from any thread once the server answers."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def main_loop(self) -> None:
        """Serve until `stop` is called."""
        self._loop = asyncio.get_running_loop()
        self.answers.set()
        await self._stopping.wait()


@contextmanager
def _serving(app: Starlette, listener: socket.socket) -> Iterator[None]:
    # No access log: query strings carry the credentials. No other log: exceptions may carry phones.
    config = uvicorn.Config(
        app,
        interface="asgi3",
        lifespan="off",
        ws="none",
        log_config=None,
        log_level=logging.CRITICAL + 1,
        access_log=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
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


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        # The library adds to the system's words; name resolution has words and (negative) numbers of its own.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror
        raise SandboxError(f"cannot listen on {host} port {port}: {reason}") from None


def _write_url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
