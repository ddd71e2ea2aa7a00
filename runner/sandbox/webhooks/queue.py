"""Results that wait for their webhook, in the store so that they survive the service's death.

One process delivers them, at least once: a try that is broken off is made again by the next one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.sandbox.clock import format_time, parse_time
from runner.sandbox.definition import load_definition
from runner.sandbox.webhooks.receiver import parse_receiver

if TYPE_CHECKING:
    import sqlite3
    from datetime import datetime

    from runner.sandbox.model import ServiceQuestion
    from runner.sandbox.store import Store

# The index is named, since the planner would take the one on the state alone.
_SELECT_DUE = """
SELECT webhook.id, result.guid, definition, result.position, tries
FROM webhook INDEXED BY webhook_due JOIN result ON result.id = result_id JOIN launch ON launch.id = launch_id
WHERE state = 'WAITING' AND due <= ? AND webhook.id NOT IN (SELECT value FROM json_each(?))
ORDER BY due, webhook.id LIMIT ?
"""
_NO_SCHEME = "the address has no scheme (http:// or https://)"
"""Reason for never trying a webhook: the vendor's own examples are written so, and nobody can call them."""
WEBHOOK_STATES = ("WAITING", "DELIVERED", "FAILED")
_SELECT_ALL = """
SELECT webhook.id, result.guid AS result_guid, project_tag, question_tag, nullif(receiver, '') AS receiver,
       state, tries, due, problem
FROM webhook JOIN result ON result.id = result_id
WHERE webhook.id > :after AND (:state IS NULL OR state = :state) ORDER BY webhook.id LIMIT :limit
"""
_NAMES = ("id", "result_guid", "project_tag", "question_tag", "receiver", "state", "tries")
# After a reset an id may mean another webhook.
_SETTLE = """
UPDATE webhook SET state = ?, tries = tries + 1, due = ?, problem = ? WHERE state = 'WAITING' AND id = ?
AND tries = ? AND result_id = (SELECT id FROM result WHERE guid = ?)
"""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A result to be POSTed, after `tries` that failed."""

    id: int
    result_guid: str
    question: ServiceQuestion = field(repr=False)
    tries: int


def add_webhook(connection: sqlite3.Connection, result_id: int, url: str) -> None:
    """Queue a new result in the caller's write transaction; give it up if its address cannot be called."""
    receiver = parse_receiver(url)
    given_up = ("", "FAILED", _NO_SCHEME)
    connection.execute(
        "INSERT INTO webhook (result_id, receiver, state, problem) VALUES (?, ?, ?, ?)",
        (result_id, *(given_up if receiver is None else (receiver.authority, "WAITING", None))),
    )


def list_due_webhooks(
    connection: sqlite3.Connection, now: datetime, under_way: list[int], count: int
) -> list[Webhook]:
    """Return at most `count` webhooks that are due and not under way."""
    given = (format_time(now), json.dumps(under_way), count)
    return [
        Webhook(key, guid, load_definition(document).questions[position], tries)
        for key, guid, document, position, tries in connection.execute(_SELECT_DUE, given)
    ]


def settle_webhook(store: Store, webhook: Webhook, problem: str | None, retry_at: datetime | None) -> None:
    """Record the outcome of a try: delivered without a problem, tried again later, or given up."""
    state = "DELIVERED" if problem is None else "FAILED" if retry_at is None else "WAITING"
    due = "" if retry_at is None else format_time(retry_at)
    with store.write() as connection:
        connection.execute(_SETTLE, (state, due, problem, webhook.id, webhook.tries, webhook.result_guid))


def count_webhooks(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the webhooks by state."""
    return dict(connection.execute("SELECT state, count(*) FROM webhook GROUP BY state"))


def list_webhooks(
    connection: sqlite3.Connection, state: str | None, *, after: int, limit: int
) -> list[dict[str, Any]]:
    """Return at most `limit` webhooks after an id, as JSON has them; without addresses.

    `state` is one of `WEBHOOK_STATES`, or None for all.
    """
    found = []
    for *values, due, problem in connection.execute(
        _SELECT_ALL, {"state": state, "after": after, "limit": limit}
    ):
        record = dict(zip(_NAMES, values, strict=True))
        is_due = record["state"] == "WAITING" and due
        next_try = parse_time(due).isoformat() if is_due else None
        found.append({**record, "next_try": next_try, "last_problem": problem})
    return found
