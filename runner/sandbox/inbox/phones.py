"""Phones as in a messaging app, by their last message, and a search for phones, launches and lines."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.sandbox.clock import parse_time
from runner.sandbox.inbox.threads import NO_LIMIT, Batch, Launch, list_launches

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from runner.sandbox.store import Store


UNREAD_MAX = 99
"""Unread messages of a phone are counted up to here; one more stands for "more than that"."""
PHONES_A_PAGE = 30
_FEW = 4000
"""So many participants are asked for their last line each; among more, the last lines are looked through."""
_WINDOW = 40_000
"""Lines that are looked through for a page; where they belong to a few phones, the page is short."""

_SELECT_LAST_OF_EACH = """
SELECT (SELECT max(transcript.id) FROM transcript WHERE participant_id = participant.id) AS last
FROM participant WHERE last < ? ORDER BY last DESC LIMIT ?
"""
_SELECT_LAST_LINES = """
SELECT line.id FROM transcript AS line
WHERE line.id < :before AND line.id >= :before - :window AND NOT EXISTS (
  SELECT 1 FROM transcript AS later WHERE later.participant_id = line.participant_id AND later.id > line.id
)
ORDER BY line.id DESC LIMIT :count
"""
_EVERY_PHONE = 0  # in the column participant_id
_SELECT_PHONES = f"""
SELECT participant.guid, phone, line.text, line.at, line.kind = 'inbound',
  (SELECT count(*) FROM (
    SELECT 1 FROM transcript AS unread
    WHERE unread.participant_id = participant.id AND unread.kind <> 'inbound' AND unread.id > max(
      COALESCE((SELECT transcript_id FROM seen WHERE participant_id = participant.id), 0),
      COALESCE((SELECT transcript_id FROM seen WHERE participant_id = {_EVERY_PHONE}), 0))
    LIMIT {UNREAD_MAX + 1})),
  EXISTS (SELECT 1 FROM session WHERE session.participant_id = participant.id AND status = 'ACTIVE'),
  opted_out IS NOT NULL
FROM json_each(?) AS wanted
CROSS JOIN transcript AS line ON line.id = wanted.value
JOIN participant ON participant.id = line.participant_id
ORDER BY wanted.key
"""
_SEE = """
INSERT INTO seen (participant_id, transcript_id) VALUES (?, ?)
ON CONFLICT (participant_id) DO UPDATE SET transcript_id = excluded.transcript_id
WHERE excluded.transcript_id > transcript_id
"""
HITS_A_PAGE = 25
PHONES_FOUND = 8
LAUNCHES_FOUND = 8
MATCH = r"LIKE ? ESCAPE '\'"
"""SQL condition with a value from `write_pattern`; it ignores the case of ASCII letters."""
_PHONE_PIECE = re.compile(r"\+?[0-9\s().\-]+")
_MIN_DIGITS = 2

_FIND_PHONES = """
SELECT id, (SELECT max(transcript.id) FROM transcript WHERE participant_id = participant.id) AS last
FROM participant WHERE id < ? AND instr(phone, ?) AND last IS NOT NULL ORDER BY id DESC LIMIT ?
"""
# Equal lines are one hit: SQLite takes the other columns from the row with the highest id.
_FIND_LINES = f"""
SELECT max(line.id) AS last, participant.guid, phone, line.text, kind = 'inbound' AS is_own, at,
       count(DISTINCT participant_id)
FROM transcript AS line JOIN participant ON participant.id = participant_id
WHERE line.text {MATCH} GROUP BY line.text, is_own HAVING last < ? ORDER BY last DESC LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Phone:
    """A phone in the list of phones.

    Attributes:
        last_text: last line of its transcript.
        is_last_own: True if the phone's owner wrote that line.
        unread: unseen messages, counted up to `UNREAD_MAX` + 1.
        is_asked: True if a question waits for an answer.
    """

    guid: str
    number: str = field(repr=False)
    last_text: str = field(repr=False)
    last_at: datetime
    is_last_own: bool
    unread: int
    is_asked: bool
    has_opted_out: bool


@dataclass(frozen=True, slots=True)
class Hit:
    """A text that a search found: its newest line, and the number of phones that have it."""

    line_id: int
    participant_guid: str
    number: str = field(repr=False)
    text: str = field(repr=False)
    is_own: bool
    at: datetime
    phones: int


def list_phones(connection: sqlite3.Connection, before: int | None = None) -> Batch[Phone]:
    """Return a page of phones, newest lines first, with last lines below the id `before`."""
    (people,) = connection.execute("SELECT COALESCE(max(id), 0) FROM participant").fetchone()
    (newest,) = connection.execute("SELECT COALESCE(max(id), 0) FROM transcript").fetchone()
    start = min(before or newest + 1, newest + 1)
    if people <= _FEW:
        rows = connection.execute(_SELECT_LAST_OF_EACH, (start, PHONES_A_PAGE + 1))
        rest = None
    else:
        given = {"before": start, "window": _WINDOW, "count": PHONES_A_PAGE + 1}
        rows = connection.execute(_SELECT_LAST_LINES, given)
        rest = start - _WINDOW if start > _WINDOW else None
    last_lines = [last for (last,) in rows]
    page = last_lines[:PHONES_A_PAGE]
    return Batch(read_phones(connection, page), page[-1] if len(last_lines) > PHONES_A_PAGE else rest)


def read_phones(connection: sqlite3.Connection, last_lines: Sequence[int]) -> list[Phone]:
    """Return the phones whose transcripts end with these lines, in their order."""
    return [
        Phone(guid, number, text, parse_time(at), *marks)
        for guid, number, text, at, *marks in connection.execute(_SELECT_PHONES, (json.dumps(last_lines),))
    ]


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
    with store.write() as connection:
        (newest,) = connection.execute("SELECT COALESCE(max(id), 0) FROM transcript").fetchone()
        connection.execute(_SEE, (_EVERY_PHONE, newest))


def search_phones(connection: sqlite3.Connection, query: str, before: int | None = None) -> Batch[Phone]:
    """Return a page of phones with these consecutive digits, and participant ids below `before`."""
    digits = re.sub(r"[^0-9]", "", query) if _PHONE_PIECE.fullmatch(query) else ""
    if len(digits) < _MIN_DIGITS:
        return Batch((), None)
    rows = connection.execute(_FIND_PHONES, (before or NO_LIMIT, digits, PHONES_FOUND + 1)).fetchall()
    page = rows[:PHONES_FOUND]
    phones = read_phones(connection, [last for _, last in page])
    return Batch(phones, page[-1][0] if len(rows) > PHONES_FOUND else None)


def write_pattern(wanted: str) -> str:
    r"""Return the LIKE pattern for a text in another, with `\` as the escape."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", wanted) + "%"


def search_launches(connection: sqlite3.Connection, query: str, before: int | None = None) -> Batch[Launch]:
    """Return a page of launches by a text in their tag or by their guid, with ids below `before`."""
    if not query:
        return Batch((), None)
    condition = f"project_tag {MATCH} OR guid = ?"
    return list_launches(connection, before, LAUNCHES_FOUND, condition, (write_pattern(query), query.lower()))


def search_lines(connection: sqlite3.Connection, query: str, before: int | None = None) -> Batch[Hit]:
    """Return a page of hits for a text in the lines, newest first, with ids below `before`."""
    if not query:
        return Batch((), None)
    given = (write_pattern(query), before or NO_LIMIT, HITS_A_PAGE + 1)
    rows = connection.execute(_FIND_LINES, given).fetchall()
    hits = [
        Hit(line_id, guid, number, text, bool(is_own), parse_time(at), phones)
        for line_id, guid, number, text, is_own, at, phones in rows[:HITS_A_PAGE]
    ]
    return Batch(hits, hits[-1].line_id if len(rows) > HITS_A_PAGE else None)
