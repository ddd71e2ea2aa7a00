"""Launches that may have open sessions: from their intent until the service has said that all have ended.

A plain text opens none for long. Of what only a lockfile tells, the campaign's file says whether it asks
something; where that is gone, only what the service says counts. Time ends nothing: how long a session lasts
is the service's own business.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from sqlalchemy import and_, exists, not_, or_, true, update

from runner.ledger.tables import deliveries, launch_stats, launches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sqlalchemy import ColumnElement, Connection

_GROUP = 500
# As `json.dumps` writes the key; within a text its quotes would stand behind backslashes.
_QUESTIONS = '"questions":'
_HAVE_ENDED = and_(
    launch_stats.c.num_active_sessions == 0,
    launch_stats.c.num_queued_sessions == 0,
    launch_stats.c.num_complete_sessions >= launches.c.recipients,
)
_ARE_OPEN = or_(launch_stats.c.num_active_sessions > 0, launch_stats.c.num_queued_sessions > 0)


def _has_stats(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists().where(launch_stats.c.launch_id == launches.c.id, condition).correlate(launches)


IS_OPEN: ColumnElement[bool] = or_(
    and_(
        launches.c.definition.is_not(None),
        launches.c.definition.like(f"%{_QUESTIONS}%"),
        not_(_has_stats(_HAVE_ENDED)),
    ),
    _has_stats(_ARE_OPEN),
)
"""Whether a launch may have an open session, in a ledger that does not keep that yet."""

CLOSE_LAUNCHES = update(launches).where(not_(IS_OPEN)).values(is_open=False)
"""Enters what `IS_OPEN` says."""


def asks_something(definition: str) -> bool:
    """Return whether a launch has open sessions once it is sent.

    Args:
        definition: the send body less `phone`, as JSON.
    """
    return _QUESTIONS in definition


def open_launches(connection: Connection, launch_ids: Iterable[int]) -> None:
    """Record that sessions of some launches are open of which that was not known.

    Args:
        connection: commits after this.
        launch_ids: the ledger's numbers of the launches.
    """
    _note(connection, launch_ids, is_open=True)


def close_launches(connection: Connection, launch_ids: Iterable[int]) -> None:
    """Record that no session of some launches is open any more.

    Args:
        connection: commits after this.
        launch_ids: the ledger's numbers of the launches.
    """
    _note(connection, launch_ids, is_open=False)


def _note(connection: Connection, launch_ids: Iterable[int], *, is_open: bool) -> None:
    waiting = iter(launch_ids)
    while group := list(islice(waiting, _GROUP)):
        are_these = and_(launches.c.id.in_(group), launches.c.is_open.is_not(is_open))
        connection.execute(update(launches).where(are_these).values(is_open=is_open))


def end_sessions(connection: Connection, launch_id: int, people: Collection[str]) -> None:
    """Record whose sessions have ended, of a launch that is open for others.

    Args:
        connection: commits after this.
        launch_id: the ledger's number of the launch.
        people: their fingerprints.
    """
    waiting = iter(people)
    while group := list(islice(waiting, _GROUP)):
        are_new = and_(
            deliveries.c.launch_id == launch_id,
            deliveries.c.fingerprint.in_(group),
            deliveries.c.has_ended.is_(None),
        )
        connection.execute(update(deliveries).where(are_new).values(has_ended=true()))
