"""What the sender does when receivers hang, the store is reset or another process holds it."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from runner.sandbox.rehearsal.snapshot import restore_snapshot
from runner.sandbox.webhooks.queue import count_webhooks
from runner.sandbox.webhooks.sender import WebhookSender
from tests.sandbox.serving import make_writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from runner.sandbox.service import Service

PATIENT = {"timeout": timedelta(minutes=5)}


@asynccontextmanager
async def sending(service: Service, **options: Any) -> AsyncIterator[None]:
    """Run a sender while the block lasts."""
    stop = asyncio.Event()
    task = asyncio.create_task(WebhookSender(make_writer(service), **{**PATIENT, **options}).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def reach(claim: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something is so."""
    ends = time.monotonic() + seconds
    while not claim() and time.monotonic() < ends:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0.01)
    assert claim()


class Silence:
    """Receivers that take connections and never answer, until the block ends."""

    def __init__(self, count: int = 1) -> None:
        self._open = ExitStack()
        self._callers: list[socket.socket] = []
        self._listeners = [
            self._open.enter_context(closing(socket.create_server(("127.0.0.1", 0), backlog=64)))
            for _ in range(count)
        ]
        for listener in self._listeners:
            listener.settimeout(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._open.close()

    @property
    def addresses(self) -> list[str]:
        """Host and port of each."""
        return [f"127.0.0.1:{listener.getsockname()[1]}" for listener in self._listeners]

    def count_callers(self) -> int:
        """Count the connections that have come so far."""
        for listener in self._listeners:
            with suppress(BlockingIOError):
                while True:
                    self._callers.append(self._open.enter_context(closing(listener.accept()[0])))
        return len(self._callers)


def list_phones(count: int, series: int) -> list[str]:
    return [f"+1415555{series}{number:03d}" for number in range(count)]


def test_hanging_receiver_holds_up_nobody_else(
    domain: Service, record: Callable[..., None], hook: Any
) -> None:
    """Of one receiver eight requests are under way at once; another one gets its own behind a hundred of them."""
    with Silence() as silent:
        record(domain, silent.addresses[0], *list_phones(100, 1))
        record(domain, f"127.0.0.1:{hook.port}", *list_phones(20, 2))

        async def run() -> None:
            async with sending(domain):
                await reach(lambda: len(hook.requests) == 20)

        asyncio.run(run())
        assert silent.count_callers() == 8


def read_tries(service: Service) -> list[int]:
    return [tries for (tries,) in service.store.connection.execute("SELECT tries FROM webhook")]


async def answer_late(silent: socket.socket, meanwhile: Callable[[], object]) -> None:
    """Take one request, and answer it with 200 after something else has happened."""
    loop = asyncio.get_running_loop()
    connection, _ = await loop.sock_accept(silent)
    with closing(connection):
        await loop.sock_recv(connection, 65536)
        meanwhile()
        await loop.sock_sendall(connection, b"HTTP/1.1 200 OK\r\n\r\n")


def test_answer_after_a_reset_settles_nothing(db: Path, domain: Service, record: Callable[..., None]) -> None:
    """What was under way when the store was reset leaves alone the result that has its number since."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent, closing(socket.socket()) as closed:
        closed.bind(("127.0.0.1", 0))
        silent.settimeout(0)
        record(domain, f"127.0.0.1:{silent.getsockname()[1]}", "+14155550101")

        def start_again() -> None:
            restore_snapshot(db)
            record(domain, f"127.0.0.1:{closed.getsockname()[1]}", "+14155550101")

        async def run() -> None:
            async with sending(domain):
                await answer_late(silent, start_again)
                await reach(lambda: read_tries(domain) == [1])
                await asyncio.sleep(0.1)

        asyncio.run(run())
    assert count_webhooks(domain.store.connection) == {"WAITING": 1}
