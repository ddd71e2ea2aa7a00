"""The contents of pages: launches, groups, phones, conversations and finds, as rows for the templates.

Connections give `sqlite3.Row`, whose columns templates read by name; moments are as stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.sandbox.clock import parse_time
from runner.sandbox.conversation import is_scale, open_conversation, render_question, write_choice
from runner.sandbox.definition import load_definition
from runner.sandbox.model import Kind, Method
from runner.sandbox.sessions import LIFETIME
from runner.sandbox.webhooks.receiver import parse_receiver

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from runner.sandbox.model import Definition
    from runner.sandbox.store import Store

View = dict[str, Any]
_NO_LIMIT = (1 << 63) - 1  # SQLite's largest integer: every id is below it
LAUNCHES_A_PAGE = 50
GROUPS_A_PAGE = 25
NEWEST_SHOWN = 3
"""Launches of a group on the page of all groups; the others are behind a link."""
SESSIONS_A_PAGE = 50
LINES_A_PAGE = 100
PHONES_A_PAGE = 30
HITS_SHOWN = 25
"""Phones, launches and texts that a search shows of each: to find others, it is narrowed."""
UNREAD_MAX = 99
"""Unread messages of a phone are counted up to here; one more stands for "more than that"."""
_FEW = 4000
"""So many participants are asked for their last line each; among more, the last lines are looked through."""
_EVERY_PHONE = 0  # in the column participant_id
_PHONE_PIECE = re.compile(r"\+?[0-9\s().\-]{2,}")
_MATCH = r"LIKE ? ESCAPE '\'"  # ignores the case of ASCII letters

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
WHERE launch_id = ? AND session.id > ? AND ({condition}) ORDER BY session.id LIMIT ?
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
_SELECT_LAST_OF_EACH = """
SELECT (SELECT max(transcript.id) FROM transcript WHERE participant_id = participant.id) AS last
FROM participant WHERE last < ? ORDER BY last DESC LIMIT ?
"""
_SELECT_LAST_LINES = """
SELECT line.id AS last FROM transcript AS line WHERE line.id < ? AND NOT EXISTS (
  SELECT 1 FROM transcript AS later WHERE later.participant_id = line.participant_id AND later.id > line.id
) ORDER BY line.id DESC LIMIT ?
"""
_SELECT_PHONES = f"""
SELECT participant.guid, phone AS number, line.text, line.at, line.kind = 'inbound' AS is_own,
  (SELECT count(*) FROM (
    SELECT 1 FROM transcript AS unread
    WHERE unread.participant_id = participant.id AND unread.kind <> 'inbound' AND unread.id > max(
      COALESCE((SELECT transcript_id FROM seen WHERE participant_id = participant.id), 0),
      COALESCE((SELECT transcript_id FROM seen WHERE participant_id = {_EVERY_PHONE}), 0))
    LIMIT {UNREAD_MAX + 1})) AS unread,
  EXISTS (SELECT 1 FROM session WHERE participant_id = participant.id AND status = 'ACTIVE') AS is_asked,
  opted_out IS NOT NULL AS has_opted_out
FROM json_each(?) AS wanted
CROSS JOIN transcript AS line ON line.id = wanted.value
JOIN participant ON participant.id = line.participant_id ORDER BY wanted.key
"""
_FIND_PHONES = """
SELECT (SELECT max(transcript.id) FROM transcript WHERE participant_id = participant.id) AS last
FROM participant WHERE instr(phone, ?) AND last IS NOT NULL ORDER BY id DESC LIMIT ?
"""
# Equal lines are one hit: SQLite takes the other columns from the row with the highest id.
_FIND_LINES = f"""
SELECT max(line.id) AS last, guid, phone AS number, line.text, kind = 'inbound' AS is_own, at,
       count(DISTINCT participant_id) AS phones
FROM transcript AS line JOIN participant ON participant.id = participant_id
WHERE line.text {_MATCH} GROUP BY line.text, is_own ORDER BY last DESC LIMIT ?
"""
_SEE = """
INSERT INTO seen (participant_id, transcript_id) VALUES (?, ?)
ON CONFLICT (participant_id) DO UPDATE SET transcript_id = excluded.transcript_id
WHERE excluded.transcript_id > transcript_id
"""
_REFUSED = "COALESCE(sub_status IN ('OPTED_OUT', 'BLOCKED'), FALSE)"
_HAS_REFUSED = f"EXISTS (SELECT 1 FROM session WHERE launch_id = launch.id AND {_REFUSED})"
_HAS_ANSWERED = """
EXISTS (SELECT 1 FROM result WHERE result.participant_id = session.participant_id AND session_id = session.id)
"""
# By field and value of a filter: the condition for launches, and the one for sessions.
_CONDITIONS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("state", "active"): ("active > 0", "status = 'ACTIVE'"),
    ("state", "queued"): ("queued > 0", "status = 'QUEUED'"),
    ("state", "complete"): ("active = 0 AND queued = 0", "status = 'COMPLETE'"),
    ("answered", "yes"): ("results > 0", _HAS_ANSWERED),
    ("answered", "no"): ("results = 0", f"NOT {_HAS_ANSWERED}"),
    ("opted_out", "yes"): (_HAS_REFUSED, _REFUSED),
    ("opted_out", "no"): (f"NOT {_HAS_REFUSED}", f"NOT {_REFUSED}"),
}


class Batch(NamedTuple):
    """A page of a long list; the next page holds what comes before the id `before`, if any."""

    items: Sequence[Any]
    before: int | None


def _cut(rows: Sequence[Any], size: int, column: str = "id") -> Batch:
    """Return the first `size` of rows, of which there is one more if there is another page."""
    return Batch(rows[:size], rows[size - 1][column] if len(rows) > size else None)


Filter = Mapping[str, str]
"""The limits of a list, as in a query: `tag`, a part of the launch's tag; `group`, the whole tag, empty
for launches without one; `state`, `answered` and `opted_out` as in `_CONDITIONS`."""


def read_filter(query: Mapping[str, str]) -> Filter:
    """Return the filter of a page's query; values that mean nothing are left out."""
    return {
        name: value
        for name, value in query.items()
        if (name, value) in _CONDITIONS or name == "group" or (name == "tag" and value.strip())
    }


def write_condition(limits: Filter, *, of_sessions: bool = False) -> str:
    """Return the SQL condition of a filter for launches, but for tags, or for a launch's sessions."""
    found = [_CONDITIONS[each][of_sessions] for each in limits.items() if each in _CONDITIONS]
    return " AND ".join(found) or "TRUE"


def _make_launch(row: sqlite3.Row) -> View:
    """Return a launch with its definition, its first text, and the webhooks that cannot be called."""
    definition = load_definition(row["definition"])
    webhooks = dict.fromkeys(question.webhook for question in definition.questions)
    return {
        **dict(row),
        "definition": definition,
        "excerpt": definition.text
        or definition.introduction
        or next((question.text for question in definition.questions), ""),
        "undeliverable": [each for each in webhooks if each and parse_receiver(each) is None],
    }


def list_launches(
    connection: sqlite3.Connection,
    condition: str = "TRUE",
    values: Sequence[str] = (),
    before: int | None = None,
    size: int = LAUNCHES_A_PAGE,
) -> Batch:
    """Return a page of the launches that fulfil an SQL condition, newest first; each with its only phone."""
    query = f"SELECT {_LAUNCH} FROM launch WHERE id < ? AND ({condition}) ORDER BY id DESC LIMIT ?"
    rows = connection.execute(query, (before or _NO_LIMIT, *values, size + 1)).fetchall()
    page = _cut([_make_launch(row) for row in rows], size)
    single = json.dumps([launch["id"] for launch in page.items if launch["sessions"] == 1])
    phones = {row["launch_id"]: row for row in connection.execute(_SELECT_ONLY_PHONES, (single,))}
    for launch in page.items:
        launch["phone"] = phones.get(launch["id"])
    return page


def list_filtered(connection: sqlite3.Connection, limits: Filter, before: int | None = None) -> Batch:
    """Return a page of the launches that a filter leaves, newest first."""
    condition, values = write_condition(limits), []
    if "group" in limits:
        condition += " AND project_tag = ?"
        values.append(limits["group"])
    if "tag" in limits:
        condition += f" AND project_tag {_MATCH}"
        values.append(_write_pattern(limits["tag"].strip()))
    return list_launches(connection, condition, values, before)


def list_groups(connection: sqlite3.Connection, before: int | None = None) -> Batch:
    """Return a page of groups by tag with their sums and newest launches, those with the newest first."""
    rows = connection.execute(_SELECT_GROUPS, (before or _NO_LIMIT, GROUPS_A_PAGE + 1)).fetchall()
    page = _cut([dict(row) for row in rows], GROUPS_A_PAGE, "newest")
    for group in page.items:
        newest = list_launches(connection, "project_tag = ?", (group["tag"],), size=NEWEST_SHOWN)
        group["members"] = newest.items
    return page


def find_launch(connection: sqlite3.Connection, guid: str) -> View | None:
    """Return the launch with this project_launch_guid, if any."""
    return next(iter(list_launches(connection, "guid = lower(?)", (guid,)).items), None)


def list_sessions(
    connection: sqlite3.Connection, launch_id: int, after: int | None = None, condition: str = "TRUE"
) -> tuple[Sequence[sqlite3.Row], int | None]:
    """Return a page of a launch's sessions after the id `after`, and the `after` of the next page, if any."""
    query = _SELECT_SESSIONS.format(condition=condition)
    return _cut(
        connection.execute(query, (launch_id, after or 0, SESSIONS_A_PAGE + 1)).fetchall(), SESSIONS_A_PAGE
    )


def list_first_phones(connection: sqlite3.Connection, launch_id: int, count: int) -> list[str]:
    """Return the first phones of a launch, in the order of the send."""
    rows = connection.execute(_SELECT_SESSIONS.format(condition="TRUE"), (launch_id, 0, count))
    return [row["number"] for row in rows]


def list_texts(definition: Definition) -> list[tuple[str, str]]:
    """Return the texts of a conversation in which everybody answers at once, each with its kind."""
    opening = open_conversation(definition).renders
    texts = [(str(each.kind.value), each.text) for each in opening if each.kind is not Kind.QUESTION]
    texts += [("question", render_question(question)) for question in definition.questions]
    return [*texts, ("conclusion", definition.conclusion)] if definition.conclusion else texts


def forecast_launch(connection: sqlite3.Connection, launch: View) -> View:
    """Return the renders left if all answer each question once, and the launch's end if nobody does."""
    definition = launch["definition"]
    query = """
    SELECT position, count(*) AS number, max(updated) AS latest FROM session
    WHERE launch_id = ? AND status = 'ACTIVE' GROUP BY position
    """
    waiting = connection.execute(query, (launch["id"],)).fetchall()
    last = len(definition.questions) - 1 + bool(definition.conclusion)
    left = sum(row["number"] * (last - row["position"]) for row in waiting)
    latest = max((row["latest"] for row in waiting), default=None)
    return {
        "renders_left": left + launch["queued"] * len(list_texts(definition)),
        "ends": None if latest is None else parse_time(latest) + LIFETIME,
    }


def list_phones(connection: sqlite3.Connection, before: int | None = None) -> Batch:
    """Return a page of phones by their last lines, newest first, with ids of these below `before`."""
    (people,) = connection.execute("SELECT COALESCE(max(id), 0) FROM participant").fetchone()
    query = _SELECT_LAST_OF_EACH if people <= _FEW else _SELECT_LAST_LINES
    rows = connection.execute(query, (before or _NO_LIMIT, PHONES_A_PAGE + 1)).fetchall()
    page = _cut(rows, PHONES_A_PAGE, "last")
    return Batch(_read_phones(connection, [row["last"] for row in page.items]), page.before)


def _read_phones(connection: sqlite3.Connection, last_lines: Sequence[int]) -> list[sqlite3.Row]:
    return connection.execute(_SELECT_PHONES, (json.dumps(last_lines),)).fetchall()


def is_news(store: Store, participant_id: int, last_id: int) -> bool:
    """Return whether a phone's line is unseen."""
    row = store.connection.execute(
        "SELECT max(transcript_id) FROM seen WHERE participant_id IN (?, ?)", (participant_id, _EVERY_PHONE)
    ).fetchone()
    return last_id > (row[0] or 0)


def mark_seen(store: Store, participant_id: int, last_id: int) -> None:
    """Mark a phone's lines up to this one as seen."""
    with store.write() as connection:
        connection.execute(_SEE, (participant_id, last_id))


def mark_all_seen(store: Store) -> None:
    """Mark every line so far as seen."""
    (newest,) = store.connection.execute("SELECT COALESCE(max(id), 0) FROM transcript").fetchone()
    mark_seen(store, _EVERY_PHONE, newest)


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
        "last_id": lines[-1]["id"] if lines else 0,
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


def _write_pattern(wanted: str) -> str:
    r"""Return the LIKE pattern for a text in another, with `\` as the escape."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", wanted) + "%"


def search_phones(connection: sqlite3.Connection, query: str) -> list[sqlite3.Row]:
    """Return the newest phones with these consecutive digits."""
    digits = re.sub(r"[^0-9]", "", query) if _PHONE_PIECE.fullmatch(query) else ""
    rows = connection.execute(_FIND_PHONES, (digits, HITS_SHOWN)) if digits else ()
    return _read_phones(connection, [row["last"] for row in rows])


def search_launches(connection: sqlite3.Connection, query: str) -> Sequence[View]:
    """Return the newest launches by a text in their tag or by their guid."""
    values = (_write_pattern(query), query.lower())
    condition = f"project_tag {_MATCH} OR guid = ?"
    return list_launches(connection, condition, values, size=HITS_SHOWN).items if query else ()


def search_lines(connection: sqlite3.Connection, query: str) -> list[sqlite3.Row]:
    """Return the newest hits for a text in the lines; equal lines of phones are one hit."""
    return connection.execute(_FIND_LINES, (_write_pattern(query), HITS_SHOWN)).fetchall() if query else []
