"""What the sender does when receivers hang, the store is reset or another process holds it."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING

from runner.sandbox.store import empty_store
from runner.sandbox.webhooks.queue import count_webhooks
from runner.sandbox.webhooks.sender import WebhookSender
from tests.sandbox.serving import make_writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from runner.sandbox.service import Service


@asynccontextmanager
async def sending(service: Service) -> AsyncIterator[None]:
    """Run a sender while the block lasts."""
    stop = asyncio.Event()
    task = asyncio.create_task(WebhookSender(make_writer(service)).run(stop))
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


def test_answer_after_a_reset_settles_nothing(domain: Service, record: Callable[..., None]) -> None:
    """What was under way when the store was reset leaves alone the result that has its number since."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent, closing(socket.socket()) as closed:
        closed.bind(("127.0.0.1", 0))
        silent.settimeout(0)
        record(domain, f"127.0.0.1:{silent.getsockname()[1]}", "+14155550101")

        def start_again() -> None:
            empty_store(domain.store)
            record(domain, f"127.0.0.1:{closed.getsockname()[1]}", "+14155550101")

        async def run() -> None:
            async with sending(domain):
                await answer_late(silent, start_again)
                await reach(lambda: read_tries(domain) == [1])
                await asyncio.sleep(0.1)

        asyncio.run(run())
    assert count_webhooks(domain.store.connection) == {"WAITING": 1}
