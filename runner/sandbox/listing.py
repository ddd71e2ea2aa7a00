"""Reads records out of the store, a page at a time, in order of creation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from runner.sandbox.model import DEFAULT_OWN_NUMBER, Plan
from runner.sandbox.numbering import Key, select_page
from runner.sandbox.records import RESULT_FIELDS, Record, make_stat

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from runner.sandbox.store import Store

# The query parameters that filter, each with the column that has its value.
RESULT_FILTERS = {
    "project_launch_guid": "launch_id",
    "participant_guid": "participant_id",
    "project_tag": "project_tag",
    "question_tag": "question_tag",
}
STAT_FILTERS = {"project_tag": "project_tag"}

# In the order of RESULT_FIELDS.
_SELECT_RESULTS = """
SELECT result.created, result.guid, participant.guid, participant.phone, launch.guid, session.guid,
       result.project_tag, CAST(result.position AS TEXT), question.guid, result.question_tag,
       question.text, result.answer, result.guid, result.response, result.created, result.updated, ?
FROM json_each(?) AS wanted
CROSS JOIN result ON result.id = wanted.value
JOIN participant ON participant.id = result.participant_id
JOIN launch ON launch.id = result.launch_id
JOIN session ON session.id = result.session_id
JOIN question ON question.launch_id = result.launch_id AND question.position = result.position
ORDER BY wanted.key
"""
# In the order of STAT_FIELDS.
_SELECT_LAUNCHES = """
SELECT launch.id, active, complete, messages, questions, queued, renders, results, definition, guid, started,
       project_tag
FROM json_each(?) AS wanted
CROSS JOIN launch ON launch.id = wanted.value
ORDER BY wanted.key
"""
_SELECT_SESSIONS = """
SELECT session.launch_id, session.created, participant.phone, session.status, session.sub_status
FROM json_each(?) AS wanted
CROSS JOIN session ON session.launch_id = wanted.value
JOIN participant ON participant.id = session.participant_id
ORDER BY wanted.key, session.id
"""
_SELECT_TOTALS = """
SELECT active, complete, (SELECT COALESCE(max(id), 0) FROM launch), messages,
       questions, queued, renders, results
FROM totals
"""


@dataclass(frozen=True, slots=True)
class Page:
    """Records of one page, and how many there are in all."""

    total_count: int
    records: Sequence[Record]


class Listing:
    """Gives the service's records.

    Args:
        store: where they are.
        plan: what `meta.plan` shows.
        own_number: the number that the service sends from, in E.164.
    """

    def __init__(self, store: Store, *, plan: Plan, own_number: str = DEFAULT_OWN_NUMBER) -> None:
        self._store = store
        self._plan = plan
        self._own_number = own_number

    def list_results(self, filters: Mapping[str, str], limit: int, offset: int) -> Page:
        """Give a page of results; `filters` are values of `RESULT_FILTERS`, by name."""
        with self._store.read() as connection:
            keys = _find_keys(connection, filters)
            if keys is None:
                return Page(0, [])
            total, ids = select_page(connection, "result", keys, limit, offset)
            return Page(total, self._read_results(connection, ids))

    def find_result(self, guid: str) -> Record | None:
        """Give the result with this result_guid, or None."""
        with self._store.read() as connection:
            ids = _find_ids(connection, "result", guid)
            return next(iter(self._read_results(connection, ids)), None)

    def list_stats(self, filters: Mapping[str, str], limit: int, offset: int) -> tuple[Page, Record]:
        """Give a page of launches, and what the stats list adds to `meta`: the plan and the totals."""
        with self._store.read() as connection:
            keys = {STAT_FILTERS[name]: value for name, value in filters.items()}
            total, ids = select_page(connection, "launch", keys, limit, offset)
            return Page(total, self._read_stats(connection, ids)), self._read_usage(connection)

    def find_stat(self, guid: str) -> Record | None:
        """Give the stat record of the launch with this project_launch_guid, or None."""
        with self._store.read() as connection:
            return next(iter(self._read_stats(connection, _find_ids(connection, "launch", guid))), None)

    def _read_results(self, connection: sqlite3.Connection, ids: Sequence[int]) -> list[Record]:
        rows = connection.execute(_SELECT_RESULTS, (self._own_number, json.dumps([*ids])))
        return [dict(zip(RESULT_FIELDS, row, strict=True)) for row in rows]

    def _read_stats(self, connection: sqlite3.Connection, ids: Sequence[int]) -> list[Record]:
        wanted = (json.dumps([*ids]),)
        by_launch = groupby(connection.execute(_SELECT_SESSIONS, wanted), key=lambda row: row[0])
        sessions: dict[int, list[Any]] = {
            launch_id: [row[1:] for row in rows] for launch_id, rows in by_launch
        }
        return [
            make_stat(row, sessions[launch_id], self._own_number)
            for launch_id, *row in connection.execute(_SELECT_LAUNCHES, wanted)
        ]

    def _read_usage(self, connection: sqlite3.Connection) -> Record:
        row = connection.execute(_SELECT_TOTALS).fetchone()
        active, complete, launches, messages, questions, queued, renders, results = row
        return {
            "plan": {
                "name": self._plan.name,
                "price_usd": self._plan.price_usd,
                "renders": {"max": self._plan.renders_max, "used": renders},
            },
            "totals": {
                "active_sessions": active,
                "complete_sessions": complete,
                "launches": launches,
                "messages": messages,
                "question_result_rate": round(results / questions, 2) if questions else 0.0,
                "questions": questions,
                "queued_sessions": queued,
                "renders": renders,
                "results": results,
            },
        }


def _find_ids(connection: sqlite3.Connection, table: str, guid: str) -> list[int]:
    query = f"SELECT id FROM {table} WHERE guid = lower(?)"
    return [identity for (identity,) in connection.execute(query, (guid,))]


def _find_keys(connection: sqlite3.Connection, filters: Mapping[str, str]) -> dict[str, Key] | None:
    """Give what the filters ask of the columns of `result`, or None where no result can have it."""
    keys: dict[str, Key] = {RESULT_FILTERS[name]: value for name, value in filters.items()}
    if "participant_id" in keys:
        query = "SELECT id FROM participant WHERE guid = lower(:participant_id)"
        if (participant := connection.execute(query, keys).fetchone()) is None:
            return None
        (keys["participant_id"],) = participant
    if "launch_id" in keys:
        query = "SELECT id, project_tag FROM launch WHERE guid = lower(:launch_id)"
        if (launch := connection.execute(query, keys).fetchone()) is None:
            return None
        keys["launch_id"], tag = launch
        # All results of a launch have its tag.
        if keys.pop("project_tag", tag) != tag:
            return None
    return keys
