"""Launches with their sessions, and the conversations with phones, as the pages show them.

Segments of a text, which carriers charge for, are counted by the standards, independently of the runner's
count; a test compares the two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from runner.sandbox.clock import parse_time
from runner.sandbox.conversation import is_scale, write_choice
from runner.sandbox.definition import load_definition
from runner.sandbox.model import Definition, Method
from runner.sandbox.webhooks.receiver import parse_receiver

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from datetime import datetime


Item = TypeVar("Item")

NO_LIMIT = (1 << 63) - 1
"""SQLite's largest integer: every id is below it."""
LAUNCHES_A_PAGE = 50
SESSIONS_A_PAGE = 50
LINES_A_PAGE = 100

LAUNCH_COLUMNS = """
launch.id, launch.guid, launch.started, launch.project_tag, launch.definition,
launch.queued, launch.active, launch.complete, launch.renders, launch.results
"""
_SELECT_LAUNCH = f"SELECT {LAUNCH_COLUMNS} FROM launch WHERE guid = lower(?)"
_SELECT_SESSIONS = """
SELECT session.id, updated, participant.guid, phone, status, sub_status
FROM session JOIN participant ON participant.id = participant_id
WHERE launch_id = ? AND session.id > ? AND ({condition}) ORDER BY session.id LIMIT ?
"""
_SELECT_PARTICIPANT = "SELECT id, guid, phone, opted_out IS NOT NULL FROM participant WHERE guid = lower(?)"
_SELECT_LINES = """
SELECT id, kind, text, at, session_id FROM transcript
WHERE participant_id = ? AND id < ? ORDER BY id DESC LIMIT ?
"""
_SELECT_PLAYED = f"""
SELECT session.id, status, sub_status, {LAUNCH_COLUMNS}
FROM json_each(?) AS wanted
CROSS JOIN session ON session.id = wanted.value
JOIN launch ON launch.id = launch_id
"""
_SELECT_OPEN = """
SELECT position, definition FROM session JOIN launch ON launch.id = launch_id
WHERE participant_id = ? AND status = 'ACTIVE'
"""
# The first condition on the status matches the index.
_COUNT_QUEUED = """
SELECT count(*) FROM session WHERE participant_id = ? AND status <> 'COMPLETE' AND status = 'QUEUED'
"""
# 3GPP TS 23.038: the default alphabet (6.2.1), and the extension table (6.2.1.1), reached by an escape.
_ALPHABET = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION = frozenset("\f^{}\\[~]|€")
# 3GPP TS 23.040, 9.2.3.24: the header that joins segments takes 7 septets, or 3 units, of each.
_SEPTETS = (160, 153)
_UNITS = (70, 67)


@dataclass(frozen=True, slots=True)
class Batch(Generic[Item]):
    """A page of a long list, newest first; the next page holds items older than the id `before`."""

    items: Sequence[Item]
    before: int | None


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch with its progress."""

    id: int
    guid: str
    started: datetime
    tag: str
    definition: Definition = field(repr=False)
    queued: int
    active: int
    complete: int
    renders: int
    results: int

    @property
    def sessions(self) -> int:
        """The number of its sessions, one a phone."""
        return self.queued + self.active + self.complete

    @property
    def excerpt(self) -> str:
        """Its first text or question."""
        questions = [question.text for question in self.definition.questions]
        return self.definition.text or self.definition.introduction or next(iter(questions), "")

    @property
    def undeliverable(self) -> Sequence[str]:
        """The addresses of webhooks that cannot be called."""
        webhooks = dict.fromkeys(question.webhook for question in self.definition.questions)
        return [webhook for webhook in webhooks if webhook and parse_receiver(webhook) is None]


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session of a launch, as the launch's page lists it."""

    id: int
    updated: datetime
    participant_guid: str
    phone: str = field(repr=False)
    status: str
    sub_status: str | None


def list_launches(
    connection: sqlite3.Connection,
    before: int | None = None,
    most: int = LAUNCHES_A_PAGE,
    condition: str = "TRUE",
    values: Sequence[str] = (),
) -> Batch[Launch]:
    """Return a page of `most` launches older than the id `before`, of those that fulfil an SQL condition."""
    query = f"SELECT {LAUNCH_COLUMNS} FROM launch WHERE id < ? AND ({condition}) ORDER BY id DESC LIMIT ?"
    rows = connection.execute(query, (before or NO_LIMIT, *values, most + 1)).fetchall()
    launches = [make_launch(row) for row in rows[:most]]
    return Batch(launches, launches[-1].id if len(rows) > most else None)


def find_launch(connection: sqlite3.Connection, guid: str) -> Launch | None:
    """Return the launch with this project_launch_guid, if any."""
    row = connection.execute(_SELECT_LAUNCH, (guid,)).fetchone()
    return None if row is None else make_launch(row)


def list_sessions(
    connection: sqlite3.Connection, launch_id: int, after: int | None = None, condition: str = "TRUE"
) -> tuple[Sequence[SessionView], int | None]:
    """Return a page of a launch's sessions after the id `after`, and the `after` of the next page, if any.

    `condition` is one of SQL that they fulfil.
    """
    query = _SELECT_SESSIONS.format(condition=condition)
    rows = connection.execute(query, (launch_id, after or 0, SESSIONS_A_PAGE + 1)).fetchall()
    sessions = [
        SessionView(identity, parse_time(updated), *row) for identity, updated, *row in rows[:SESSIONS_A_PAGE]
    ]
    return sessions, sessions[-1].id if len(rows) > SESSIONS_A_PAGE else None


def list_first_phones(connection: sqlite3.Connection, launch_id: int, count: int) -> list[str]:
    """Return the first phones of a launch, in the order of the send."""
    rows = connection.execute(_SELECT_SESSIONS.format(condition="TRUE"), (launch_id, 0, count))
    return [phone for _, _, _, phone, *_ in rows]


def make_launch(row: Sequence[Any]) -> Launch:
    """Return a launch from the values of `LAUNCH_COLUMNS`."""
    identity, guid, started, tag, document, *counts = row
    return Launch(identity, guid, parse_time(started), tag, load_definition(document), *counts)


@dataclass(frozen=True, slots=True)
class BubbleSegments:
    """Encoding ("GSM-7", or "UCS-2" where needed) and number of segments of a text, at least 1."""

    encoding: str
    segments: int


@lru_cache(maxsize=4096)  # a launch renders the same texts for everybody
def measure_text(text: str) -> BubbleSegments:
    """Count a text's segments; escape sequences and surrogate pairs are not split."""
    if _ALPHABET.union(_EXTENSION).issuperset(text):
        return BubbleSegments(
            "GSM-7", _fill([1 + (character in _EXTENSION) for character in text], *_SEPTETS)
        )
    units = [len(character.encode("utf-16-be")) // 2 for character in text]
    return BubbleSegments("UCS-2", _fill(units, *_UNITS))


def _fill(widths: list[int], single: int, joined: int) -> int:
    if sum(widths) <= single:
        return 1
    segments, used = 1, 0
    for width in widths:
        if used + width > joined:
            segments, used = segments + 1, 0
        used += width
    return segments


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a transcript, a bubble; `airtime` is None for the owner's texts and for calls."""

    id: int
    kind: str
    text: str = field(repr=False)
    at: datetime
    airtime: BubbleSegments | None

    @property
    def is_own(self) -> bool:
        """True if the phone's owner wrote it."""
        return self.kind == "inbound"

    @property
    def is_render(self) -> bool:
        """True if the plan is charged for it."""
        return self.kind not in {"inbound", "notice"}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive lines of one session with its state, or outside of any, without a launch."""

    launch: Launch | None
    status: str
    sub_status: str | None
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer by one tap, sent as `reply`; scales need no `number`."""

    number: int | None
    text: str
    reply: str


@dataclass(frozen=True, slots=True)
class Thread:
    """The conversation with one phone.

    Attributes:
        stretches: its lines, oldest first.
        before: older lines have ids below this one; None if there are none.
        last_id: the newest line's id, 0 without one.
        is_asked: True if a question waits for an answer.
        choices: that question's responses; empty for a freeform one.
        queued: sessions that wait for the active one to end.
    """

    participant_id: int
    guid: str
    number: str = field(repr=False)
    has_opted_out: bool
    stretches: Sequence[Stretch]
    before: int | None
    last_id: int
    is_asked: bool
    choices: Sequence[Choice]
    queued: int


_Played = tuple[Launch, str, str | None]


def find_thread(connection: sqlite3.Connection, guid: str, before: int | None = None) -> Thread | None:
    """Return the conversation of a participant_guid, with lines older than the id `before`, if any."""
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
        for session_id, status, sub_status, *launch in connection.execute(_SELECT_PLAYED, (wanted,))
    }


def _split(rows: Sequence[Sequence[Any]], sessions: Mapping[int, _Played]) -> list[Stretch]:
    stretches = []
    for session_id, group in groupby(rows, key=lambda row: row[-1]):
        launch, status, sub_status = sessions.get(session_id, (None, "", None))
        is_spoken = launch is not None and launch.definition.method is Method.VOICE
        lines = [_make_line(row, is_spoken=is_spoken) for row in group]
        stretches.append(Stretch(launch, status, sub_status, lines))
    return stretches


def _make_line(row: Sequence[Any], *, is_spoken: bool) -> Line:
    identity, kind, text, at, _ = row
    has_airtime = kind != "inbound" and not is_spoken
    return Line(identity, kind, text, parse_time(at), measure_text(text) if has_airtime else None)


def _offer(position: int, document: str) -> list[Choice]:
    question = load_definition(document).questions[position]
    has_numbers = not is_scale(question.responses)
    return [
        Choice(index + 1 if has_numbers else None, response, write_choice(question, index))
        for index, response in enumerate(question.responses)
    ]
