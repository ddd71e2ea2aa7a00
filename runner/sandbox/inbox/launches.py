"""Launches and their sessions, newest launch first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.sandbox.clock import parse_time
from runner.sandbox.definition import load_definition
from runner.sandbox.inbox.model import NO_LIMIT, Batch, Launch, Session
from runner.sandbox.webhooks.receiver import parse_receiver

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from runner.sandbox.model import Definition

LAUNCHES_A_PAGE = 25
SESSIONS_A_PAGE = 50

LAUNCH_COLUMNS = """
launch.id, launch.guid, launch.started, launch.project_tag, launch.definition,
launch.queued, launch.active, launch.complete, launch.renders, launch.results
"""
_SELECT_LAUNCHES = f"SELECT {LAUNCH_COLUMNS} FROM launch WHERE id < ? ORDER BY id DESC LIMIT ?"
_SELECT_LAUNCH = f"SELECT {LAUNCH_COLUMNS} FROM launch WHERE guid = lower(?)"
_SELECT_SESSIONS = """
SELECT session.id, participant.guid, phone, status, sub_status, updated
FROM session JOIN participant ON participant.id = participant_id
WHERE launch_id = ? AND session.id > ? ORDER BY session.id LIMIT ?
"""


def list_launches(connection: sqlite3.Connection, before: int | None = None) -> Batch[Launch]:
    """Give a page of launches that are older than the one with the id `before`."""
    rows = connection.execute(_SELECT_LAUNCHES, (before or NO_LIMIT, LAUNCHES_A_PAGE + 1)).fetchall()
    launches = [make_launch(row) for row in rows[:LAUNCHES_A_PAGE]]
    return Batch(launches, launches[-1].id if len(rows) > LAUNCHES_A_PAGE else None)


def find_launch(connection: sqlite3.Connection, guid: str) -> Launch | None:
    """Give the launch with this project_launch_guid, or None."""
    row = connection.execute(_SELECT_LAUNCH, (guid,)).fetchone()
    return None if row is None else make_launch(row)


def list_sessions(
    connection: sqlite3.Connection, launch_id: int, after: int | None = None
) -> tuple[Sequence[Session], int | None]:
    """Give a page of a launch's sessions, in order of creation.

    Args:
        connection: to the store.
        launch_id: the launch.
        after: the page begins behind the session with this id.

    Returns:
        The sessions, and the `after` of the next page if there is one.
    """
    rows = connection.execute(_SELECT_SESSIONS, (launch_id, after or 0, SESSIONS_A_PAGE + 1)).fetchall()
    sessions = [
        Session(identity, guid, phone, status, sub_status, parse_time(updated))
        for identity, guid, phone, status, sub_status, updated in rows[:SESSIONS_A_PAGE]
    ]
    return sessions, sessions[-1].id if len(rows) > SESSIONS_A_PAGE else None


def list_first_phones(connection: sqlite3.Connection, launch_id: int, count: int) -> list[str]:
    """Give the first phones of a launch, in the order of the send."""
    rows = connection.execute(_SELECT_SESSIONS, (launch_id, 0, count))
    return [phone for _, _, phone, *_ in rows]


def make_launch(row: Sequence[Any]) -> Launch:
    """Build a launch from the values of `LAUNCH_COLUMNS`."""
    identity, guid, started, tag, document, *counts = row
    definition = load_definition(document)
    return Launch(
        identity,
        guid,
        parse_time(started),
        tag,
        definition.method,
        _find_excerpt(definition),
        document,
        len(definition.questions),
        _find_undeliverable(definition),
        *counts,
    )


def _find_undeliverable(definition: Definition) -> list[str]:
    webhooks = dict.fromkeys(question.webhook for question in definition.questions if question.webhook)
    return [webhook for webhook in webhooks if parse_receiver(webhook) is None]


def _find_excerpt(definition: Definition) -> str:
    first_question = definition.questions[0].text if definition.questions else ""
    return definition.text or definition.introduction or first_question
