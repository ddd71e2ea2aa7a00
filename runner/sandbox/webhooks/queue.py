"""The results that wait to be POSTed to a webhook, kept in the store: they survive the death of the service.

At least once: a try is counted and put off before it begins, so that what was under way when a service died
is tried again when its time has passed, and two services on one file never try the same one at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from runner.sandbox.clock import format_time
from runner.sandbox.definition import load_definition
from runner.sandbox.webhooks.receiver import parse_receiver

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from runner.sandbox.model import Question
    from runner.sandbox.store import Store

# The index is named, since the planner would take the one on the state alone. The first entry of each
# receiver is looked up in it: the backlog of one that hangs, however long, is stepped over and not read.
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
# The index on the state alone answers the first half: only what has failed is looked at.
_COUNT = """
SELECT state, count(*) FROM webhook WHERE state <> 'FAILED' GROUP BY state
UNION ALL
SELECT CASE WHEN tries THEN 'FAILED' ELSE 'UNDELIVERABLE' END AS what, count(*)
FROM webhook WHERE state = 'FAILED' GROUP BY what
"""
UNDELIVERABLE = "the address has no scheme (http:// or https://)"
"""Why a webhook is never tried: the vendor's own examples are written so, and nobody can call them."""
# After a reset the same id is another webhook, and after a pause of the machine the same webhook another try.
_IS_LEASED = "state = 'WAITING' AND id = ? AND due = ? AND tries = ?"
_LAST_GROWTH = 8  # later waits are as long as that one: the numbers stay within what a date can hold


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often a webhook is tried; with these values, over twenty minutes.

    Attributes:
        tries: after so many it is given up.
        timeout: for each, from name resolution to the first line of the answer.
        first_wait: between the first two; later waits are `factor` times the one before.
        factor: see `first_wait`.
    """

    tries: int = 7
    timeout: timedelta = timedelta(seconds=5)
    first_wait: timedelta = timedelta(seconds=1)
    factor: float = 4.0

    def wait_after(self, tries: int) -> timedelta:
        """Tell how long to wait after so many tries."""
        return self.first_wait * self.factor ** (min(tries, _LAST_GROWTH) - 1)


@dataclass(frozen=True, slots=True)
class Webhook:
    """A result that is to be POSTed, and the lease on it: who has an older one changes nothing any more.

    Attributes:
        id: its place in the queue.
        result_guid: the result.
        receiver: host and port of the question's webhook.
        question: what was answered: it knows the address.
        tries: how many there were, with the one that begins now.
        due: when that one counts as lost, as the store has it.
    """

    id: int
    result_guid: str
    receiver: str
    question: Question = field(repr=False)
    tries: int
    due: str

    @property
    def lease(self) -> tuple[int, str, int]:
        """What the store has of it as long as nobody else took it."""
        return self.id, self.due, self.tries


class WebhookQueue:
    """The queue of one store.

    Args:
        store: where it is kept.
        patience: when a webhook is tried again.
    """

    def __init__(self, store: Store, patience: Patience) -> None:
        self._store = store
        self._patience = patience

    def claim(self, count: int, now: datetime, busy: Collection[str] = ()) -> list[Webhook]:
        """Take webhooks that are due; nobody else gets them until twice the timeout is over.

        Args:
            count: how many at most.
            now: the present moment of the machine's clock.
            busy: the receivers whose webhooks are left where they are.
        """
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
        """Write down what became of a try.

        Args:
            webhook: what was tried.
            problem: why it failed, in words without the address; None if it was delivered.
            now: the moment of the machine's clock from which the next wait counts.
            is_final: whether a failure is not tried again, whatever the number of tries.
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
        """Put claimed webhooks back, as if they had not been tried.

        Args:
            webhooks: what was claimed and not settled.
            due: when they may be tried.
        """
        leases = [(format_time(due), *webhook.lease) for webhook in webhooks]
        with self._store.write() as connection:
            connection.executemany(
                f"UPDATE webhook SET tries = tries - 1, due = ? WHERE {_IS_LEASED}", leases
            )


def add_webhook(connection: sqlite3.Connection, result_id: int, url: str) -> None:
    """Queue a new result, in the caller's write transaction; one whose address cannot be called is given up.

    Args:
        connection: to the store.
        result_id: the result in the store.
        url: its question's webhook.
    """
    receiver = parse_receiver(url)
    given_up = ("", "FAILED", UNDELIVERABLE)
    connection.execute(
        "INSERT INTO webhook (result_id, receiver, state, problem) VALUES (?, ?, ?, ?)",
        (result_id, *(given_up if receiver is None else (receiver.authority, "WAITING", None))),
    )


def count_webhooks(store: Store) -> dict[str, int]:
    """Count the webhooks by their state: WAITING, DELIVERED, FAILED; a state that none has is left out.

    FAILED are those that were tried; UNDELIVERABLE those that could not be.
    """
    return dict(store.connection.execute(_COUNT))
