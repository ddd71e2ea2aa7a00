"""Results find their way to webhooks, whatever happens in between."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.definition import read_send
from runner.sandbox.handle import MessagingService
from runner.sandbox.records import RecordList
from runner.sandbox.service import Service
from runner.sandbox.web.server import running_service
from runner.sandbox.webhooks import sender
from runner.sandbox.webhooks.queue import count_webhooks
from runner.sandbox.webhooks.sender import WebhookSender
from tests.sandbox.serving import make_writer

if TYPE_CHECKING:
    from pathlib import Path

    from runner.sandbox.store import Store

ADA, BOB = "+14155550101", "+14155550102"
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
HASTY = (timedelta(milliseconds=1),) * 2


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tries follow one another at once, and have a minute each."""
    monkeypatch.setattr(sender, "WAITS", HASTY)
    monkeypatch.setattr(sender, "TIMEOUT_S", 60)


def ask(service: Service, url: str, *phones: str) -> None:
    """Ask a choice and a freeform question, both with a webhook, and one without."""
    questions = [
        {"text": "Colour?", "tag": "colour", "responses": ["Red", "Blue"], "webhook": url},
        {"text": "Why?", "tag": "why", "webhook": url},
        {"text": "Sure?", "tag": "sure"},
    ]
    request = read_send(json.dumps({"questions": questions, "phone": list(phones)}).encode())
    service.send(request.definition, request.phones, NOON)


def answer(service: Service, *phones: str) -> None:
    for phone in phones:
        for text in ("mauve", "blue", "calm ☕", "yes"):
            service.receive(phone, text, NOON)


def send_webhooks(store: Store, count: int) -> None:
    """Run a sender until so many webhooks are delivered or given up."""

    async def run() -> None:
        stop = asyncio.Event()
        sending = asyncio.create_task(WebhookSender(make_writer(Service(store))).run(stop))
        ends = time.monotonic() + 60
        while count_settled(store) < count and time.monotonic() < ends:  # noqa: ASYNC110  the store tells nobody
            await asyncio.sleep(0.01)
        stop.set()
        await sending

    asyncio.run(run())
    assert count_settled(store) == count


def count_settled(store: Store) -> int:
    return sum(count for state, count in count_webhooks(store.connection).items() if state != "WAITING")


def list_problems(store: Store) -> list[tuple[str, int, str | None]]:
    return list(store.connection.execute("SELECT state, tries, problem FROM webhook ORDER BY id"))


def test_each_result_is_posted_to_its_question(domain: Service, hook: Any) -> None:
    """A webhook gets the result's fields and numeric_response; invalid answers and other questions tell nobody."""
    ask(domain, hook.url, ADA)
    answer(domain, ADA)
    send_webhooks(domain.store, 2)
    results = RecordList(domain.store).list_results({}, 10, 0).records
    bodies = sorted((body for _, _, body in hook.requests), key=lambda body: str(body["question_tag"]))
    assert bodies == [{**results[0], "numeric_response": "2"}, {**results[1], "numeric_response": None}]
    assert bodies[0]["result_response"] == "Blue"
    assert count_webhooks(domain.store.connection) == {"DELIVERED": 2}


def test_running_service_sends_what_other_processes_record(db: Path, domain: Service, hook: Any) -> None:
    """A running service sends results as any process records them, whatever its clock."""
    with running_service(db) as address:
        MessagingService(address.url, address.username, address.api_key).advance("2d")
        ask(domain, hook.url, ADA)
        answer(domain, ADA)
        hook.wait(2)


def test_failed_tries_are_repeated(domain: Service, hook: Any) -> None:
    """A receiver that fails at first gets the result in the end."""
    ask(domain, hook.url, ADA)
    domain.receive(ADA, "red", NOON)
    hook.answers = [500, 302]
    send_webhooks(domain.store, 1)
    assert [body["result_response"] for _, _, body in hook.requests] == ["Red"] * 3
    assert list_problems(domain.store) == [("DELIVERED", 3, None)]


def test_sender_gives_up_and_says_so(domain: Service, hook: Any) -> None:
    """After its tries a webhook is given up; the store says why, and the result stays."""
    ask(domain, hook.url, ADA)
    domain.receive(ADA, "red", NOON)
    hook.answers = [503] * 10
    send_webhooks(domain.store, 1)
    assert list_problems(domain.store) == [("FAILED", 3, "answered 503")]
    assert len(hook.requests) == 3
    assert RecordList(domain.store).list_results({}, 10, 0).total_count == 1


def test_foreign_host_is_given_up(domain: Service) -> None:
    """A webhook that leads beyond this machine is given up, and says why."""
    ask(domain, "http://192.0.2.1:9/hook", ADA)
    domain.receive(ADA, "red", NOON)
    send_webhooks(domain.store, 1)
    assert list_problems(domain.store) == [("FAILED", 3, "the host is neither on loopback nor allowed")]


def test_address_without_scheme_is_never_tried(domain: Service, hook: Any) -> None:
    """What a webhook without a scheme would get is given up when it is recorded."""
    ask(domain, hook.url.removeprefix("http://"), ADA)
    answer(domain, ADA)
    ask(domain, "http://192.0.2.1:9/hook", BOB)
    domain.receive(BOB, "red", NOON)
    reason = "the address has no scheme (http:// or https://)"
    assert list_problems(domain.store)[:2] == [("FAILED", 0, reason)] * 2
    assert count_webhooks(domain.store.connection) == {"FAILED": 2, "WAITING": 1}
    send_webhooks(domain.store, 3)
    assert list_problems(domain.store)[:2] == [("FAILED", 0, reason)] * 2
    assert hook.requests == []


def test_commands_leave_webhooks_to_the_served_sandbox(db: Path, domain: Service, hook: Any) -> None:
    """A service inside a command sends no webhook; the one that is served sends all, once."""
    ask(domain, hook.url, ADA)
    answer(domain, ADA)
    with running_service(db, sends_webhooks=False):
        time.sleep(0.3)
    assert hook.requests == []
    with running_service(db), running_service(db, sends_webhooks=False):
        hook.wait(2)
        time.sleep(0.3)
    assert len(hook.requests) == 2
