"""Phones as a messaging app lists them: by their last message, with what nobody has read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from runner.sandbox.clock import parse_time
from runner.sandbox.inbox.model import UNREAD_MAX, Batch, Phone

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from runner.sandbox.store import Store

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


def list_phones(connection: sqlite3.Connection, before: int | None = None) -> Batch[Phone]:
    """Give a page of phones, those with the newest lines first.

    Args:
        connection: to the store.
        before: the page holds phones whose last line has an id below this one.
    """
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
    """Give the phones whose transcripts end with these lines, in their order."""
    return [
        Phone(guid, number, text, parse_time(at), bool(is_own), unread, bool(is_asked), bool(has_opted_out))
        for guid, number, text, at, is_own, unread, is_asked, has_opted_out in connection.execute(
            _SELECT_PHONES, (json.dumps(last_lines),)
        )
    ]


def is_news(store: Store, participant_id: int, last_id: int) -> bool:
    """Tell whether nobody has looked at a phone's line yet."""
    row = store.connection.execute(
        "SELECT max(transcript_id) FROM seen WHERE participant_id IN (?, ?)", (participant_id, _EVERY_PHONE)
    ).fetchone()
    return last_id > (row[0] or 0)


def mark_seen(store: Store, participant_id: int, last_id: int) -> None:
    """Remember that a phone's lines up to this one were looked at."""
    with store.write() as connection:
        connection.execute(_SEE, (participant_id, last_id))


def mark_all_seen(store: Store) -> None:
    """Remember that every line so far was looked at."""
    with store.write() as connection:
        (newest,) = connection.execute("SELECT COALESCE(max(id), 0) FROM transcript").fetchone()
        connection.execute(_SEE, (_EVERY_PHONE, newest))
