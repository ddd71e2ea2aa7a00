"""The conversation with one phone: its lines by session, and what can be answered with one tap."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from runner.sandbox.clock import parse_time
from runner.sandbox.conversation import is_scale, write_choice
from runner.sandbox.definition import load_definition
from runner.sandbox.inbox.launches import LAUNCH_COLUMNS, make_launch
from runner.sandbox.inbox.model import NO_LIMIT, Choice, Launch, Line, Stretch, Thread
from runner.sandbox.inbox.segment import measure_text
from runner.sandbox.model import Method

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

LINES_A_PAGE = 100

_SELECT_PARTICIPANT = "SELECT id, guid, phone, opted_out IS NOT NULL FROM participant WHERE guid = lower(?)"
_SELECT_LINES = """
SELECT id, kind, text, at, session_id FROM transcript
WHERE participant_id = ? AND id < ? ORDER BY id DESC LIMIT ?
"""
_SELECT_SESSIONS = f"""
SELECT session.id, status, sub_status, {LAUNCH_COLUMNS}
FROM json_each(?) AS wanted
CROSS JOIN session ON session.id = wanted.value
JOIN launch ON launch.id = launch_id
"""
_SELECT_OPEN = """
SELECT position, definition FROM session JOIN launch ON launch.id = launch_id
WHERE participant_id = ? AND status = 'ACTIVE'
"""
# The first condition on the status is that of the index.
_COUNT_QUEUED = """
SELECT count(*) FROM session WHERE participant_id = ? AND status <> 'COMPLETE' AND status = 'QUEUED'
"""

_Played = tuple[Launch, str, str | None]


def find_thread(connection: sqlite3.Connection, guid: str, before: int | None = None) -> Thread | None:
    """Give the conversation with the participant that has this guid, or None.

    Args:
        connection: to the store.
        guid: the participant_guid.
        before: gives lines that are older than the one with this id.
    """
    participant = connection.execute(_SELECT_PARTICIPANT, (guid,)).fetchone()
    if participant is None:
        return None
    participant_id, guid, number, has_opted_out = participant
    rows = connection.execute(
        _SELECT_LINES, (participant_id, before or NO_LIMIT, LINES_A_PAGE + 1)
    ).fetchall()
    page = rows[:LINES_A_PAGE][::-1]
    asked = connection.execute(_SELECT_OPEN, (participant_id,)).fetchone()
    (queued,) = connection.execute(_COUNT_QUEUED, (participant_id,)).fetchone()
    return Thread(
        participant_id=participant_id,
        guid=guid,
        number=number,
        has_opted_out=bool(has_opted_out),
        stretches=_split(page, _read_sessions(connection, page)),
        before=page[0][0] if len(rows) > LINES_A_PAGE else None,
        last_id=page[-1][0] if page else 0,
        is_asked=asked is not None,
        choices=() if asked is None else _offer(*asked),
        queued=queued,
    )


def _read_sessions(connection: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> dict[int, _Played]:
    wanted = json.dumps(sorted({row[-1] for row in rows if row[-1] is not None}))
    return {
        session_id: (make_launch(launch), status, sub_status)
        for session_id, status, sub_status, *launch in connection.execute(_SELECT_SESSIONS, (wanted,))
    }


def _split(rows: Sequence[Sequence[Any]], sessions: Mapping[int, _Played]) -> list[Stretch]:
    stretches = []
    for session_id, group in groupby(rows, key=lambda row: row[-1]):
        launch, status, sub_status = sessions.get(session_id, (None, "", None))
        is_spoken = launch is not None and launch.method is Method.VOICE
        lines = [_make_line(row, is_spoken=is_spoken) for row in group]
        stretches.append(Stretch(launch, status, sub_status, lines))
    return stretches


def _make_line(row: Sequence[Any], *, is_spoken: bool) -> Line:
    identity, kind, text, at, session_id = row
    has_airtime = kind != "inbound" and not is_spoken
    return Line(identity, kind, text, parse_time(at), measure_text(text) if has_airtime else None, session_id)


def _offer(position: int, document: str) -> list[Choice]:
    question = load_definition(document).questions[position]
    has_numbers = not is_scale(question.responses)
    return [
        Choice(index + 1 if has_numbers else None, response, write_choice(question, index))
        for index, response in enumerate(question.responses)
    ]
