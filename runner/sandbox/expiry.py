"""Sessions that nobody answers in time expire, and let the next one in the queue start.

How long they wait is kept in the store, so that every process on the file agrees. Nothing watches the clock:
whoever is about to read or to change sessions first lets those expire that are due. A session ends at the
moment it was due, not when somebody looked, and the next one starts at that moment: looking changes nothing.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from runner.sandbox.clock import format_time, parse_time
from runner.sandbox.model import SubStatus
from runner.sandbox.sessions import complete_active_sessions, start_next

if TYPE_CHECKING:
    import sqlite3
    from datetime import datetime

DEFAULT_LIFETIME = timedelta(days=7)
MAX_LIFETIME = timedelta(days=3650)
_NAME = "session_lifetime_s"
_AT_ONCE = 10_000
_SELECT_DUE = """
SELECT id, launch_id, participant_id, updated, EXISTS (
    SELECT 1 FROM session AS other
    WHERE other.participant_id = session.participant_id
    AND other.status <> 'COMPLETE' AND other.id > session.id
)
FROM session WHERE status = 'ACTIVE' AND updated <= ? ORDER BY updated LIMIT ?
"""


def read_lifetime(connection: sqlite3.Connection) -> timedelta:
    """Give the time since its last turn after which an active session expires."""
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (_NAME,)).fetchone()
    return DEFAULT_LIFETIME if row is None else timedelta(seconds=float(row[0]))


def check_lifetime(lifetime: timedelta) -> timedelta:
    """Give the lifetime back.

    Raises:
        ValueError: it is not above zero and up to `MAX_LIFETIME`.
    """
    if not timedelta(0) < lifetime <= MAX_LIFETIME:
        raise ValueError(f"a session lives for more than no time and at most {MAX_LIFETIME.days} days")
    return lifetime


def write_lifetime(connection: sqlite3.Connection, lifetime: timedelta) -> None:
    """Set what `read_lifetime` gives; it applies to the sessions that are open already, too.

    Raises:
        ValueError: as `check_lifetime`.
    """
    value = str(check_lifetime(lifetime).total_seconds())
    connection.execute("INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)", (_NAME, value))


def has_due_sessions(connection: sqlite3.Connection, now: datetime) -> bool:
    """Tell whether a session is due to expire; reads only."""
    return bool(_list_due(connection, now - read_lifetime(connection), 1))


def expire_sessions(connection: sqlite3.Connection, now: datetime, most: int = sys.maxsize) -> int:
    """Let sessions expire that are due, and start what queues behind them, inside the caller's transaction.

    Args:
        connection: to the store.
        now: the service's present moment.
        most: how many at most.

    Returns:
        How many sessions expired.
    """
    lifetime = read_lifetime(connection)
    expired = 0
    # Again and again, since a session that starts when one expires may be due as well.
    while due := _list_due(connection, now - lifetime, min(_AT_ONCE, most - expired)):
        # All sessions of a launch that nobody has answered yet end at the same moment.
        ends = {updated: parse_time(updated) + lifetime for updated in {each.updated for each in due}}
        written = {updated: format_time(end) for updated, end in ends.items()}
        ended = [(each.id, each.launch_id, written[each.updated]) for each in due]
        complete_active_sessions(connection, ended, SubStatus.EXPIRED)
        for each in due:
            if each.has_queue:
                start_next(connection, each.participant_id, ends[each.updated])
        expired += len(due)
    return expired


class _Due(NamedTuple):
    """A session that is due; `has_queue` tells whether another one waits for its end."""

    id: int
    launch_id: int
    participant_id: int
    updated: str
    has_queue: int


def _list_due(connection: sqlite3.Connection, latest: datetime, count: int) -> list[_Due]:
    return [_Due(*row) for row in connection.execute(_SELECT_DUE, (format_time(latest), count))]
