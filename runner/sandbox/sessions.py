"""Sessions in the store: they queue, become active, take texts and complete.

Every function works inside the caller's write transaction. A participant has one active session at most, and
queued ones only behind it: whatever completes a session starts the next.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from runner.sandbox.clock import format_time
from runner.sandbox.conversation import Answer, Turn, continue_conversation, open_conversation
from runner.sandbox.definition import load_definition
from runner.sandbox.model import COUNTS, Definition, Kind, Prompt, Receipt, Status, Tally

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

# `updated` of a result is "some microseconds later" than `created` (recorded responses of public clients).
_UPDATED_AFTER = timedelta(microseconds=37)

_ADDITIONS = ", ".join(f"{count} = {count} + ?" for count in COUNTS)
_COUNT_LAUNCH = f"UPDATE launch SET {_ADDITIONS} WHERE id = ?"
_COUNT_TOTALS = f"UPDATE totals SET {_ADDITIONS}"


@dataclass(frozen=True, slots=True)
class _Session:
    """A stored session that something is about to happen to."""

    id: int
    launch_id: int
    participant_id: int
    definition: Definition
    position: int | None


def add_tally(connection: sqlite3.Connection, launch_id: int, tally: Tally) -> None:
    """Add counts to a launch and to the totals over all launches."""
    connection.execute(_COUNT_LAUNCH, (*tally.counts(), launch_id))
    add_to_totals(connection, tally)


def add_to_totals(connection: sqlite3.Connection, tally: Tally) -> None:
    """Add counts to the totals over all launches alone, for a launch that has them already."""
    connection.execute(_COUNT_TOTALS, tally.counts())


def find_status(turn: Turn) -> Status:
    """Tell in which state a turn leaves its session."""
    return Status.COMPLETE if turn.position is None else Status.ACTIVE


def complete_open_sessions(
    connection: sqlite3.Connection, participant_ids: Sequence[int], now: datetime
) -> None:
    """Complete all active and queued sessions of these participants at once, and render nothing."""
    chosen = "status <> 'COMPLETE' AND participant_id IN (SELECT value FROM json_each(?))"
    ids = json.dumps(participant_ids)
    counted = connection.execute(
        "SELECT launch_id, sum(status = 'QUEUED'), sum(status = 'ACTIVE') "
        f"FROM session WHERE {chosen} GROUP BY launch_id",
        (ids,),
    ).fetchall()
    connection.execute(
        f"UPDATE session SET status = 'COMPLETE', position = NULL, updated = ? WHERE {chosen}",
        (format_time(now), ids),
    )
    for launch_id, queued, active in counted:
        add_tally(connection, launch_id, Tally(queued=-queued, active=-active, complete=queued + active))


def receive_text(
    connection: sqlite3.Connection,
    participant_id: int,
    text: str,
    now: datetime,
    new_guid: Callable[[], str],
) -> Receipt:
    """Take a participant's text as the answer to what their active session asks."""
    session = _find_open_session(connection, participant_id)
    connection.execute(
        "INSERT INTO transcript (participant_id, session_id, at, kind, text) VALUES (?, ?, ?, ?, ?)",
        (participant_id, session.id if session else None, format_time(now), Kind.INBOUND.value, text),
    )
    if session is None or session.position is None:
        return Receipt(was_expected=False, result_guid=None, prompt=None, completed=0)
    turn = continue_conversation(session.definition, session.position, text)
    result_guid = None
    if turn.answer is not None:
        result_guid = new_guid()
        _record_result(connection, session, turn.answer, result_guid, now)
    prompt, completed = _play(connection, session, turn, now)
    return Receipt(was_expected=True, result_guid=result_guid, prompt=prompt, completed=completed)


def _play(
    connection: sqlite3.Connection, session: _Session, turn: Turn, now: datetime
) -> tuple[Prompt | None, int]:
    """Play a turn; when it completes the session, the queued ones after it too, until one asks something.

    Returns:
        What the participant is asked now, and how many sessions completed.
    """
    completed = 0
    current: _Session | None = session
    while current is not None:
        _write_turn(connection, current, turn, now)
        if turn.position is not None:
            return Prompt(current.id, current.definition, turn.position), completed
        completed += 1
        # The completed one is open no more, so that the first open one is the next in the queue.
        current = _find_open_session(connection, session.participant_id)
        if current is not None:
            turn = open_conversation(current.definition)
    return None, completed


def _write_turn(connection: sqlite3.Connection, session: _Session, turn: Turn, now: datetime) -> None:
    stamp = format_time(now)
    connection.executemany(
        "INSERT INTO transcript (participant_id, session_id, at, kind, text) VALUES (?, ?, ?, ?, ?)",
        [
            (session.participant_id, session.id, stamp, render.kind.value, render.text)
            for render in turn.renders
        ],
    )
    status = find_status(turn)
    was_active = session.position is not None
    if was_active and status is Status.ACTIVE:
        # Leaves the indices on the status alone, which are most of the cost.
        connection.execute(
            "UPDATE session SET position = ?, updated = ? WHERE id = ?", (turn.position, stamp, session.id)
        )
    else:
        connection.execute(
            "UPDATE session SET status = ?, position = ?, updated = ? WHERE id = ?",
            (status.value, turn.position, stamp, session.id),
        )
    moved = Tally(
        queued=0 if was_active else -1,
        active=(status is Status.ACTIVE) - was_active,
        complete=int(status is Status.COMPLETE),
    )
    add_tally(connection, session.launch_id, turn.count().plus(moved))


def _record_result(
    connection: sqlite3.Connection, session: _Session, answer: Answer, guid: str, now: datetime
) -> None:
    question = session.definition.questions[session.position or 0]
    connection.execute(
        "INSERT INTO result (guid, launch_id, participant_id, session_id, position, project_tag, "
        "question_tag, answer, response, created, updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            guid,
            session.launch_id,
            session.participant_id,
            session.id,
            session.position,
            session.definition.tag,
            question.tag,
            answer.answer,
            answer.response,
            format_time(now),
            format_time(now + _UPDATED_AFTER),
        ),
    )


def _find_open_session(connection: sqlite3.Connection, participant_id: int) -> _Session | None:
    """Find the active session, or the first of the queue when none is active."""
    row = connection.execute(
        "SELECT session.id, launch.id, participant_id, definition, position "
        "FROM session JOIN launch ON launch.id = launch_id "
        "WHERE participant_id = ? AND status <> 'COMPLETE' ORDER BY session.id LIMIT 1",
        (participant_id,),
    ).fetchone()
    if row is None:
        return None
    session_id, launch_id, participant_id, document, position = row
    return _Session(session_id, launch_id, participant_id, load_definition(document), position)
