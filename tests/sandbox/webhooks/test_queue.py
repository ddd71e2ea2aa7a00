"""What the queue gives out, and what becomes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from runner.sandbox.rehearsal.snapshot import restore_snapshot
from runner.sandbox.webhooks.queue import (
    Webhook,
    count_webhooks,
    list_due_webhooks,
    resend_webhooks,
    settle_webhook,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.sandbox.service import Service

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def list_due(service: Service, now: datetime = NOON, under_way: tuple[int, ...] = ()) -> list[Webhook]:
    return list_due_webhooks(service.store.connection, now, under_way, 5)


def test_failed_try_is_due_again_later(domain: Service, record: Callable[..., None]) -> None:
    """A failed try is counted and due at its moment; the last one gives the webhook up, with its problem."""
    record(domain, "localhost", "+14155550101")
    (first,) = list_due(domain)
    assert list_due(domain, under_way=(first.id,)) == []
    settle_webhook(domain.store, first, "answered 500", NOON + SECOND)
    assert list_due(domain) == []
    (second,) = list_due(domain, NOON + SECOND)
    assert (second.tries, count_webhooks(domain.store.connection)) == (1, {"WAITING": 1})
    settle_webhook(domain.store, second, "answered 500", None)
    assert count_webhooks(domain.store.connection) == {"FAILED": 1}
    assert list_due(domain, NOON + timedelta(days=999)) == []


@pytest.mark.parametrize("problem", [None, "answered 500"])
def test_reset_ends_what_is_under_way(
    db: Path, domain: Service, record: Callable[..., None], problem: str | None
) -> None:
    """What was under way when the store was reset does nothing to the webhook that has its number since."""
    record(domain, "localhost", "+14155550101")
    (old,) = list_due(domain)
    restore_snapshot(db)
    record(domain, "localhost", "+14155550101")
    (new,) = list_due(domain)
    settle_webhook(domain.store, old, problem, None)
    assert (old.id, list_due(domain)) == (new.id, [new])


def test_outcome_counts_once(domain: Service, record: Callable[..., None]) -> None:
    """A webhook that is sent again meanwhile is tried from the start, whatever became of the try before."""
    record(domain, "localhost", "+14155550101")
    (first,) = list_due(domain)
    settle_webhook(domain.store, first, "answered 500", NOON)
    (second,) = list_due(domain)
    assert resend_webhooks(domain.store, second.id) == 1
    settle_webhook(domain.store, second, None, None)
    assert [each.tries for each in list_due(domain)] == [0]


def test_no_webhook_is_looked_at_in_vain(domain: Service, record: Callable[..., None]) -> None:
    """Looking, settling and counting search indices, however many webhooks there are."""
    record(domain, "localhost", "+14155550101")
    statements: list[str] = []
    domain.store.connection.set_trace_callback(statements.append)
    for webhook in list_due(domain):
        settle_webhook(domain.store, webhook, None, None)
    count_webhooks(domain.store.connection)
    domain.store.connection.set_trace_callback(None)
    asked = [said for said in statements if "webhook" in said]
    assert len(asked) == 3
    for statement in asked:
        plan = domain.store.connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        steps = [step for *_, step in plan if "webhook" in step]
        assert steps
        assert not [step for step in steps if step.startswith("SCAN") and "webhook_by_state" not in step]
