"""Launches whose answers the service counts and lists differently, or does not report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, case, func, select, update

from runner.ledger.bulk import divide, iterate_rows
from runner.ledger.database import insert_or_update
from runner.ledger.model import CampaignLaunches
from runner.ledger.record.deliveries import note_open
from runner.ledger.report_model import LaunchDifference, OpenDifferences
from runner.ledger.tables import are_of, label_message, launch_stats, launches

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Select


_GROUP = 500
_SHOWN = 20
_stats = launch_stats.c
_ORDER = (_stats.accepted_at.is_not(None), _stats.since, launches.c.project_launch_guid)
_FIELDS = LaunchDifference.__struct_fields__
_COLUMNS = [_stats[name] for name in _FIELDS if name not in ("launch_id", "project_launch_guid")]
DIFFERS = and_(_stats.problem.is_not(None), _stats.accepted_at.is_(None))
"""The condition that an open difference keeps a launch's answers from being known as of the last reading."""
KNOWN_AT = case((DIFFERS, _stats.agreed_at), else_=_stats.reconciled_at)
"""The moment as of which a launch's answers are known, or null."""


def list_differences(connection: Connection, campaign_id: int) -> list[LaunchDifference]:
    """Return the differences of a campaign's launches."""
    return [
        LaunchDifference(*row)
        for row in connection.execute(_select_differences(CampaignLaunches(campaign_id)))
    ]


def read_differences(connection: Connection, asked: CampaignLaunches) -> dict[str, OpenDifferences]:
    """Return the differences of each message that has any, by message id."""
    accepted, everything = _stats.accepted_at, func.count()
    hides = and_(_stats.problem == "unreadable_results", accepted.is_(None))
    current = label_message(asked)
    counts = everything, func.count(accepted), func.count(case((hides, 1)))
    counted = _that_differ(select(current, *counts), asked).group_by("current_id")
    found: dict[str, OpenDifferences] = {}
    for message, count, of_these, hidden in connection.execute(counted).all():
        query = _select_differences(asked).where(current.element == message)
        rows = connection.execute(query.order_by(*_ORDER).limit(_SHOWN))
        first = tuple(LaunchDifference(*row) for row in rows)
        found[message] = OpenDifferences(count - of_these, of_these, first, hidden)
    return found


def _select_differences(asked: CampaignLaunches) -> Select[Any]:
    guid = launches.c.project_launch_guid
    columns = (guid if name == guid.name else _stats[name] for name in _FIELDS)
    return _that_differ(select(*columns), asked)


def _that_differ(query: Select[Any], asked: CampaignLaunches) -> Select[Any]:
    """Limit a query of launches to those with a difference."""
    joined = query.join(launch_stats, _stats.launch_id == launches.c.id)
    return joined.where(are_of(asked), _stats.problem.is_not(None))


def store_differences(
    connection: Connection, launch_ids: Collection[int], differences: Collection[LaunchDifference]
) -> None:
    """Replace the differences of launches, at most one for each; launches without one are settled."""
    names = [column.name for column in _COLUMNS]
    gone = sorted(set(launch_ids) - {one.launch_id for one in differences})
    for group in divide(gone, _GROUP):
        these = and_(_stats.launch_id.in_(group), _stats.problem.is_not(None))
        connection.execute(update(launch_stats).where(these).values(dict.fromkeys(names)))
    rows = [{name: getattr(one, name) for name in ("launch_id", *names)} for one in differences]
    insert_or_update(connection, launch_stats, rows)


def accept_silence(connection: Connection, launch_ids: Collection[int], at: str) -> None:
    """Count launches that the service does not report as read: without counts, and closed."""
    note_open(connection, sorted(launch_ids), is_open=False)
    rows = [{"launch_id": number, "reconciled_at": at} for number in sorted(launch_ids)]
    insert_or_update(connection, launch_stats, rows)


def read_agreed(connection: Connection, launch_ids: Collection[int]) -> dict[int, str | None]:
    """Return the moments as of which answers are known, by number of the reconciled launch."""
    query = select(_stats.launch_id, KNOWN_AT.label("known_at")).where(_stats.reconciled_at.is_not(None))
    return dict(map(tuple, iterate_rows(connection, query, _stats.launch_id, launch_ids)))
