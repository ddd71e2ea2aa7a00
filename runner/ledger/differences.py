"""Statements about launches whose answers the service counts and lists differently, or does not tell."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Label, and_, case, delete, false, func, inspect, select

from runner.ledger.database import insert_into
from runner.ledger.open_launches import close_launches
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
    """What a query of launches needs to tell how far their answers are known.

    Attributes:
        join: joins a source that has `launches` with what tells it.
        at: the moment as of which everybody who had answered is known; null if there is none.
        differs: whether a difference that nobody has accepted keeps it from being a later one.
    """

    join: Callable[[FromClause], FromClause]
    at: Label[Any]
    differs: Label[Any]


def read_answers(connection: Connection) -> AnswersRead:
    """Return what a query needs to tell as of when a launch's answers are known.

    Args:
        connection: reads the ledger, which may be of an older version.
    """
    stats, own = launch_stats, launch_differences
    if not inspect(connection).has_table(own.name):
        return AnswersRead(
            lambda source: source.outerjoin(stats, stats.c.launch_id == launches.c.id),
            stats.c.reconciled_at.label("reconciled_at"),
            false().label("differs"),
        )
    is_open = and_(own.c.launch_id.is_not(None), own.c.accepted_at.is_(None))
    return AnswersRead(
        lambda source: source.outerjoin(stats, stats.c.launch_id == launches.c.id).outerjoin(
            own, own.c.launch_id == launches.c.id
        ),
        case((is_open, own.c.agreed_at), else_=stats.c.reconciled_at).label("reconciled_at"),
        is_open.label("differs"),
    )


def list_differences(connection: Connection, campaign_id: int) -> list[LaunchDifference]:
    """Return the differences of a campaign's launches.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
    """
    return [LaunchDifference(*row) for row in connection.execute(_select_differences(campaign_id))]


def read_differences(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str]
) -> dict[str, OpenDifferences]:
    """Return the differences of each message that has any, by message id.

    Args:
        connection: reads the ledger, which may be of an older version.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    if not inspect(connection).has_table(launch_differences.name):
        return {}
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
    """Keep the differences of launches, one at most for each.

    Args:
        connection: commits after this.
        launch_ids: the ledger's numbers of those that had one: what is not among the new ones is over.
        differences: the new ones.
    """
    gone = sorted(set(launch_ids) - {one.launch_id for one in differences})
    for start in range(0, len(gone), _GROUP):
        these = launch_differences.c.launch_id.in_(gone[start : start + _GROUP])
        connection.execute(delete(launch_differences).where(these))
    rows = [asdict(one) for one in differences]
    if rows:
        for row in rows:
            del row["project_launch_guid"]
        statement = insert_into(connection, launch_differences)
        replaced = {column.name: statement.excluded[column.name] for column in _COLUMNS}
        connection.execute(statement.on_conflict_do_update(index_elements=["launch_id"], set_=replaced), rows)


def accept_silence(connection: Connection, launch_ids: Collection[int], at: str) -> None:
    """Take launches of which the service tells nothing for read: no count of theirs is known, none is open.

    Args:
        connection: commits after this.
        launch_ids: the ledger's numbers of the launches.
        at: UTC, ISO 8601.
    """
    rows = [
        {"launch_id": number, "project_launch_start": "", "reconciled_at": at}
        for number in sorted(launch_ids)
    ]
    if rows:
        close_launches(connection, sorted(launch_ids))
        statement = insert_into(connection, launch_stats)
        kept = statement.on_conflict_do_update(index_elements=["launch_id"], set_={"reconciled_at": at})
        connection.execute(kept, rows)


def read_agreed(connection: Connection, campaign_id: int) -> dict[int, str | None]:
    """Return as of when answers are known, by the ledger's number of the launch; of those that were read.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
    """
    read = read_answers(connection)
    query = (
        select(launches.c.id, read.at)
        .select_from(read.join(launches))
        .where(launches.c.campaign_id == campaign_id, launch_stats.c.launch_id.is_not(None))
    )
    return {row.id: row.reconciled_at for row in connection.execute(query)}
