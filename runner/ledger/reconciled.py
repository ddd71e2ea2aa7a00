"""Statements about what was reconciled: the service's counts and results."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Insert, Table, and_, case, exists, func, or_, select

from runner.ledger.bulk import BulkStatement
from runner.ledger.database import insert_into
from runner.ledger.deliveries import count_states
from runner.ledger.model import LaunchStats, OpenLaunch, StoredResult, StoredSession
from runner.ledger.moment import format_moment
from runner.ledger.report_model import MessageTotals, PartialCount
from runner.ledger.result_feed import begin_revision, renew_edition
from runner.ledger.sendings import BEGAN
from runner.ledger.tables import launch_starts, launch_stats, launches, results, sessions
from runner.ledger.unsettled import OPEN, UNEXPLAINED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

_GROUP = 500
_BULK = 5_000
# What JSON can hold and a database cannot: NUL on PostgreSQL, half a surrogate pair on either.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def iterate_accepted_launches(
    connection: Connection, campaign_id: int, guids: Collection[str] | None = None
) -> Iterator[OpenLaunch]:
    """Yield the launches that the service accepted, with the number of their results in the ledger.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        guids: those that are wanted, some hundreds at most; None for all.
    """
    is_wanted = and_(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    counted = select(results.c.launch_id, func.count().label("held")).group_by(results.c.launch_id)
    if guids is not None:
        is_wanted = and_(is_wanted, launches.c.project_launch_guid.in_(guids))
        counted = counted.where(results.c.launch_id.in_(select(launches.c.id).where(is_wanted)))
    held = counted.subquery()
    query = (
        select(
            launches.c.id,
            launches.c.tag,
            launches.c.project_launch_guid,
            launches.c.recipients,
            launches.c.is_open,
            func.coalesce(held.c.held, 0),
        )
        .outerjoin(held, held.c.launch_id == launches.c.id)
        .where(is_wanted)
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
    """Keep results; one that is there already is replaced if anything of it has changed.

    Returns:
        How many were given.
    """
    total, stream = 0, iter(rows)
    revision = begin_revision(connection)
    while group := list(islice(stream, _BULK)):
        _STORE_RESULTS.run(connection, [{**_make_storable(row), "revision": revision} for row in group])
        total += len(group)
    return total


def store_sessions(connection: Connection, rows: Sequence[StoredSession]) -> None:
    """Keep how sessions stand; those that are as they were stay untouched.

    Args:
        connection: commits after this.
        rows: each session once, one at least.
    """
    _STORE_SESSIONS.run(connection, [_make_storable(row) for row in rows])


def store_starts(connection: Connection, starts: Mapping[int, str]) -> None:
    """Keep when the service says that launches began, in UTC; before their first results.

    Args:
        connection: commits after this.
        starts: `project_launch_start` by the ledger's number of the launch.
    """
    waiting = ((number, _read_start(start)) for number, start in starts.items())
    while group := dict(islice(waiting, _GROUP)):
        query = select(launch_starts).where(launch_starts.c.launch_id.in_(group))
        known = {row.launch_id: row.project_launch_start for row in connection.execute(query)}
        changed = {number: start for number, start in group.items() if known.get(number) != start}
        rows = [{"launch_id": number, "project_launch_start": start} for number, start in changed.items()]
        _upsert(connection, launch_starts, ["launch_id"], rows)
        copied = exists().where(results.c.launch_id.in_(changed))
        if changed and connection.execute(select(copied)).scalar():
            renew_edition(connection)


def find_held(connection: Connection, keys: Collection[tuple[int, str]]) -> set[tuple[int, str]]:
    """Return those of some results that are in the ledger.

    Args:
        connection: reads the ledger.
        keys: the ledger's number of the launch and the `result_guid` of each; some hundreds at most.
    """
    launch_ids, guids = {launch for launch, _ in keys}, {guid for _, guid in keys}
    query = select(results.c.launch_id, results.c.result_guid).where(
        results.c.launch_id.in_(launch_ids), results.c.result_guid.in_(guids)
    )
    found = connection.execute(query) if keys else ()
    return {(row.launch_id, row.result_guid) for row in found}.intersection(keys)


def _make_storable(row: StoredResult | LaunchStats | StoredSession) -> dict[str, object]:
    values = ((name, getattr(row, name)) for name in type(row).__slots__)
    return {name: _clean(value) if isinstance(value, str) else value for name, value in values}


def _read_start(text: str) -> str:
    """Return a time of the service's as text that sorts; empty for one that is none.

    One without a zone is in UTC (reference, section 2).
    """
    try:
        moment = datetime.fromisoformat(text)
        return format_moment(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)
    except (ValueError, OverflowError):
        return ""


def _clean(text: str) -> str:
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _compose_storing(connection: Connection) -> Insert:
    """Enter results, or replace them; those that are the same but for their revision stay."""
    statement, key = insert_into(connection, results), ["launch_id", "result_guid"]
    replaced = {
        column.name: statement.excluded[column.name] for column in results.c if column.name not in key
    }
    differs = or_(*(results.c[name] != new for name, new in replaced.items() if name != "revision"))
    return statement.on_conflict_do_update(index_elements=key, set_=replaced, where=differs)


def _compose_standing(connection: Connection) -> Insert:
    """Enter sessions, or how they stand now."""
    statement = insert_into(connection, sessions)
    new = {name: statement.excluded[name] for name in ("status", "stopped", "blocked")}
    differs = or_(*(sessions.c[name] != value for name, value in new.items()))
    return statement.on_conflict_do_update(
        index_elements=["launch_id", "participant"], set_=new, where=differs
    )


_STORE_SESSIONS = BulkStatement(_compose_standing, [column.name for column in sessions.c], winner="last")
_STORE_RESULTS = BulkStatement(_compose_storing, [column.name for column in results.c], winner="last")


def _upsert(connection: Connection, table: Table, key: list[str], rows: list[dict[str, object]]) -> None:
    if not rows:
        return
    statement = insert_into(connection, table)
    replaced = {column.name: statement.excluded[column.name] for column in table.c if column.name not in key}
    connection.execute(statement.on_conflict_do_update(index_elements=key, set_=replaced), rows)


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
            func.min(BEGAN),
            func.max(BEGAN),
            func.count(launch_stats.c.launch_id),
            func.min(launch_stats.c.reconciled_at),
            func.sum(case((launch_stats.c.launch_id.is_(None), 0), else_=launches.c.recipients)),
            *(sum_up(launch_stats.c[name]) for name in _SUMMED for sum_up in (func.count, func.sum)),
        )
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .outerjoin(launch_starts, launch_starts.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
        .group_by(launches.c.message)
    )
    for message, count, first, last, reconciled, reconciled_at, read, *sums in connection.execute(query):
        known = dict(zip(_SUMMED.values(), zip(sums[::2], sums[1::2], strict=True), strict=True))
        whole: dict[str, Any] = {
            name: int(total) if of == count else None for name, (of, total) in known.items()
        }
        totals[message] = MessageTotals(
            message,
            launches=count,
            **_count_people(people, message),
            **whole,
            first_sent_at=first,
            last_sent_at=last,
            reconciled_at=reconciled_at,
            unread=count - reconciled,
            sent_read=int(read),
            partly_known={
                name: PartialCount(int(total), of) for name, (of, total) in known.items() if 0 < of < count
            },
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
        "unresolved": sum(people.get((message, state), 0) for state in (*OPEN, UNEXPLAINED)),
        "rejected": people.get((message, "rejected"), 0),
    }
