"""Statements about what was reconciled: the service's counts and results."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table, func, select

from runner.ledger.database import insert_into
from runner.ledger.deliveries import count_states
from runner.ledger.model import LaunchStats, MessageTotals, OpenLaunch, ResultRow, StoredResult
from runner.ledger.tables import launch_stats, launches, results

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_GROUP = 500
# What JSON can hold and a database cannot: NUL on PostgreSQL, half a surrogate pair on either.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def iterate_accepted_launches(connection: Connection, campaign_id: int) -> Iterator[OpenLaunch]:
    """Yield the launches that the service accepted, with the number of their results in the ledger."""
    held = select(results.c.launch_id, func.count().label("held")).group_by(results.c.launch_id).subquery()
    query = (
        select(launches.c.id, launches.c.tag, launches.c.project_launch_guid, func.coalesce(held.c.held, 0))
        .outerjoin(held, held.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    )
    for row in connection.execute(query):
        yield OpenLaunch(*row)


def store_stats(connection: Connection, stats: Sequence[LaunchStats], at: str) -> None:
    """Keep the service's latest counts of launches.

    Args:
        connection: commits after this.
        stats: one per launch.
        at: when they were read; UTC, ISO 8601.
    """
    rows = [{**_make_storable(item), "reconciled_at": at} for item in stats]
    _upsert(connection, launch_stats, ["launch_id"], rows)


def store_results(connection: Connection, rows: Iterable[StoredResult]) -> int:
    """Keep results; one that is there already is replaced.

    Returns:
        How many were given.
    """
    total, stream = 0, iter(rows)
    while group := list(islice(stream, _GROUP)):
        _upsert(connection, results, ["launch_id", "result_guid"], [_make_storable(row) for row in group])
        total += len(group)
    return total


def _make_storable(row: StoredResult | LaunchStats) -> dict[str, object]:
    return {
        name: _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value
        for name, value in asdict(row).items()
    }


def _upsert(connection: Connection, table: Table, key: list[str], rows: list[dict[str, object]]) -> None:
    if not rows:
        return
    statement = insert_into(connection, table)
    replaced = {column.name: statement.excluded[column.name] for column in table.c if column.name not in key}
    connection.execute(statement.on_conflict_do_update(index_elements=key, set_=replaced), rows)


def iterate_results(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str] | None = None
) -> Iterator[ResultRow]:
    """Yield a campaign's results, in an order that depends on the results alone.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    current = message_ids or {}
    query = (
        select(
            launches.c.message,
            results.c.participant,
            results.c.question_tag,
            results.c.question_text,
            results.c.question_display_order,
            results.c.result_answer,
            results.c.result_response,
            results.c.created,
            results.c.result_guid,
        )
        .join(launches, launches.c.id == results.c.launch_id)
        .where(launches.c.campaign_id == campaign_id)
        .order_by(results.c.created, results.c.result_guid)
        .execution_options(yield_per=_GROUP)
    )
    for message, *columns in connection.execute(query):
        yield ResultRow(current.get(message, message), *columns)


def read_totals(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str] | None = None
) -> dict[str, MessageTotals]:
    """Return the counts of each message that has launches, by message id.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    current, found = message_ids or {}, dict[str, MessageTotals]()
    for message, totals in _read_entered_totals(connection, campaign_id).items():
        now = current.get(message, message)
        renamed = replace(totals, message=now)
        found[now] = found[now].add(renamed) if now in found else renamed
    return found


def _read_entered_totals(connection: Connection, campaign_id: int) -> dict[str, MessageTotals]:
    """Return counts by the ids under which messages are entered."""
    totals = {}
    people = count_states(connection, campaign_id)
    query = (
        select(
            launches.c.message,
            func.count(launches.c.id),
            func.min(launches.c.outcome_at),
            func.max(launches.c.outcome_at),
            func.count(launch_stats.c.launch_id),
            func.min(launch_stats.c.reconciled_at),
            *(func.coalesce(func.sum(launch_stats.c[name]), 0) for name in _SUMMED),
        )
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
        .group_by(launches.c.message)
    )
    for message, count, first, last, reconciled, reconciled_at, *sums in connection.execute(query):
        totals[message] = MessageTotals(
            message,
            launches=count,
            **_count_people(people, message),
            **dict(zip(_SUMMED.values(), map(int, sums), strict=True)),
            first_sent_at=first,
            last_sent_at=last,
            reconciled_at=reconciled_at if reconciled == count else None,
        )
    for message in {message for message, _ in people} - totals.keys():
        totals[message] = MessageTotals(message, **_count_people(people, message))
    return totals


def count_answered(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str] | None = None
) -> Counter[str]:
    """Return the participants with at least one result, by message id.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    current, found = message_ids or {}, Counter[str]()
    query = (
        select(launches.c.message, func.count(results.c.participant.distinct()))
        .join(launches, launches.c.id == results.c.launch_id)
        .where(launches.c.campaign_id == campaign_id)
        .group_by(launches.c.message)
    )
    for message, count in connection.execute(query):
        found[current.get(message, message)] += count
    return found


_SUMMED = {
    "num_queued_sessions": "queued",
    "num_active_sessions": "active",
    "num_complete_sessions": "complete",
    "num_renders": "renders",
    "num_questions": "questions",
    "num_results": "results",
}


def _count_people(people: dict[tuple[str, str], int], message: str) -> dict[str, Any]:
    return {
        "sent": people.get((message, "sent"), 0),
        "unresolved": people.get((message, "intent"), 0) + people.get((message, "unknown"), 0),
        "rejected": people.get((message, "rejected"), 0),
    }
