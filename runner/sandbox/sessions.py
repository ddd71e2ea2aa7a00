"""Sessions in the store: they queue, become active and complete, and are counted as they do.

Every function works inside the caller's write transaction. A participant has one active session at most, and
queued ones only behind it: whatever completes a session starts the next.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.sandbox.clock import format_time
from runner.sandbox.conversation import Turn, open_conversation
from runner.sandbox.definition import load_definition
from runner.sandbox.model import COUNTS, Definition, Kind, Prompt, Question, Status, SubStatus, Tally

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

_ADDITIONS = ", ".join(f"{count} = {count} + ?" for count in COUNTS)
_COUNT_LAUNCH = f"UPDATE launch SET {_ADDITIONS} WHERE id = ?"
_COUNT_TOTALS = f"UPDATE totals SET {_ADDITIONS}"
_INSERT_LINE = "INSERT INTO transcript (participant_id, session_id, at, kind, text) VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Session:
    """A stored session that something is about to happen to; `position` is None while it queues."""

    id: int
    launch_id: int
    participant_id: int
    definition: Definition = field(repr=False)
    position: int | None

    @property
    def question(self) -> Question | None:
        """What it asks now."""
        return None if self.position is None else self.definition.questions[self.position]


def add_to_totals(connection: sqlite3.Connection, tally: Tally) -> None:
    """Add counts to the totals over all launches alone, for a launch that has them already."""
    connection.execute(_COUNT_TOTALS, tally.counts())


def find_status(turn: Turn) -> Status:
    """Tell in which state a turn leaves its session."""
    return Status.COMPLETE if turn.position is None else Status.ACTIVE


def find_open_session(connection: sqlite3.Connection, participant_id: int) -> Session | None:
    """Find a participant's active session, or the first of the queue when none is active."""
    row = connection.execute(
        "SELECT session.id, launch.id, participant_id, definition, position "
        "FROM session JOIN launch ON launch.id = launch_id "
        "WHERE participant_id = ? AND status <> 'COMPLETE' ORDER BY session.id LIMIT 1",
        (participant_id,),
    ).fetchone()
    if row is None:
        return None
    session_id, launch_id, participant_id, document, position = row
    return Session(session_id, launch_id, participant_id, load_definition(document), position)


def write_line(
    connection: sqlite3.Connection,
    participant_id: int,
    session: Session | None,
    kind: Kind,
    text: str,
    now: datetime,
) -> None:
    """Add a line to a participant's transcript."""
    line = (participant_id, session.id if session else None, format_time(now), kind.value, text)
    connection.execute(_INSERT_LINE, line)


def complete_open_sessions(
    connection: sqlite3.Connection, participant_ids: Sequence[int], sub_status: SubStatus, now: datetime
) -> int:
    """Complete all active and queued sessions of these participants at once, and render nothing.

    Returns:
        How many sessions that were.
    """
    chosen = "status <> 'COMPLETE' AND participant_id IN (SELECT value FROM json_each(?))"
    ids = json.dumps(participant_ids)
    counted = connection.execute(
        "SELECT launch_id, sum(status = 'QUEUED'), sum(status = 'ACTIVE') "
        f"FROM session WHERE {chosen} GROUP BY launch_id",
        (ids,),
    ).fetchall()
    connection.execute(
        "UPDATE session SET status = 'COMPLETE', sub_status = ?, position = NULL, updated = ? "
        f"WHERE {chosen}",
        (sub_status.value, format_time(now), ids),
    )
    for launch_id, queued, active in counted:
        _add_tally(connection, launch_id, Tally(queued=-queued, active=-active, complete=queued + active))
    return sum(queued + active for _, queued, active in counted)


def complete_active_sessions(
    connection: sqlite3.Connection, sessions: Sequence[tuple[int, int, str]], sub_status: SubStatus
) -> None:
    """Complete active sessions, and render nothing.

    Args:
        connection: inside a write transaction.
        sessions: the id of each, that of its launch, and the moment of its end, as it is stored.
        sub_status: why they end.
    """
    connection.executemany(
        "UPDATE session SET status = 'COMPLETE', sub_status = ?, position = NULL, updated = ? WHERE id = ?",
        [(sub_status.value, at, session_id) for session_id, _, at in sessions],
    )
    for launch_id, number in Counter(launch_id for _, launch_id, _ in sessions).items():
        _add_tally(connection, launch_id, Tally(active=-number, complete=number))


def start_next(
    connection: sqlite3.Connection, participant_id: int, now: datetime
) -> tuple[Prompt | None, int]:
    """Start the first session of a participant's queue, if there is one; see `play_turn`."""
    session = find_open_session(connection, participant_id)
    if session is None:
        return None, 0
    return play_turn(connection, session, open_conversation(session.definition), now)


def play_turn(
    connection: sqlite3.Connection, session: Session, turn: Turn, now: datetime
) -> tuple[Prompt | None, int]:
    """Play a turn; when it completes the session, the queued ones after it too, until one asks something.

    Returns:
        What the participant is asked now, and how many sessions completed.
    """
    completed = 0
    current: Session | None = session
    while current is not None:
        _write_turn(connection, current, turn, now)
        if turn.position is not None:
            return Prompt(current.id, current.definition, turn.position), completed
        completed += 1
        # The completed one is open no more, so that the first open one is the next in the queue.
        current = find_open_session(connection, session.participant_id)
        if current is not None:
            turn = open_conversation(current.definition)
    return None, completed


def _write_turn(connection: sqlite3.Connection, session: Session, turn: Turn, now: datetime) -> None:
    stamp = format_time(now)
    connection.executemany(
        _INSERT_LINE,
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
            "UPDATE session SET status = ?, sub_status = ?, position = ?, updated = ? WHERE id = ?",
            (status.value, turn.sub_status, turn.position, stamp, session.id),
        )
    moved = Tally(
        queued=0 if was_active else -1,
        active=(status is Status.ACTIVE) - was_active,
        complete=int(status is Status.COMPLETE),
    )
    _add_tally(connection, session.launch_id, turn.count().plus(moved))


def _add_tally(connection: sqlite3.Connection, launch_id: int, tally: Tally) -> None:
    connection.execute(_COUNT_LAUNCH, (*tally.counts(), launch_id))
    add_to_totals(connection, tally)
