"""Serves the sandbox on a real socket: inside another program, or in the foreground."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

from runner.sandbox.changes import Changes
from runner.sandbox.clock import Clock
from runner.sandbox.errors import SandboxError
from runner.sandbox.model import Plan, ServiceAddress
from runner.sandbox.rehearsal.cast import Cast
from runner.sandbox.rehearsal.faults import Faults
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.sandbox.thread import BACKLOG, serving
from runner.sandbox.web.app import make_app
from runner.sandbox.web.credentials import Account
from runner.sandbox.webhooks.allowance import keep_hosts, read_hosts
from runner.sandbox.webhooks.sender import WebhookSender

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import timedelta
    from pathlib import Path
    from types import FrameType

    from runner.sandbox.store import Store

DEFAULT_USERNAME = "sandbox"
DEFAULT_HOST = "127.0.0.1"
_BUSY_S = 0.1


class ServiceOptions(TypedDict, total=False):
    """How a service is run.

    Attributes:
        host: address to listen on; default 127.0.0.1.
        port: 0, the default, takes a free one.
        username: default "sandbox".
        api_key: default one that the service made up and keeps in its database.
        plan_renders: renders that the plan allows; default that of `Plan`.
        session_lifetime: sessions expire so long after their last turn; default what the database has, at
            first `expiry.DEFAULT_LIFETIME`.
        faults: says which requests go wrong; default none.
        webhook_hosts: names and addresses that webhooks may lead to, beside loopback ones. What is given, be
            it empty, replaces what other services on the database were given: what they left is given up.
            None, the default, is said by those who were not asked: what may go elsewhere is left to others.
        allowed_hosts: names by which the service may be called, beside `host` and this machine's own.
    """

    host: str
    port: int
    username: str | None
    api_key: str | None
    plan_renders: int | None
    session_lifetime: timedelta | None
    faults: Faults | None
    webhook_hosts: Collection[str] | None
    allowed_hosts: Collection[str]


@contextmanager
def running_service(db: Path, **options: Unpack[ServiceOptions]) -> Iterator[ServiceAddress]:
    """Run the service in a thread of its own while the block lasts; it answers when the block begins.

    Args:
        db: the database file, created where there is none; several services may share it.
        options: see `ServiceOptions`.

    Yields:
        The service's address.

    Raises:
        SandboxError: the database, the port or a webhook host cannot be used; the message says why.
    """
    host = options.get("host", DEFAULT_HOST)
    with closing(open_store(db)) as store, closing(_listen(host, options.get("port", 0))) as listener:
        address = ServiceAddress(
            url=_write_url(host, listener.getsockname()[1]),
            username=options.get("username") or DEFAULT_USERNAME,
            api_key=options.get("api_key") or store.keep_api_key(),
        )
        webhooks = WebhookSender(store, allowed_hosts=_read_webhook_hosts(store, options))
        renders = options.get("plan_renders")
        service = Service(store, plan=Plan() if renders is None else replace(Plan(), renders_max=renders))
        if lifetime := options.get("session_lifetime"):
            service.set_session_lifetime(lifetime)
        clock, changes = Clock(store), Changes(store)
        app = make_app(
            service,
            account=Account(address.username, address.api_key),
            clock=clock,
            faults=options.get("faults") or Faults(),
            changes=changes,
            listens_on=host,
            allowed_hosts=options.get("allowed_hosts", ()),
        )
        # From here on it is the event loop that waits, and who writes tries again.
        store.wait_at_most(_BUSY_S)
        with serving(app, listener, (webhooks.run, Cast(service, clock=clock, changes=changes).run)):
            yield address


def serve(db: Path, *, on_start: Callable[[ServiceAddress], None], **options: Unpack[ServiceOptions]) -> None:
    """Serve until SIGINT or SIGTERM; must be called in the main thread.

    Args:
        db: the database file, created where there is none.
        on_start: is told the address once the service answers.
        options: see `ServiceOptions`.

    Raises:
        SandboxError: the database, the port or a webhook host cannot be used; the message says why.
    """
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    # Before the address is told: whoever reads it may stop the service at once.
    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with running_service(db, **options) as address:
            on_start(address)
            stopped.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _read_webhook_hosts(store: Store, options: ServiceOptions) -> tuple[str, ...]:
    written = options.get("webhook_hosts")
    if written is None:
        return ()
    hosts = read_hosts(written)
    keep_hosts(store, hosts)
    return hosts


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        # The library adds to the system's words; name resolution has words and (negative) numbers of its own.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror
        raise SandboxError(f"cannot listen on {host} port {port}: {reason}") from None


def _write_url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
