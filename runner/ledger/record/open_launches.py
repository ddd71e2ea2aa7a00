"""Launches that may have open sessions: from their intent until the service reports all as ended.

Plain texts open none for long. For launches that only a lockfile has, the campaign file shows if they ask
something; without it, only the service does. Time alone ends no session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, true, update

from runner.ledger.bulk import divide
from runner.ledger.tables import deliveries, launches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sqlalchemy import Connection

_GROUP = 500
# As `json.dumps` writes the key; within a text its quotes would be escaped.
_QUESTIONS = '"questions":'


def asks_something(definition: str) -> bool:
    """Return whether a launch has open sessions once it is sent."""
    return _QUESTIONS in definition


def note_open(connection: Connection, launch_ids: Iterable[int], *, is_open: bool) -> None:
    """Record that sessions of some launches are open, or that all have ended."""
    for group in divide(launch_ids, _GROUP):
        are_these = and_(launches.c.id.in_(group), launches.c.is_open.is_not(is_open))
        connection.execute(update(launches).where(are_these).values(is_open=is_open))


def end_sessions(connection: Connection, launch_id: int, people: Collection[str]) -> None:
    """Record the people whose sessions have ended, of a launch that is open for others."""
    for group in divide(people, _GROUP):
        are_new = and_(
            deliveries.c.launch_id == launch_id,
            deliveries.c.fingerprint.in_(group),
            deliveries.c.has_ended.is_(None),
        )
        connection.execute(update(deliveries).where(are_new).values(has_ended=true()))
