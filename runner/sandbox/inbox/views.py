"""The contents of pages: launches, groups, phones and conversations, as rows for the templates.

Connections give `sqlite3.Row`, whose columns templates read by name; moments are as stored.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.sandbox.conversation import is_scale, open_conversation, render_question, write_choice
from runner.sandbox.definition import load_definition
from runner.sandbox.model import Kind, Method

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from runner.sandbox.model import Definition

View = dict[str, Any]
_NO_LIMIT = (1 << 63) - 1  # SQLite's largest integer: every id is below it
LAUNCHES_A_PAGE = 50
GROUPS_A_PAGE = 25
NEWEST_SHOWN = 3
"""Launches of a group on the page of all groups; the others are behind a link."""
SESSIONS_A_PAGE = 50
LINES_A_PAGE = 100
PHONES_A_PAGE = 30

_LAUNCH = """
launch.id, launch.guid, launch.started, launch.project_tag AS tag, launch.definition, launch.renders,
launch.queued, launch.active, launch.complete, launch.queued + launch.active + launch.complete AS sessions,
launch.results
"""
_SELECT_GROUPS = """
SELECT project_tag AS tag, count(*) AS launches, max(id) AS newest, max(started) AS started,
       sum(queued) AS queued, sum(active) AS active, sum(complete) AS complete,
       sum(queued + active + complete) AS sessions, sum(results) AS results
FROM launch GROUP BY project_tag HAVING newest < ? ORDER BY newest DESC LIMIT ?
"""
_SELECT_ONLY_PHONES = """
SELECT launch_id, participant.guid, phone AS number
FROM json_each(?) AS wanted CROSS JOIN session ON launch_id = wanted.value
JOIN participant ON participant.id = participant_id
"""
_SELECT_SESSIONS = """
SELECT session.id, updated, participant.guid, phone AS number, status, sub_status
FROM session JOIN participant ON participant.id = participant_id
WHERE launch_id = ? AND session.id > ? ORDER BY session.id LIMIT ?
"""
_SELECT_LINES = """
SELECT id, kind, text, at, session_id FROM transcript
WHERE participant_id = ? AND id < ? ORDER BY id DESC LIMIT ?
"""
_SELECT_PLAYED = f"""
SELECT session.id AS session_id, status, sub_status, {_LAUNCH}
FROM json_each(?) AS wanted
CROSS JOIN session ON session.id = wanted.value
JOIN launch ON launch.id = launch_id
"""
_SELECT_LAST_LINES = """
SELECT (SELECT max(transcript.id) FROM transcript WHERE participant_id = participant.id) AS last
FROM participant WHERE last < ? ORDER BY last DESC LIMIT ?
"""
_SELECT_PHONES = """
SELECT participant.guid, phone AS number, line.text, line.at, line.kind = 'inbound' AS is_own,
  EXISTS (SELECT 1 FROM session WHERE participant_id = participant.id AND status = 'ACTIVE') AS is_asked,
  opted_out IS NOT NULL AS has_opted_out
FROM json_each(?) AS wanted
CROSS JOIN transcript AS line ON line.id = wanted.value
JOIN participant ON participant.id = line.participant_id ORDER BY wanted.key
"""


class Batch(NamedTuple):
    """A page of a long list; the next page holds what comes before the id `before`, if any."""

    items: Sequence[Any]
    before: int | None


def _cut(rows: Sequence[Any], size: int, column: str = "id") -> Batch:
    """Return the first `size` of rows, of which there is one more if there is another page."""
    return Batch(rows[:size], rows[size - 1][column] if len(rows) > size else None)


def _make_launch(row: sqlite3.Row) -> View:
    """Return a launch with its definition and its first text."""
    definition = load_definition(row["definition"])
    first = next((question.text for question in definition.questions), "")
    return {
        **dict(row),
        "definition": definition,
        "excerpt": definition.text or definition.introduction or first,
    }


def list_launches(
    connection: sqlite3.Connection, tag: str, before: int | None = None, size: int = LAUNCHES_A_PAGE
) -> Batch:
    """Return a page of the launches of one tag, newest first; each with its only phone."""
    query = f"SELECT {_LAUNCH} FROM launch WHERE id < ? AND project_tag = ? ORDER BY id DESC LIMIT ?"
    rows = connection.execute(query, (before or _NO_LIMIT, tag, size + 1)).fetchall()
    page = _cut([_make_launch(row) for row in rows], size)
    single = json.dumps([launch["id"] for launch in page.items if launch["sessions"] == 1])
    phones = {row["launch_id"]: row for row in connection.execute(_SELECT_ONLY_PHONES, (single,))}
    for launch in page.items:
        launch["phone"] = phones.get(launch["id"])
    return page


def list_groups(connection: sqlite3.Connection, before: int | None = None) -> Batch:
    """Return a page of groups by tag with their sums and newest launches, those with the newest first."""
    rows = connection.execute(_SELECT_GROUPS, (before or _NO_LIMIT, GROUPS_A_PAGE + 1)).fetchall()
    page = _cut([dict(row) for row in rows], GROUPS_A_PAGE, "newest")
    for group in page.items:
        group["members"] = list_launches(connection, group["tag"], size=NEWEST_SHOWN).items
    return page


def find_launch(connection: sqlite3.Connection, guid: str) -> View | None:
    """Return the launch with this project_launch_guid, if any."""
    row = connection.execute(f"SELECT {_LAUNCH} FROM launch WHERE guid = lower(?)", (guid,)).fetchone()
    return None if row is None else _make_launch(row)


def list_sessions(connection: sqlite3.Connection, launch_id: int, after: int | None = None) -> Batch:
    """Return a page of a launch's sessions after the id `after`, and the `after` of the next page, if any."""
    rows = connection.execute(_SELECT_SESSIONS, (launch_id, after or 0, SESSIONS_A_PAGE + 1)).fetchall()
    return _cut(rows, SESSIONS_A_PAGE)


def list_texts(definition: Definition) -> list[tuple[str, str]]:
    """Return the texts of a conversation in which everybody answers at once, each with its kind."""
    opening = open_conversation(definition).renders
    texts = [(str(each.kind.value), each.text) for each in opening if each.kind is not Kind.QUESTION]
    texts += [("question", render_question(question)) for question in definition.questions]
    return [*texts, ("conclusion", definition.conclusion)] if definition.conclusion else texts


def list_phones(connection: sqlite3.Connection, before: int | None = None) -> Batch:
    """Return a page of phones by their last lines, newest first, with ids of these below `before`."""
    rows = connection.execute(_SELECT_LAST_LINES, (before or _NO_LIMIT, PHONES_A_PAGE + 1)).fetchall()
    page = _cut(rows, PHONES_A_PAGE, "last")
    last = json.dumps([row["last"] for row in page.items])
    return Batch(connection.execute(_SELECT_PHONES, (last,)).fetchall(), page.before)


def find_thread(connection: sqlite3.Connection, guid: str, before: int | None = None) -> View | None:
    """Return the conversation of a participant_guid, with lines older than the id `before`, if any."""
    query = "SELECT id, guid, phone AS number, opted_out IS NOT NULL AS has_opted_out FROM participant"
    participant = connection.execute(f"{query} WHERE guid = lower(?)", (guid,)).fetchone()
    if participant is None:
        return None
    chosen = (participant["id"], before or _NO_LIMIT, LINES_A_PAGE + 1)
    newest, rest = _cut(connection.execute(_SELECT_LINES, chosen).fetchall(), LINES_A_PAGE)
    lines = newest[::-1]
    query = "SELECT status, position, definition FROM session JOIN launch ON launch.id = launch_id"
    unfinished = connection.execute(
        f"{query} WHERE participant_id = ? AND status <> 'COMPLETE'", (participant["id"],)
    ).fetchall()
    asked = next((row for row in unfinished if row["status"] == "ACTIVE"), None)
    return {
        **dict(participant),
        "stretches": _split(connection, lines),
        "before": rest,
        "is_asked": asked is not None,
        "choices": [] if asked is None else _offer(asked["position"], asked["definition"]),
        "queued": len(unfinished) - (asked is not None),
    }


def _split(connection: sqlite3.Connection, lines: Sequence[sqlite3.Row]) -> list[View]:
    """Return consecutive lines of one session with its state, or outside of any, without a launch."""
    wanted = json.dumps(sorted({line["session_id"] for line in lines if line["session_id"] is not None}))
    played = {row["session_id"]: _make_launch(row) for row in connection.execute(_SELECT_PLAYED, (wanted,))}
    stretches = []
    for session_id, group in groupby(lines, key=lambda line: line["session_id"]):
        launch = played.get(session_id)
        is_spoken = launch is not None and launch["definition"].method is Method.VOICE
        stretches.append({"launch": launch, "is_spoken": is_spoken, "lines": list(group)})
    return stretches


def _offer(position: int, document: str) -> list[View]:
    """Return the answers by one tap; scales need no number."""
    question = load_definition(document).questions[position]
    has_numbers = not is_scale(question.responses)
    return [
        {
            "number": index + 1 if has_numbers else None,
            "text": response,
            "reply": write_choice(question, index),
        }
        for index, response in enumerate(question.responses)
    ]
