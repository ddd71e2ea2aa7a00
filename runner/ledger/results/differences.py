"""Launches whose answers the service counts and lists differently, or does not report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Label, and_, case, delete, func, select

from runner.ledger.bulk import divide
from runner.ledger.database import insert_or_update
from runner.ledger.record.open_launches import note_open
from runner.ledger.report_model import LaunchDifference, OpenDifferences
from runner.ledger.tables import launch_differences, launch_stats, launches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sqlalchemy import FromClause, Select


_GROUP = 500
_SHOWN = 20
_ORDER = (
    launch_differences.c.accepted_at.is_not(None),
    launch_differences.c.since,
    launches.c.project_launch_guid,
)
_COLUMNS = [column for column in launch_differences.c if column.name != "launch_id"]


class AnswersRead(NamedTuple):
    """The parts of a query for the moment as of which the answers of launches are known.

    `join` adds the sources to `launches`; `at` is the moment, or null; `differs` is set if an open difference
    keeps it from being later.
    """

    join: Callable[[FromClause], FromClause]
    at: Label[Any]
    differs: Label[Any]


def select_answers() -> AnswersRead:
    """Return the parts of a query for the moment as of which answers are known."""
    stats, own = launch_stats, launch_differences
    is_open = and_(own.c.launch_id.is_not(None), own.c.accepted_at.is_(None))
    return AnswersRead(
        lambda source: source.outerjoin(stats, stats.c.launch_id == launches.c.id).outerjoin(
            own, own.c.launch_id == launches.c.id
        ),
        case((is_open, own.c.agreed_at), else_=stats.c.reconciled_at).label("reconciled_at"),
        is_open.label("differs"),
    )


def list_differences(connection: Connection, campaign_id: int) -> list[LaunchDifference]:
    """Return the differences of a campaign's launches."""
    return [LaunchDifference(*row) for row in connection.execute(_select_differences(campaign_id))]


def read_differences(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str]
) -> dict[str, OpenDifferences]:
    """Return the differences of each message that has any, by message id."""
    accepted, everything = launch_differences.c.accepted_at, func.count()
    hides = and_(launch_differences.c.problem == "unreadable_results", accepted.is_(None))
    counted = (
        select(launches.c.message, everything, func.count(accepted), func.count(case((hides, 1))))
        .join(launch_differences, launch_differences.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id)
        .group_by(launches.c.message)
    )
    found: dict[str, OpenDifferences] = {}
    for name, count, of_these, hidden in connection.execute(counted).all():
        message = message_ids.get(name, name)
        query = _select_differences(campaign_id).where(launches.c.message == name)
        rows = connection.execute(query.order_by(*_ORDER).limit(_SHOWN))
        own = OpenDifferences(
            count - of_these, of_these, tuple(LaunchDifference(*row) for row in rows), hidden
        )
        found[message] = found[message].add(own) if message in found else own
    return found


def _select_differences(campaign_id: int) -> Select[Any]:
    return (
        select(launches.c.id, launches.c.project_launch_guid, *_COLUMNS)
        .join(launch_differences, launch_differences.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id)
    )


def store_differences(
    connection: Connection, launch_ids: Collection[int], differences: Collection[LaunchDifference]
) -> None:
    """Replace the differences of launches, at most one for each; launches without one are settled."""
    gone = sorted(set(launch_ids) - {one.launch_id for one in differences})
    for group in divide(gone, _GROUP):
        these = launch_differences.c.launch_id.in_(group)
        connection.execute(delete(launch_differences).where(these))
    rows = [
        {column.name: getattr(one, column.name) for column in launch_differences.c} for one in differences
    ]
    insert_or_update(connection, launch_differences, rows)


def accept_silence(connection: Connection, launch_ids: Collection[int], at: str) -> None:
    """Count launches that the service does not report as read: without counts, and closed."""
    rows = [
        {"launch_id": number, "project_launch_start": "", "reconciled_at": at}
        for number in sorted(launch_ids)
    ]
    if rows:
        note_open(connection, sorted(launch_ids), is_open=False)
        insert_or_update(connection, launch_stats, rows, changed=["reconciled_at"])


def read_agreed(connection: Connection, launch_ids: Collection[int]) -> dict[int, str | None]:
    """Return the moments as of which answers are known, by number of the reconciled launch."""
    read = select_answers()
    query = select(launches.c.id, read.at).select_from(read.join(launches))
    query = query.where(launch_stats.c.launch_id.is_not(None))
    return {
        row.id: row.reconciled_at
        for group in divide(launch_ids, _GROUP)
        for row in connection.execute(query.where(launches.c.id.in_(group)))
    }
