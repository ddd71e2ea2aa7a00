"""Launches grouped by their tag, lists of them by filters, and what a launch still can send."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.sandbox.clock import parse_time
from runner.sandbox.conversation import open_conversation, render_question
from runner.sandbox.inbox.phones import MATCH, write_pattern
from runner.sandbox.inbox.threads import (
    LAUNCH_COLUMNS,
    NO_LIMIT,
    Batch,
    BubbleSegments,
    Launch,
    list_launches,
    make_launch,
    measure_text,
)
from runner.sandbox.sessions import read_lifetime

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from runner.sandbox.model import Definition

GROUPS_A_PAGE = 25
MESSAGES_SHOWN = 3
"""Messages of a group on the page of all groups; the others are behind a link."""
_COMPARED = 2000
"""Launches of a group whose definitions are compared; of a larger group the newest launches are shown."""

_SUMS = """
count(*), max(id), max(started), sum(queued), sum(active), sum(complete), sum(renders), sum(results)
"""
_SELECT_GROUPS = f"""
SELECT project_tag, {_SUMS} FROM launch GROUP BY project_tag
HAVING max(id) < ? ORDER BY max(id) DESC LIMIT ?
"""
_SELECT_MESSAGES = f"""
SELECT project_tag, {_SUMS} FROM launch WHERE project_tag = ? GROUP BY definition
ORDER BY max(id) DESC LIMIT ?
"""
_SELECT_NEWEST = f"""
SELECT {LAUNCH_COLUMNS} FROM json_each(?) AS wanted CROSS JOIN launch ON launch.id = wanted.value
"""
_SELECT_ONLY_PHONES = """
SELECT launch_id, participant.guid, phone
FROM json_each(?) AS wanted CROSS JOIN session ON launch_id = wanted.value
JOIN participant ON participant.id = participant_id
"""
_REFUSED = "sub_status IN ('OPTED_OUT', 'BLOCKED')"
_HAS_REFUSED = f"EXISTS (SELECT 1 FROM session WHERE launch_id = launch.id AND {_REFUSED})"
_HAS_ANSWERED = """
EXISTS (SELECT 1 FROM result WHERE result.participant_id = session.participant_id AND session_id = session.id)
"""
STATES = ("active", "queued", "complete")
_LAUNCH_CONDITIONS: Mapping[tuple[str, str], str] = {
    ("state", "active"): "active > 0",
    ("state", "queued"): "queued > 0",
    ("state", "complete"): "active = 0 AND queued = 0",
    ("answered", "yes"): "results > 0",
    ("answered", "no"): "results = 0",
    ("opted_out", "yes"): _HAS_REFUSED,
    ("opted_out", "no"): f"NOT {_HAS_REFUSED}",
}
_SESSION_CONDITIONS: Mapping[tuple[str, str], str] = {
    **{("state", state): f"status = '{state.upper()}'" for state in STATES},
    ("answered", "yes"): _HAS_ANSWERED,
    ("answered", "no"): f"NOT {_HAS_ANSWERED}",
    ("opted_out", "yes"): f"COALESCE({_REFUSED}, FALSE)",
    ("opted_out", "no"): f"NOT COALESCE({_REFUSED}, FALSE)",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """The limits of a list; an empty value means everything.

    Attributes:
        tag: a part of the launch's tag.
        group: the whole tag; None for all, empty for launches without a tag.
        state: one of `STATES`.
        answered: `yes` or `no`.
        opted_out: `yes` or `no`.
    """

    tag: str = ""
    group: str | None = None
    state: str = ""
    answered: str = ""
    opted_out: str = ""

    @property
    def is_set(self) -> bool:
        """True if it leaves anything out."""
        return self != Filter()

    @property
    def is_narrowed(self) -> bool:
        """True if it leaves out anything of its group, or of everything."""
        return self != Filter(group=self.group)

    def list_values(self) -> Mapping[str, str]:
        """Return the values that are set, by the names of their query parameters."""
        given = {"tag": self.tag, "state": self.state, "answered": self.answered, "opted_out": self.opted_out}
        group = {} if self.group is None else {"group": self.group}
        return {**group, **{name: value for name, value in given.items() if value}}

    def write_session_condition(self) -> str:
        """Return the SQL condition for a launch's sessions."""
        return _join(_SESSION_CONDITIONS, self)


def read_filter(query: Mapping[str, str]) -> Filter:
    """Return the filter of a page's query; values that mean nothing are left out."""
    known = {name: value for name, value in query.items() if (name, value) in _LAUNCH_CONDITIONS}
    return Filter(tag=query.get("tag", "").strip(), group=query.get("group"), **known)


def _join(conditions: Mapping[tuple[str, str], str], limits: Filter) -> str:
    chosen = [conditions[each] for each in limits.list_values().items() if each in conditions]
    return " AND ".join(chosen) or "TRUE"


@dataclass(frozen=True, slots=True)
class TagGroup:
    """Launches with something in common, and their sums.

    Attributes:
        newest: the newest of them.
        messages: of a tag's launches, the groups with one definition each, newest first.
    """

    tag: str
    launches: int
    newest: Launch
    started: datetime
    queued: int
    active: int
    complete: int
    renders: int
    results: int
    messages: Sequence[TagGroup] = ()

    @property
    def sessions(self) -> int:
        """The number of their sessions."""
        return self.queued + self.active + self.complete


def list_groups(connection: sqlite3.Connection, before: int | None = None) -> Batch[TagGroup]:
    """Return a page of groups by tag, those with the newest launches first, all of them below an id."""
    rows = connection.execute(_SELECT_GROUPS, (before or NO_LIMIT, GROUPS_A_PAGE + 1)).fetchall()
    page = rows[:GROUPS_A_PAGE]
    groups = [
        TagGroup(*_read_sums(connection, row), messages=_list_messages(connection, row)) for row in page
    ]
    return Batch(groups, page[-1][2] if len(rows) > GROUPS_A_PAGE else None)


def _list_messages(connection: sqlite3.Connection, group: Sequence[object]) -> list[TagGroup]:
    tag, launches = group[0], int(str(group[1]))
    if launches == 1:
        return []
    if launches > _COMPARED:
        newest = list_launches(connection, None, MESSAGES_SHOWN, "project_tag = ?", (str(tag),))
        return [_make_single(each) for each in newest.items]
    rows = connection.execute(_SELECT_MESSAGES, (tag, MESSAGES_SHOWN)).fetchall()
    return [TagGroup(*_read_sums(connection, row)) for row in rows]


def _make_single(launch: Launch) -> TagGroup:
    counts = (launch.queued, launch.active, launch.complete, launch.renders, launch.results)
    return TagGroup(launch.tag, 1, launch, launch.started, *counts)


def _read_sums(
    connection: sqlite3.Connection, row: Sequence[object]
) -> tuple[str, int, Launch, datetime, int, int, int, int, int]:
    tag, launches, newest, started, *counts = row
    launch = make_launch(connection.execute(_SELECT_NEWEST, (json.dumps([newest]),)).fetchone())
    queued, active, complete, renders, results = (int(str(count)) for count in counts)
    parsed = parse_time(str(started))
    return str(tag), int(str(launches)), launch, parsed, queued, active, complete, renders, results


def list_filtered(connection: sqlite3.Connection, limits: Filter, before: int | None = None) -> Batch[Launch]:
    """Return a page of the launches that a filter leaves, newest first, with ids below `before`."""
    condition, values = _join(_LAUNCH_CONDITIONS, limits), []
    if limits.group is not None:
        condition += " AND project_tag = ?"
        values.append(limits.group)
    if limits.tag:
        condition += f" AND project_tag {MATCH}"
        values.append(write_pattern(limits.tag))
    return list_launches(connection, before, condition=condition, values=values)


@dataclass(frozen=True, slots=True)
class OnlyPhone:
    """The one phone of a launch to one person."""

    guid: str
    number: str


def find_only_phones(connection: sqlite3.Connection, launches: Sequence[Launch]) -> dict[int, OnlyPhone]:
    """Return the phones of those launches that have one session, by the launch's id."""
    wanted = json.dumps([launch.id for launch in launches if launch.sessions == 1])
    rows = connection.execute(_SELECT_ONLY_PHONES, (wanted,))
    return {launch_id: OnlyPhone(guid, number) for launch_id, guid, number in rows}


@dataclass(frozen=True, slots=True)
class MessageText:
    """A text of a definition, as a phone shows it; `airtime` is None for calls."""

    kind: str
    text: str
    airtime: BubbleSegments | None


def list_texts(definition: Definition) -> list[MessageText]:
    """Return the texts of a conversation in which everybody answers at once."""
    opening = [each for each in open_conversation(definition).renders if each.kind != "question"]
    texts = [(str(each.kind.value), each.text) for each in opening]
    texts += [("question", render_question(question)) for question in definition.questions]
    if definition.conclusion:
        texts.append(("conclusion", definition.conclusion))
    is_spoken = definition.method == "VOICE"
    return [MessageText(kind, text, None if is_spoken else measure_text(text)) for kind, text in texts]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The texts that a launch can still send.

    Attributes:
        renders_left: renders that follow if everybody with an open session answers each question once.
        segments_each: segments of one whole conversation.
        ends: when the last active session expires if nobody answers; None without one.
    """

    renders_left: int
    segments_each: int
    ends: datetime | None


def forecast_launch(connection: sqlite3.Connection, launch: Launch) -> Forecast:
    """Return what a launch can still send, and until when."""
    texts = list_texts(launch.definition)
    questions = len(launch.definition.questions)
    last = int(bool(launch.definition.conclusion))
    query = """
    SELECT position, count(*), max(updated) FROM session
    WHERE launch_id = ? AND status = 'ACTIVE' GROUP BY position
    """
    waiting = connection.execute(query, (launch.id,)).fetchall()
    left = sum(count * (questions - 1 - position + last) for position, count, _ in waiting)
    latest = max((updated for *_, updated in waiting), default=None)
    return Forecast(
        renders_left=left + launch.queued * len(texts),
        segments_each=sum(each.airtime.segments for each in texts if each.airtime),
        ends=None if latest is None else parse_time(latest) + read_lifetime(connection),
    )
