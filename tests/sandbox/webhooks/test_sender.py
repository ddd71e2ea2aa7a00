"""What the sender does when receivers hang, the store is reset or another process holds it."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import time
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.rehearsal.snapshot import restore_snapshot
from runner.sandbox.webhooks.queue import RetrySchedule, WebhookQueue, count_webhooks
from runner.sandbox.webhooks.sender import WebhookClient, WebhookSender

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from runner.sandbox.service import Service
    from runner.sandbox.webhooks.queue import Webhook

PATIENT = RetrySchedule(timeout=timedelta(minutes=5))


@asynccontextmanager
async def sending(service: Service, patience: RetrySchedule = PATIENT) -> AsyncIterator[None]:
    """Run a sender while the block lasts."""
    stop = asyncio.Event()
    task = asyncio.create_task(WebhookSender(service.store, patience=patience).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def reach(claim: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until something is so."""
    ends = time.monotonic() + seconds
    while not claim() and time.monotonic() < ends:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0.01)
    assert claim()


def count_callers(listener: socket.socket) -> int:
    """Count the connections that wait at a receiver which takes none, and hang up on them."""
    listener.settimeout(0)
    count = 0
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


def list_phones(count: int, series: int) -> list[str]:
    return [f"+1415555{series}{number:03d}" for number in range(count)]


def test_hanging_receiver_leaves_room_for_others(
    domain: Service, hook: Any, record: Callable[..., None]
) -> None:
    """A receiver that hangs has eight requests at once, however many wait; the others get theirs meanwhile."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as silent:
        record(domain, f"127.0.0.1:{silent.getsockname()[1]}", *list_phones(40, 1))
        record(domain, f"127.0.0.1:{hook.port}", *list_phones(3, 2))

        async def run() -> None:
            async with sending(domain):
                await reach(lambda: count_webhooks(domain.store.connection).get("DELIVERED") == 3)
                # Another look at what is due must not start more.
                await asyncio.sleep(0.3)

        asyncio.run(run())
        assert count_callers(silent) == 8
    assert len(hook.requests) == 3


@pytest.mark.slow
def test_many_receivers_share_the_slots(domain: Service, record: Callable[..., None]) -> None:
    """Thirty-two requests are under way at once, whoever hangs."""
    with ExitStack() as running:
        silent = [
            running.enter_context(closing(socket.create_server(("127.0.0.1", 0), backlog=64)))
            for _ in range(6)
        ]
        for number, listener in enumerate(silent):
            record(domain, f"127.0.0.1:{listener.getsockname()[1]}", *list_phones(7, number))

        async def run() -> None:
            async with sending(domain):
                await asyncio.sleep(0.6)

        asyncio.run(run())
        assert sum(count_callers(listener) for listener in silent) == 32


@pytest.mark.slow
def test_stops_use_up_no_tries(domain: Service, record: Callable[..., None]) -> None:
    """A service that is stopped again and again while a receiver hangs gives none of its webhooks up."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        record(domain, f"127.0.0.1:{silent.getsockname()[1]}", "+14155550101")

        async def run() -> None:
            async with sending(domain):
                await reach(lambda: read_tries(domain) == [1])

        for _ in range(3):
            asyncio.run(run())
            assert read_tries(domain) == [0]


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


def test_vanished_result_is_forgotten(
    db: Path,
    domain: Service,
    hook: Any,
    record: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A result that a reset took away before it could be sent is sent to nobody, and nobody complains."""
    record(domain, f"127.0.0.1:{hook.port}", "+14155550101", "+14155550102")
    claim = WebhookQueue.claim

    def claim_and_reset(queue: WebhookQueue, *arguments: Any) -> list[Webhook]:
        claimed = claim(queue, *arguments)
        restore_snapshot(db)
        return claimed

    async def run() -> None:
        monkeypatch.setattr(WebhookQueue, "claim", claim_and_reset)
        async with sending(domain):
            await asyncio.sleep(0.3)
        monkeypatch.undo()
        record(domain, f"127.0.0.1:{hook.port}", "+14155550103")
        async with sending(domain):
            await reach(lambda: count_webhooks(domain.store.connection) == {"DELIVERED": 1})

    asyncio.run(run())
    assert [body["participant_phone_number"] for _, _, body in hook.requests] == ["+14155550103"]
    assert not caplog.records


def test_own_mistakes_count_as_tries(
    domain: Service,
    record: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A webhook that the sandbox itself cannot send is given up after its tries, and nothing is printed."""
    record(domain, "127.0.0.1:9", "+14155550101")
    monkeypatch.setattr(WebhookClient, "post", lambda *_: 1 / 0)
    hasty = RetrySchedule(tries=3, first_wait=timedelta(milliseconds=1))

    async def run() -> None:
        async with sending(domain, hasty):
            await reach(lambda: count_webhooks(domain.store.connection) == {"FAILED": 1})

    asyncio.run(run())
    problems = domain.store.connection.execute("SELECT tries, problem FROM webhook").fetchall()
    assert problems == [(3, "the sandbox failed (ZeroDivisionError)")]
    assert not caplog.records


def test_outcome_is_written_once_the_store_is_free(
    db: Path, domain: Service, record: Callable[..., None]
) -> None:
    """A webhook that is taken while another process holds the store counts as delivered when that lets go."""
    domain.store.wait_at_most(0.01)
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as silent,
        closing(sqlite3.connect(db, isolation_level=None)) as other,
    ):
        silent.settimeout(0)
        record(domain, f"127.0.0.1:{silent.getsockname()[1]}", "+14155550101")

        async def run() -> None:
            async with sending(domain):
                await answer_late(silent, lambda: other.execute("BEGIN IMMEDIATE"))
                await asyncio.sleep(0.3)
                other.execute("ROLLBACK")
                await reach(lambda: count_webhooks(domain.store.connection) == {"DELIVERED": 1}, 3)

        asyncio.run(run())
