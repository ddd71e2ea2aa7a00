"""Records as JSON and CSV, in pages by creation (schemas/service.openapi.yaml)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from runner.sandbox.model import DEFAULT_PLAN, OWN_NUMBER, Method, Plan
from runner.sandbox.store import Key, select_page

if TYPE_CHECKING:
    import sqlite3

    from runner.sandbox.store import Store


Record = Mapping[str, Any]


def write_csv(fields: Sequence[str], records: Iterable[Record]) -> str:
    """Return records as CSV, with nested values as JSON (a layout of our own)."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(fields)
    for record in records:
        writer.writerow([_flatten(record[field]) for field in fields])
    return text.getvalue()


def _flatten(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


# Filter parameters and their columns.
RESULT_FILTERS = {
    "project_launch_guid": "launch_id",
    "participant_guid": "participant_id",
    "project_tag": "project_tag",
    "question_tag": "question_tag",
}
STAT_FILTERS = {"project_tag": "project_tag"}

# By field, in the service's order: the columns. origin_phone_number is in recorded responses.
_RESULT_COLUMNS = {
    "created": "result.created",
    "guid": "result.guid",
    "participant_guid": "participant.guid",
    "participant_phone_number": "participant.phone",
    "project_launch_guid": "launch.guid",
    "project_launch_participant_guid": "session.guid",
    "project_tag": "result.project_tag",
    "question_display_order": "CAST(result.position AS TEXT)",
    "question_guid": "question.guid",
    "question_tag": "result.question_tag",
    "question_text": "question.text",
    "result_answer": "result.answer",
    "result_guid": "result.guid",
    "result_response": "result.response",
    "result_timestamp": "result.created",
    "updated": "result.updated",
    "origin_phone_number": f"'{OWN_NUMBER}'",
}
_STAT_COLUMNS = {
    "num_active_sessions": "active",
    "num_complete_sessions": "complete",
    "num_messages": "messages",
    "num_questions": "questions",
    "num_queued_sessions": "queued",
    "num_renders": "renders",
    "num_results": "results",
    "project_definition": "definition",
    "project_launch_guid": "guid",
    "project_launch_start": "started",
    "project_tag": "project_tag",
}
RESULT_FIELDS = tuple(_RESULT_COLUMNS)
STAT_FIELDS = (*_STAT_COLUMNS, "sessions")
_SELECT_RESULTS = f"""
SELECT {", ".join(_RESULT_COLUMNS.values())}
FROM json_each(?) AS wanted
CROSS JOIN result ON result.id = wanted.value
JOIN participant ON participant.id = result.participant_id
JOIN launch ON launch.id = result.launch_id
JOIN session ON session.id = result.session_id
JOIN question ON question.launch_id = result.launch_id AND question.position = result.position
ORDER BY wanted.key
"""
_SELECT_LAUNCHES = f"""
SELECT launch.id, {", ".join(_STAT_COLUMNS.values())}
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
SELECT active AS active_sessions, complete AS complete_sessions,
       (SELECT COALESCE(max(id), 0) FROM launch) AS launches, messages, 0.0 AS question_result_rate,
       questions, queued AS queued_sessions, renders, results
FROM totals
"""


@dataclass(frozen=True, slots=True)
class RecordPage:
    """The records of one page, the number in all, and a list's additions to `meta`."""

    total_count: int
    records: Sequence[Record]
    additions: Record = field(default_factory=dict)


class RecordList:
    """Lists of the service's records."""

    def __init__(self, store: Store, *, plan: Plan = DEFAULT_PLAN) -> None:
        self._store = store
        self._plan = plan

    def list_results(self, filters: Mapping[str, str], limit: int, offset: int) -> RecordPage:
        """Return a page of results; `filters` are values of `RESULT_FILTERS`, by name."""
        with self._store.read() as connection:
            keys = _find_keys(connection, filters)
            if keys is None:
                return RecordPage(0, [])
            total, ids = select_page(connection, "result", keys, limit, offset)
            return RecordPage(total, self._read_results(connection, ids))

    def find_result(self, guid: str) -> Record | None:
        """Return the result with this result_guid, if any."""
        with self._store.read() as connection:
            ids = _find_ids(connection, "result", guid)
            return next(iter(self._read_results(connection, ids)), None)

    def list_stats(self, filters: Mapping[str, str], limit: int, offset: int) -> RecordPage:
        """Return a page of launches, with the plan and the totals as additions."""
        with self._store.read() as connection:
            keys = {STAT_FILTERS[name]: value for name, value in filters.items()}
            total, ids = select_page(connection, "launch", keys, limit, offset)
            return RecordPage(total, self._read_stats(connection, ids), self._read_usage(connection))

    def find_stat(self, guid: str) -> Record | None:
        """Return the stat record of this project_launch_guid, if any."""
        with self._store.read() as connection:
            return next(iter(self._read_stats(connection, _find_ids(connection, "launch", guid))), None)

    def _read_results(self, connection: sqlite3.Connection, ids: Sequence[int]) -> list[Record]:
        rows = connection.execute(_SELECT_RESULTS, (json.dumps([*ids]),))
        return [dict(zip(RESULT_FIELDS, row, strict=True)) for row in rows]

    def _read_stats(self, connection: sqlite3.Connection, ids: Sequence[int]) -> list[Record]:
        wanted = (json.dumps([*ids]),)
        by_launch = groupby(connection.execute(_SELECT_SESSIONS, wanted), key=lambda row: row[0])
        sessions: dict[int, list[Any]] = {
            launch_id: [row[1:] for row in rows] for launch_id, rows in by_launch
        }
        return [
            _make_stat(row, sessions[launch_id])
            for launch_id, *row in connection.execute(_SELECT_LAUNCHES, wanted)
        ]

    def _read_usage(self, connection: sqlite3.Connection) -> Record:
        found = connection.execute(_SELECT_TOTALS)
        totals = dict(zip((name for name, *_ in found.description), found.fetchone(), strict=True))
        if totals["questions"]:
            totals["question_result_rate"] = round(totals["results"] / totals["questions"], 2)
        renders = {"max": self._plan.renders_max, "used": totals["renders"]}
        plan = {"name": self._plan.name, "price_usd": self._plan.price_usd, "renders": renders}
        return {"plan": plan, "totals": totals}


def _make_stat(row: Sequence[Any], sessions: Iterable[Sequence[str | None]]) -> Record:
    """Return a stat record from its columns and the sessions' time, phone and states."""
    record = dict(zip(_STAT_COLUMNS, row, strict=True))
    definition = json.loads(record["project_definition"])
    # Section 2.3, "Contains a text field (string)", makes no exception for surveys.
    record["project_definition"] = {**definition, "text": definition.get("text") or ""}
    method = (definition.get("method") or Method.SMS.value).upper()
    record["sessions"] = [
        {
            "created": created,
            "from": OWN_NUMBER,
            "to": phone,
            "method": method,
            "status": status,
            "sub_status": sub_status,
        }
        for created, phone, status, sub_status in sessions
    ]
    return record


def _find_ids(connection: sqlite3.Connection, table: str, guid: str) -> list[int]:
    query = f"SELECT id FROM {table} WHERE guid = lower(?)"
    return [identity for (identity,) in connection.execute(query, (guid,))]


def _find_keys(connection: sqlite3.Connection, filters: Mapping[str, str]) -> dict[str, Key] | None:
    """Return the filters as columns of `result`; None if no result can match."""
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
