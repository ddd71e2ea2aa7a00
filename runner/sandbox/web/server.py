"""The sandbox on a real socket, served by uvicorn: in a thread, or in the foreground."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import threading
from collections.abc import Collection
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypedDict, Unpack

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from runner.sandbox.clock import Clock
from runner.sandbox.commits import Writer
from runner.sandbox.model import DEFAULT_PLAN, Plan, ServiceAddress
from runner.sandbox.rehearsal.faults import Faults
from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.web.app import make_app
from runner.sandbox.web.refusals import Account
from runner.sandbox.webhooks.receiver import read_hosts
from runner.sandbox.webhooks.sender import WebhookSender

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path
    from types import FrameType

    from starlette.types import ASGIApp

    Background = Callable[[asyncio.Event], Awaitable[None]]

BACKLOG = 2048
_LAST_WAIT_S = 2.0
DEFAULT_USERNAME = "sandbox"
DEFAULT_HOST = "127.0.0.1"
_BUSY_S = 0.1


@contextmanager
def serving(
    app: ASGIApp,
    listener: socket.socket,
    background: Sequence[Background] = (),
) -> Iterator[None]:
    """Serve during the block; the application answers when the block begins.

    In its requests, `scope["state"]["transport"]` is the connection's transport, which faults close.

    Args:
        app: the application.
        listener: a listening socket.
        background: tasks on the application's event loop, until the event that they get is set; after two
            more seconds they are cancelled.

    Raises:
        SandboxError: the server did not start.
    """
    server = _Server(_configure(app), background)
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


def _configure(app: ASGIApp) -> uvicorn.Config:
    # No access log: query strings carry the credentials. No other log: exceptions may carry phones.
    return uvicorn.Config(
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
        # Proxies' headers on their clients are ignored.
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=1,
    )


class _Protocol(HttpToolsProtocol):
    """Uvicorn's protocol, which passes the transport to applications."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


class _Server(uvicorn.Server):
    """Uvicorn with signals for start and stop instead of polling ten times a second."""

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


class ServiceOptions(TypedDict, total=False):
    """The settings of a running service.

    Attributes:
        host: address to listen on; default 127.0.0.1.
        port: 0, the default, takes a free one.
        username: default "sandbox".
        api_key: default one that the service made up and keeps in its database.
        plan_renders: renders that the plan allows; default that of `Plan`.
        faults: faults of requests; default none.
        webhook_hosts: names and addresses that webhooks may lead to, beside loopback ones.
        sends_webhooks: False leaves webhooks to another service on the database; default True.
        allowed_hosts: further names of the service, beside `host` and this machine's own.
    """

    host: str
    port: int
    username: str | None
    api_key: str | None
    plan_renders: int | None
    faults: Faults | None
    webhook_hosts: Collection[str]
    sends_webhooks: bool
    allowed_hosts: Collection[str]


@contextmanager
def running_service(db: Path, **options: Unpack[ServiceOptions]) -> Iterator[ServiceAddress]:
    """Run the service in its own thread during the block, and yield its address.

    Args:
        db: the database file, created if missing; several services may share it.
        options: see `ServiceOptions`.

    Raises:
        SandboxError: the database, the port or a webhook host cannot be used; the message says why.
    """
    host = options.get("host", DEFAULT_HOST)
    with closing(open_store(db)) as store, closing(_listen(host, options.get("port", 0))) as listener:
        address = ServiceAddress(
            url=_write_url(host, listener.getsockname()[1]),
            username=options.get("username") or DEFAULT_USERNAME,
            api_key=options.get("api_key") or store.keep_secret("api_key"),
        )
        renders = options.get("plan_renders")
        service = Service(store, plan=DEFAULT_PLAN if renders is None else Plan(renders_max=renders))
        writer = Writer(service, Clock(store))
        hosts = read_hosts(options.get("webhook_hosts", ()))
        app = make_app(
            writer,
            account=Account(address.username, address.api_key),
            faults=options.get("faults") or Faults(),
            listens_on=host,
            allowed_hosts=options.get("allowed_hosts", ()),
        )
        # From here on, writes wait on the event loop and try again.
        store.wait_at_most(_BUSY_S)
        tasks = [WebhookSender(writer, hosts).run] if options.get("sends_webhooks", True) else []
        with serving(app, listener, tasks):
            yield address


def serve(db: Path, *, on_start: Callable[[ServiceAddress], None], **options: Unpack[ServiceOptions]) -> None:
    """Serve until SIGINT or SIGTERM; must be called in the main thread.

    Args:
        db: the database file, created if missing.
        on_start: called with the address once the service answers.
        options: see `ServiceOptions`.

    Raises:
        SandboxError: the database, the port or a webhook host cannot be used; the message says why.
    """
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    # Before the address is printed: its reader may stop the service at once.
    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with running_service(db, **options) as address:
            on_start(address)
            stopped.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        # The library extends the system's message; name resolution has its own messages and (negative)
        # numbers.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror
        is_taken = number == errno.EADDRINUSE
        way_on = "; is a sandbox served there already? Port 0 takes any free one" if is_taken else ""
        raise SandboxError(f"cannot listen on {host} port {port}: {reason}{way_on}") from None


def _write_url(host: str, port: int) -> str:
    """Return the URL of a service on this machine; one that listens on all addresses is on loopback, too."""
    host = {"0.0.0.0": DEFAULT_HOST, "::": "::1"}.get(host, host)  # noqa: S104  compared, not listened on
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
