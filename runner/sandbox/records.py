"""Records as the reference shows them (sections 2.1 and 2.3), as JSON values and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runner.sandbox.model import Method

Record = Mapping[str, Any]

# The reference's fields in its order; origin_phone_number is what recorded responses carry beside them.
RESULT_FIELDS = (
    "created",
    "guid",
    "participant_guid",
    "participant_phone_number",
    "project_launch_guid",
    "project_launch_participant_guid",
    "project_tag",
    "question_display_order",
    "question_guid",
    "question_tag",
    "question_text",
    "result_answer",
    "result_guid",
    "result_response",
    "result_timestamp",
    "updated",
    "origin_phone_number",
)
STAT_FIELDS = (
    "num_active_sessions",
    "num_complete_sessions",
    "num_messages",
    "num_questions",
    "num_queued_sessions",
    "num_renders",
    "num_results",
    "project_definition",
    "project_launch_guid",
    "project_launch_start",
    "project_tag",
    "sessions",
)


def make_stat(row: Sequence[Any], sessions: Iterable[Sequence[str | None]], own_number: str) -> Record:
    """Build a stat record.

    Args:
        row: the stored values of `STAT_FIELDS` less the last, the definition as JSON text.
        sessions: creation time, phone, status and sub_status of each session, in order.
        own_number: the number that the service sends from.
    """
    definition = json.loads(row[STAT_FIELDS.index("project_definition")])
    record = dict(zip(STAT_FIELDS, row, strict=False))
    # "Contains a text field (string)", says section 2.3, and makes no exception for surveys.
    record["project_definition"] = {**definition, "text": definition.get("text") or ""}
    method = Method(definition.get("method") or Method.SMS).value
    record["sessions"] = [
        {
            "created": created,
            "from": own_number,
            "to": phone,
            "method": method,
            "status": status,
            "sub_status": sub_status,
        }
        for created, phone, status, sub_status in sessions
    ]
    return record


def write_csv(fields: Sequence[str], records: Iterable[Record]) -> str:
    """Write records as CSV (the reference shows no layout: our own decision).

    A header, then a line a record, in the order of `fields`; nested values stand as JSON text.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(fields)
    for record in records:
        writer.writerow([_flatten(record[field]) for field in fields])
    return text.getvalue()


def _flatten(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
