"""Sessions in the store: they queue, become active, complete and expire, and are counted.

Functions run inside the caller's write transaction. A participant has at most one active session, and queued
ones only behind it: completing a session starts the next.

Due sessions expire before sessions are read or
changed, each at its due moment, when the next one starts: the time of the look makes no difference.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from runner.sandbox.clock import format_time, parse_time
from runner.sandbox.conversation import ServiceTurn, open_conversation
from runner.sandbox.definition import load_definition
from runner.sandbox.model import COUNTS, Definition, Kind, Prompt, ServiceQuestion, Status, SubStatus, Tally

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime


_ADDITIONS = ", ".join(f"{count} = {count} + ?" for count in COUNTS)
_COUNT_LAUNCH = f"UPDATE launch SET {_ADDITIONS} WHERE id = ?"
_COUNT_TOTALS = f"UPDATE totals SET {_ADDITIONS}"
INSERT_LINE = "INSERT INTO transcript (participant_id, session_id, at, kind, text) VALUES (?, ?, ?, ?, ?)"
LIFETIME = timedelta(days=7)
"""Time after its last turn at which an active session expires."""
_AT_ONCE = 10_000
_SELECT_DUE = """
SELECT id, launch_id, participant_id, updated, EXISTS (
    SELECT 1 FROM session AS other
    WHERE other.participant_id = session.participant_id
    AND other.status <> 'COMPLETE' AND other.id > session.id
)
FROM session WHERE status = 'ACTIVE' AND updated <= ? ORDER BY updated LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Session:
    """A stored session to be changed; `position` is None while it queues."""

    id: int
    launch_id: int
    participant_id: int
    definition: Definition = field(repr=False)
    position: int | None

    @property
    def question(self) -> ServiceQuestion | None:
        """The current question."""
        return None if self.position is None else self.definition.questions[self.position]


def add_to_totals(connection: sqlite3.Connection, tally: Tally) -> None:
    """Add counts only to the totals over all launches, for a launch that has them already."""
    connection.execute(_COUNT_TOTALS, tally)


def find_status(turn: ServiceTurn) -> Status:
    """Return a session's state after a turn."""
    return Status.COMPLETE if turn.position is None else Status.ACTIVE


def find_open_session(connection: sqlite3.Connection, participant_id: int) -> Session | None:
    """Return a participant's active session, or the first queued one."""
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
    connection.execute(INSERT_LINE, line)


def complete_open_sessions(
    connection: sqlite3.Connection, participant_ids: Sequence[int], sub_status: SubStatus, now: datetime
) -> int:
    """Complete all active and queued sessions of these participants without renders; return their number."""
    rows = connection.execute(
        "SELECT id, launch_id, status FROM session "
        "WHERE status <> 'COMPLETE' AND participant_id IN (SELECT value FROM json_each(?))",
        (json.dumps(participant_ids),),
    ).fetchall()
    stamp = format_time(now)
    _complete(connection, [(*row, stamp) for row in rows], sub_status)
    return len(rows)


def _complete(
    connection: sqlite3.Connection, sessions: Sequence[tuple[int, int, str, str]], sub_status: SubStatus
) -> None:
    """Complete open sessions without renders: ids of session and launch, the status, and the stored end."""
    connection.executemany(
        "UPDATE session SET status = 'COMPLETE', sub_status = ?, position = NULL, updated = ? WHERE id = ?",
        [(sub_status.value, at, session_id) for session_id, _, _, at in sessions],
    )
    for (launch_id, status), number in Counter((each[1], each[2]) for each in sessions).items():
        moved = Tally(queued=-number) if status == Status.QUEUED else Tally(active=-number)
        _add_tally(connection, launch_id, moved.plus(Tally(complete=number)))


def play_turn(
    connection: sqlite3.Connection, session: Session, turn: ServiceTurn, now: datetime
) -> tuple[Prompt | None, int]:
    """Play a turn, then queued sessions; return the waiting question and the number of completed ones."""
    completed = 0
    current: Session | None = session
    while current is not None:
        _write_turn(connection, current, turn, now)
        if turn.position is not None:
            return Prompt(current.id, current.definition, turn.position), completed
        completed += 1
        # The completed one is no longer open, so the first open one is next.
        current = find_open_session(connection, session.participant_id)
        if current is not None:
            turn = open_conversation(current.definition)
    return None, completed


def _write_turn(connection: sqlite3.Connection, session: Session, turn: ServiceTurn, now: datetime) -> None:
    stamp = format_time(now)
    connection.executemany(
        INSERT_LINE,
        [
            (session.participant_id, session.id, stamp, render.kind.value, render.text)
            for render in turn.renders
        ],
    )
    status = find_status(turn)
    was_active = session.position is not None
    if was_active and status is Status.ACTIVE:
        # Spares the indices on the status, which are most of the cost.
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
    connection.execute(_COUNT_LAUNCH, (*tally, launch_id))
    add_to_totals(connection, tally)


def has_due_sessions(connection: sqlite3.Connection, now: datetime) -> bool:
    """Return whether a session is due to expire; reads only."""
    return bool(_list_due(connection, now - LIFETIME, 1))


def find_next_expiry(connection: sqlite3.Connection) -> datetime | None:
    """Return the next moment at which a session expires, if one waits for an answer."""
    (updated,) = connection.execute("SELECT min(updated) FROM session WHERE status = 'ACTIVE'").fetchone()
    return None if updated is None else parse_time(updated) + LIFETIME


def expire_sessions(connection: sqlite3.Connection, now: datetime) -> int:
    """Expire the sessions that are due, and start queued ones; return the number of expired ones."""
    expired = 0
    # Repeated, since a session that starts when one expires may be due as well.
    while due := _list_due(connection, now - LIFETIME, _AT_ONCE):
        # All unanswered sessions of a launch end at the same moment.
        ends = {updated: parse_time(updated) + LIFETIME for updated in {each.updated for each in due}}
        written = {updated: format_time(end) for updated, end in ends.items()}
        ended = [(each.id, each.launch_id, Status.ACTIVE, written[each.updated]) for each in due]
        _complete(connection, ended, SubStatus.EXPIRED)
        for each in due:
            if each.has_queue and (queued := find_open_session(connection, each.participant_id)) is not None:
                play_turn(connection, queued, open_conversation(queued.definition), ends[each.updated])
        expired += len(due)
    return expired


class _Due(NamedTuple):
    """A session that is due; `has_queue` is True if another one waits for its end."""

    id: int
    launch_id: int
    participant_id: int
    updated: str
    has_queue: int


def _list_due(connection: sqlite3.Connection, latest: datetime, count: int) -> list[_Due]:
    return [_Due(*row) for row in connection.execute(_SELECT_DUE, (format_time(latest), count))]
