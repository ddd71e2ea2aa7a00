"""Finds phones by digits, launches by their tags and lines by their words, newest first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runner.sandbox.clock import parse_time
from runner.sandbox.inbox.launches import LAUNCH_COLUMNS, make_launch
from runner.sandbox.inbox.model import NO_LIMIT, Batch, Hit, Launch, Phone, Place
from runner.sandbox.inbox.phones import read_phones

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

HITS_A_PAGE = 25
PHONES_A_PAGE = 8
LAUNCHES_A_PAGE = 8
LINES_SEARCHED = 500_000
"""Lines that are looked through for a page; where there are more, the next page goes on with them."""
LINES_FOLDED = 5000
"""Lines that are found for a page, those with the same text together."""
_PHONE_PIECE = re.compile(r"\+?[0-9\s().\-]+")
_MIN_DIGITS = 2
_Found = tuple[int, str, str, str, bool, str]  # what `_SELECT_LINES` gives

_SELECT_PHONES = """
SELECT id, (SELECT max(transcript.id) FROM transcript WHERE participant_id = participant.id) AS last
FROM participant WHERE id < ? AND instr(phone, ?) AND last IS NOT NULL ORDER BY id DESC LIMIT ?
"""
_SELECT_LAUNCHES = rf"""
SELECT {LAUNCH_COLUMNS} FROM launch
WHERE id < ? AND (project_tag LIKE ? ESCAPE '\' OR guid = ?) ORDER BY id DESC LIMIT ?
"""
_SELECT_LINES = r"""
SELECT line.id, participant.guid, phone, line.text, kind = 'inbound', at
FROM transcript AS line JOIN participant ON participant.id = participant_id
WHERE line.id < ? AND line.id >= ? AND line.text LIKE ? ESCAPE '\' ORDER BY line.id DESC LIMIT ?
"""


def search_phones(connection: sqlite3.Connection, query: str, before: int | None = None) -> Batch[Phone]:
    """Find phones by digits that follow each other in their number; anything else finds none.

    Args:
        connection: to the store.
        query: what was asked for; blanks and punctuation between digits do not matter.
        before: the page holds participants with ids below this one.
    """
    digits = re.sub(r"[^0-9]", "", query) if _PHONE_PIECE.fullmatch(query.strip()) else ""
    if len(digits) < _MIN_DIGITS:
        return Batch((), None)
    rows = connection.execute(_SELECT_PHONES, (before or NO_LIMIT, digits, PHONES_A_PAGE + 1)).fetchall()
    page = rows[:PHONES_A_PAGE]
    phones = read_phones(connection, [last for _, last in page])
    return Batch(phones, page[-1][0] if len(rows) > PHONES_A_PAGE else None)


def search_launches(connection: sqlite3.Connection, query: str, before: int | None = None) -> Batch[Launch]:
    """Find launches whose tag holds a text, or whose project_launch_guid it is.

    Args:
        connection: to the store.
        query: the text, blanks around it left out; the case of ASCII letters does not matter.
        before: the page holds launches with ids below this one.
    """
    wanted = query.strip()
    if not wanted:
        return Batch((), None)
    given = (before or NO_LIMIT, _write_pattern(wanted), wanted.lower(), LAUNCHES_A_PAGE + 1)
    rows = connection.execute(_SELECT_LAUNCHES, given).fetchall()
    launches = [make_launch(row) for row in rows[:LAUNCHES_A_PAGE]]
    return Batch(launches, launches[-1].id if len(rows) > LAUNCHES_A_PAGE else None)


def search_lines(connection: sqlite3.Connection, query: str, before: int | None = None) -> Batch[Hit]:
    """Find lines that hold a text; those of a page that say the same are one hit.

    Args:
        connection: to the store.
        query: the text, blanks around it left out; the case of ASCII letters does not matter.
        before: the page holds lines with ids below this one.

    Returns:
        The hits among the `LINES_SEARCHED` lines before; there may be a next page though none was found.
    """
    wanted = query.strip()
    if not wanted:
        return Batch((), None)
    (newest,) = connection.execute("SELECT COALESCE(max(id), 0) FROM transcript").fetchone()
    start = min(before or newest + 1, newest + 1)
    end = max(1, start - LINES_SEARCHED)
    given = (start, end, _write_pattern(wanted), LINES_FOLDED + 1)
    groups, rest = _group(connection.execute(_SELECT_LINES, given))
    if rest is None and end > 1:
        rest = end
    return Batch([_make_hit(group) for group in groups], rest)


def _group(rows: Iterable[_Found]) -> tuple[Sequence[Sequence[_Found]], int | None]:
    """Put lines that say the same together, as many as a page holds; tell the last id if more are left."""
    groups: dict[tuple[str, bool], list[_Found]] = {}
    last = None
    for count, row in enumerate(rows):
        _, _, _, text, is_own, _ = row
        is_new = (text, is_own) not in groups
        if count == LINES_FOLDED or (is_new and len(groups) == HITS_A_PAGE):
            return list(groups.values()), last
        groups.setdefault((text, is_own), []).append(row)
        last = row[0]
    return list(groups.values()), None


def _make_hit(group: Sequence[_Found]) -> Hit:
    places = {guid: Place(identity, guid, number) for identity, guid, number, *_ in reversed(group)}
    _, newest, _, text, is_own, at = group[0]
    place = places.pop(newest)
    return Hit(place, text, bool(is_own), parse_time(at), tuple(reversed(places.values())))


def _write_pattern(wanted: str) -> str:
    r"""Write a text as the pattern of LIKE that finds it, with `\` as the escape."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", wanted) + "%"
