"""Results that wait for their webhook, in the store so that they survive the service's death.

Delivery is at least once: a try is counted and postponed before it begins, so that an unfinished one is
repeated later, and two services on one file never make the same one at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from runner.sandbox.clock import format_time, parse_time
from runner.sandbox.definition import load_definition
from runner.sandbox.webhooks.receiver import parse_receiver

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from runner.sandbox.model import ServiceQuestion
    from runner.sandbox.store import Store

# The index is named, since the planner would take the one on the state alone. It gives the first entry of
# each receiver, so that long backlogs are skipped unread.
_QUEUE = "webhook INDEXED BY webhook_due"
_SELECT_DUE = f"""
WITH RECURSIVE waiting (receiver) AS (
    SELECT min(receiver) FROM {_QUEUE} WHERE state = 'WAITING'
    UNION ALL
    SELECT (
        SELECT min(webhook.receiver) FROM {_QUEUE}
        WHERE state = 'WAITING' AND webhook.receiver > waiting.receiver
    )
    FROM waiting WHERE receiver IS NOT NULL
)
SELECT webhook.id, result.guid, webhook.receiver, definition, result.position, tries
FROM waiting
CROSS JOIN webhook ON webhook.id IN (
    SELECT webhook.id FROM {_QUEUE}
    WHERE state = 'WAITING' AND webhook.receiver = waiting.receiver AND due <= :now
    ORDER BY due, webhook.id LIMIT :count
)
JOIN result ON result.id = result_id
JOIN launch ON launch.id = launch_id
WHERE waiting.receiver NOT IN (SELECT value FROM json_each(:busy))
ORDER BY due, webhook.id LIMIT :count
"""
# The index on the state alone gives the first half: only failed ones are read.
_COUNT = """
SELECT state, count(*) FROM webhook WHERE state <> 'FAILED' GROUP BY state
UNION ALL
SELECT CASE WHEN tries THEN 'FAILED' ELSE 'UNDELIVERABLE' END AS what, count(*)
FROM webhook WHERE state = 'FAILED' GROUP BY what
"""
UNDELIVERABLE = "the address has no scheme (http:// or https://)"
"""Reason for never trying a webhook: the vendor's own examples are written so, and nobody can call them."""
WEBHOOK_STATES = ("WAITING", "DELIVERED", "FAILED", "UNDELIVERABLE")
_STATE = "CASE WHEN webhook.state = 'FAILED' AND NOT tries THEN 'UNDELIVERABLE' ELSE webhook.state END"
_SELECT_ALL = f"""
SELECT webhook.id, result.guid, project_tag, question_tag, receiver, {_STATE}, tries, due, problem
FROM webhook JOIN result ON result.id = result_id
WHERE webhook.id > :after AND webhook.id < :before AND (:state IS NULL OR {_STATE} = :state)
ORDER BY webhook.id """
_LARGEST_ID = 2**63 - 1
# An id may mean another webhook after a reset, and another try after a pause of the machine.
_IS_LEASED = "state = 'WAITING' AND id = ? AND due = ? AND tries = ?"
_LAST_GROWTH = 8  # later waits stay as long, so that dates do not overflow


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """Time and number of a webhook's tries; by default, over twenty minutes.

    Attributes:
        tries: maximum.
        timeout: of each, from name resolution to the first line of the answer.
        first_wait: between the first two; later waits are `factor` times the one before.
    """

    tries: int = 7
    timeout: timedelta = timedelta(seconds=5)
    first_wait: timedelta = timedelta(seconds=1)
    factor: float = 4.0

    def wait_after(self, tries: int) -> timedelta:
        """Return the wait after so many tries."""
        return self.first_wait * self.factor ** (min(tries, _LAST_GROWTH) - 1)


@dataclass(frozen=True, slots=True)
class Webhook:
    """A result to be POSTed, with its lease: a holder of an older lease changes nothing.

    `tries` includes the current one, which counts as lost at `due`.
    """

    id: int
    result_guid: str
    receiver: str
    question: ServiceQuestion = field(repr=False)
    tries: int
    due: str

    @property
    def lease(self) -> tuple[int, str, int]:
        """The stored values while nobody else has claimed it."""
        return self.id, self.due, self.tries


class WebhookQueue:
    """The queue of one store; `patience` is its retry schedule."""

    def __init__(self, store: Store, patience: RetrySchedule) -> None:
        self._store = store
        self._patience = patience

    def claim(self, count: int, now: datetime, busy: Collection[str] = ()) -> list[Webhook]:
        """Claim at most `count` due webhooks for two timeouts, but none of `busy` receivers."""
        wanted = {"now": format_time(now), "busy": json.dumps([*busy]), "count": count}
        # Most of the time nothing is due: a look takes no lock.
        if not count or not self._store.connection.execute(_SELECT_DUE, wanted).fetchall():
            return []
        with self._store.write() as connection:
            rows = connection.execute(_SELECT_DUE, wanted).fetchall()
            lost = format_time(now + 2 * self._patience.timeout)
            connection.executemany(
                "UPDATE webhook SET tries = tries + 1, due = ? WHERE id = ?", [(lost, row[0]) for row in rows]
            )
        return [
            Webhook(key, guid, receiver, load_definition(document).questions[position], tries + 1, lost)
            for key, guid, receiver, document, position, tries in rows
        ]

    def settle(self, webhook: Webhook, problem: str | None, now: datetime, *, is_final: bool) -> None:
        """Record the outcome of a try at the machine's time `now`.

        `problem` describes a failure without the address; with `is_final`, it is not tried again.
        """
        due = webhook.due
        if problem is None:
            state = "DELIVERED"
        elif is_final or webhook.tries >= self._patience.tries:
            state = "FAILED"
        else:
            state, due = "WAITING", format_time(now + self._patience.wait_after(webhook.tries))
        with self._store.write() as connection:
            connection.execute(
                f"UPDATE webhook SET state = ?, due = ?, problem = ? WHERE {_IS_LEASED}",
                (state, due, problem, *webhook.lease),
            )

    def release(self, webhooks: Iterable[Webhook], due: datetime) -> None:
        """Return claimed, unsettled webhooks to the queue until `due`, as if they had not been tried."""
        leases = [(format_time(due), *webhook.lease) for webhook in webhooks]
        with self._store.write() as connection:
            connection.executemany(
                f"UPDATE webhook SET tries = tries - 1, due = ? WHERE {_IS_LEASED}", leases
            )


def add_webhook(connection: sqlite3.Connection, result_id: int, url: str) -> None:
    """Queue a new result in the caller's write transaction; give it up if its address cannot be called."""
    receiver = parse_receiver(url)
    given_up = ("", "FAILED", UNDELIVERABLE)
    connection.execute(
        "INSERT INTO webhook (result_id, receiver, state, problem) VALUES (?, ?, ?, ?)",
        (result_id, *(given_up if receiver is None else (receiver.authority, "WAITING", None))),
    )


def count_webhooks(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the webhooks by state: WAITING, DELIVERED, FAILED (tried), UNDELIVERABLE (cannot be)."""
    return dict(connection.execute(_COUNT))


def list_webhooks(
    connection: sqlite3.Connection, state: str | None, *, after: int, limit: int
) -> list[dict[str, Any]]:
    """Return at most `limit` webhooks after the one with the id `after`, as JSON has them; without addresses.

    `state` is one of `WEBHOOK_STATES`, or None for all.
    """
    wanted = {"state": state, "after": after, "before": _LARGEST_ID, "limit": limit}
    return [_describe(*row) for row in connection.execute(f"{_SELECT_ALL} LIMIT :limit", wanted)]


def list_newest_webhooks(
    connection: sqlite3.Connection, state: str | None, *, before: int | None, limit: int
) -> list[dict[str, Any]]:
    """Return what `list_webhooks` does, the newest first: those before the one with the id `before`."""
    wanted = {"state": state, "after": 0, "before": before or _LARGEST_ID, "limit": limit}
    return [_describe(*row) for row in connection.execute(f"{_SELECT_ALL} DESC LIMIT :limit", wanted)]


def _describe(
    number: int,
    guid: str,
    project_tag: str,
    question_tag: str,
    receiver: str,
    shown: str,
    tries: int,
    due: str,
    problem: str | None,
) -> dict[str, Any]:
    return {
        "id": number,
        "result_guid": guid,
        "project_tag": project_tag,
        "question_tag": question_tag,
        "receiver": receiver or None,
        "state": shown,
        "tries": tries,
        "next_try": parse_time(due).isoformat() if shown == "WAITING" and due else None,
        "last_problem": problem,
    }


def resend_webhooks(store: Store, number: int | None) -> int:
    """Have one webhook delivered again, or with None all that were given up; return how many.

    Their tries are counted from the start. A try that is under way counts as lost.
    """
    chosen = "state = 'FAILED'" if number is None else "id = ?"
    with store.write() as connection:
        change = (
            f"UPDATE webhook SET state = 'WAITING', tries = 0, due = '' WHERE receiver <> '' AND {chosen}"
        )
        return connection.execute(change, () if number is None else (number,)).rowcount
