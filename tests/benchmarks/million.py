"""A store with a great many records, written by SQLite itself in some seconds."""
# ruff: noqa: S608  the statements are made of this file's own words

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.sandbox.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

RESULTS_PER_PARTICIPANT = 10

_GUID = (
    "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-' || "
    "hex(randomblob(2)) || '-' || hex(randomblob(6)))"
)
_DEFINITION = (
    '{"tag": "pulse", "questions": [{"tag": "nps", "text": "How likely?", "responses": ["1", "2"]}]}'
)
_STAMP = "'2026-11-21T09:30:12.481516'"
# n counts from 1 to :count; a tag is shared by half of the records, or by a quarter.
_COUNTED = "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :count) "
_LAUNCHES = (
    "INSERT INTO launch (guid, started, project_tag, definition, questions, renders, results, complete, "
    f"tag_number) {_COUNTED} SELECT {_GUID}, {_STAMP}, 'tag-' || (n % 4), :definition, :each, :each, :each, "
    ":each, row_number() OVER (PARTITION BY n % 4 ORDER BY n) FROM counted ORDER BY n"
)
_QUESTIONS = (
    "INSERT INTO question (launch_id, position, guid, tag, text) "
    f"SELECT id, 0, {_GUID}, 'nps-' || (id % 2), 'How likely?' FROM launch"
)
_PARTICIPANTS = (
    f"INSERT INTO participant (guid, phone) {_COUNTED} SELECT {_GUID}, '+1415' || (2000000 + n) FROM counted"
)
_SESSIONS = (
    "INSERT INTO session (guid, launch_id, participant_id, created, updated, status) "
    f"{_COUNTED} SELECT {_GUID}, (n - 1) % :launches + 1, (n - 1) % :participants + 1, {_STAMP}, {_STAMP}, "
    "'COMPLETE' FROM counted"
)
_RESULTS = (
    "INSERT INTO result (guid, launch_id, participant_id, session_id, position, project_tag, question_tag, "
    "answer, response, created, updated, launch_number, launch_question_number, participant_number, "
    "project_tag_number, question_tag_number, tags_number) "
    f"SELECT {_GUID}, launch_id, participant_id, id, 0, 'tag-' || (launch_id % 4), 'nps-' || (launch_id % 2), "
    f"'2', '2', {_STAMP}, {_STAMP}, "
    "row_number() OVER (PARTITION BY launch_id ORDER BY id), "
    "row_number() OVER (PARTITION BY launch_id ORDER BY id), "
    "row_number() OVER (PARTITION BY participant_id ORDER BY id), "
    "row_number() OVER (PARTITION BY launch_id % 4 ORDER BY id), "
    "row_number() OVER (PARTITION BY launch_id % 2 ORDER BY id), "
    "row_number() OVER (PARTITION BY launch_id % 4 ORDER BY id) FROM session ORDER BY id"
)


@dataclass(frozen=True, slots=True)
class Size:
    """How many records a store has; there is one result for each session."""

    launches: int
    results: int
    results_per_participant: int = RESULTS_PER_PARTICIPANT


def fill_store(db: Path, size: Size) -> None:
    """Write a new store of that size.

    Args:
        db: where.
        size: the number of results is a multiple of the launches'.
    """
    each = size.results // size.launches
    participants = max(1, size.results // size.results_per_participant)
    with closing(open_store(db)) as store, store.write() as connection:
        launches = {"count": size.launches, "definition": _DEFINITION, "each": each}
        connection.execute(_LAUNCHES, launches)
        connection.execute(_QUESTIONS)
        connection.execute(_PARTICIPANTS, {"count": participants})
        sessions = {"count": size.results, "launches": size.launches, "participants": participants}
        connection.execute(_SESSIONS, sessions)
        connection.execute(_RESULTS)
        connection.execute(
            "UPDATE totals SET questions = :count, renders = :count, results = :count, complete = :count",
            {"count": size.results},
        )
        connection.execute("ANALYZE")
