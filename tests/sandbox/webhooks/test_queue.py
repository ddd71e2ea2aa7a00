"""What the queue gives out, to whom, and what becomes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from runner.sandbox.rehearsal.snapshot import restore_snapshot
from runner.sandbox.webhooks.queue import RetrySchedule, WebhookQueue, count_webhooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.sandbox.service import Service
    from runner.sandbox.webhooks.queue import Webhook

    Give = Callable[[WebhookQueue, Webhook], None]

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
def queue(domain: Service) -> WebhookQueue:
    return WebhookQueue(domain.store, RetrySchedule())


@pytest.fixture
def statements(domain: Service) -> Iterator[list[str]]:
    """What the store is asked meanwhile, with the values in it."""
    asked: list[str] = []
    domain.store.connection.set_trace_callback(asked.append)
    yield asked
    domain.store.connection.set_trace_callback(None)


def settle(queue: WebhookQueue, webhook: Webhook) -> None:
    queue.settle(webhook, None, NOON, is_final=False)


def fail(queue: WebhookQueue, webhook: Webhook) -> None:
    queue.settle(webhook, "answered 500", NOON, is_final=False)


def release(queue: WebhookQueue, webhook: Webhook) -> None:
    queue.release([webhook], NOON)


def read_rows(service: Service) -> list[tuple[str, int, str]]:
    return list(service.store.connection.execute("SELECT state, tries, due FROM webhook ORDER BY id"))


def test_broken_off_try_is_no_try(domain: Service, record: Callable[..., None], queue: WebhookQueue) -> None:
    """A try that is under way when the service stops is due again at once, and isn't counted."""
    record(domain, "localhost", "+14155550101")
    for _ in range(9):
        (claimed,) = queue.claim(5, NOON)
        assert claimed.tries == 1
        assert queue.claim(5, NOON + 9 * SECOND) == []
        queue.release([claimed], NOON)


def test_try_of_a_dead_service_is_lost_and_made_again(
    domain: Service, record: Callable[..., None], queue: WebhookQueue
) -> None:
    """What a service took and never settled is taken by another one when twice the timeout is over."""
    record(domain, "localhost", "+14155550101")
    assert len(queue.claim(5, NOON)) == 1
    assert queue.claim(5, NOON + 9.9 * SECOND) == []
    assert [webhook.tries for webhook in queue.claim(5, NOON + 10 * SECOND)] == [2]


@pytest.mark.parametrize(("tries", "seconds"), [(1, 1), (2, 4), (3, 16), (6, 1024)])
def test_waits_grow(tries: int, seconds: int) -> None:
    """Each wait is four times the one before."""
    assert RetrySchedule().wait_after(tries) == seconds * SECOND


def test_waits_stay_within_a_calendar(domain: Service, record: Callable[..., None]) -> None:
    """However often a webhook is to be tried, the next try is a moment that can be written down."""
    record(domain, "localhost", "+14155550101")
    queue, now = WebhookQueue(domain.store, RetrySchedule(tries=2000)), NOON
    for _ in range(600):
        (claimed,) = queue.claim(1, now)
        queue.settle(claimed, "answered 500", now, is_final=False)
        now += timedelta(days=1)
    assert count_webhooks(domain.store.connection) == {"WAITING": 1}


@pytest.mark.parametrize(("change", "state"), [(settle, "DELIVERED"), (fail, "FAILED")])
def test_many_lost_tries_end_like_few(
    domain: Service, record: Callable[..., None], queue: WebhookQueue, change: Give, state: str
) -> None:
    """A webhook whose tries were lost thirty times is delivered or given up by the one that is settled."""
    record(domain, "localhost", "+14155550101")
    for number in range(30):
        (claimed,) = queue.claim(5, NOON + number * 10 * SECOND)
    change(queue, claimed)
    assert count_webhooks(domain.store.connection) == {state: 1}
    assert queue.claim(5, NOON + timedelta(days=999)) == []


@pytest.mark.parametrize("change", [settle, fail, release])
def test_lease_that_is_over_changes_nothing(
    domain: Service, record: Callable[..., None], queue: WebhookQueue, change: Give
) -> None:
    """Who comes back after another one has taken the webhook leaves it as it is."""
    record(domain, "localhost", "+14155550101")
    (late,) = queue.claim(5, NOON)
    queue.claim(5, NOON + 10 * SECOND)
    before = read_rows(domain)
    change(queue, late)
    assert read_rows(domain) == before


def test_lease_ends_with_its_try(domain: Service, record: Callable[..., None]) -> None:
    """Who settled a try cannot settle the next one, even if both ended at the same moment."""
    record(domain, "localhost", "+14155550101")
    queue = WebhookQueue(domain.store, RetrySchedule(first_wait=timedelta()))
    (first,) = queue.claim(5, NOON)
    fail(queue, first)
    (second,) = queue.claim(5, NOON)
    settle(queue, first)
    assert (first.due, count_webhooks(domain.store.connection)) == (second.due, {"WAITING": 1})


@pytest.mark.parametrize("change", [settle, fail, release])
@pytest.mark.parametrize("is_claimed", [False, True])
def test_reset_ends_every_lease(
    db: Path,
    domain: Service,
    record: Callable[..., None],
    queue: WebhookQueue,
    change: Give,
    *,
    is_claimed: bool,
) -> None:
    """What was under way when the store was reset does nothing to the webhook that has its number since."""
    record(domain, "localhost", "+14155550101")
    (old,) = queue.claim(5, NOON)
    restore_snapshot(db)
    record(domain, "localhost", "+14155550101")
    if is_claimed:
        assert [new.id for new in queue.claim(5, NOON + SECOND)] == [old.id]
    before = read_rows(domain)
    change(queue, old)
    assert read_rows(domain) == before


def test_busy_receivers_are_passed_over(
    domain: Service, record: Callable[..., None], queue: WebhookQueue
) -> None:
    """The webhooks of busy receivers stay where they are; the others come in the order in which they are due."""
    for number, receiver in enumerate(["a:1", "b", "a", "c", "b"]):
        record(domain, receiver, f"+1415555010{number}")
    claimed = queue.claim(9, NOON, busy=["a:1", "b"])
    assert [webhook.receiver for webhook in claimed] == ["a", "c"]
    assert [webhook.receiver for webhook in queue.claim(2, NOON)] == ["a:1", "b"]
    assert [webhook.receiver for webhook in queue.claim(9, NOON)] == ["b"]


def test_no_webhook_is_looked_at_in_vain(
    domain: Service, record: Callable[..., None], queue: WebhookQueue, statements: list[str]
) -> None:
    """Claiming, settling and counting search indices, however many webhooks there are."""
    record(domain, "localhost", "+14155550101")
    statements.clear()
    for webhook in queue.claim(5, NOON, busy=["h"]):
        settle(queue, webhook)
    count_webhooks(domain.store.connection)
    domain.store.connection.set_trace_callback(None)
    asked = [said for said in statements if "webhook" in said]
    assert len(asked) == 5
    for statement in asked:
        plan = domain.store.connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        steps = [step for *_, step in plan if "webhook" in step]
        assert steps
        for step in steps:
            assert step.startswith(
                (
                    "SEARCH webhook USING INTEGER PRIMARY KEY",
                    "SEARCH webhook USING INDEX webhook_due",
                    "SCAN webhook USING COVERING INDEX webhook_by_state",
                    "SEARCH webhook USING INDEX webhook_by_state",
                )
            )
