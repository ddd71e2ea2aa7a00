"""What a run has done with a campaign, as the ledger tells: for runs whose launches no process has all of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import case, func, select

from runner.ledger.tables import launches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlalchemy import ColumnElement, Connection, Subquery

    from runner.ledger.model import LaunchState


class TallyRow(NamedTuple):
    """Launches of a run that ended alike.

    Attributes:
        state: where they are; an intent without an outcome counts as `unknown`.
        detail: why they are not `sent`.
        launches: how many.
        recipients: of all of them.
    """

    state: LaunchState
    detail: str | None
    launches: int
    recipients: int


class RunLaunch(NamedTuple):
    """One launch of a run."""

    key: str
    message: str
    state: LaunchState
    recipients: int
    project_launch_guid: str | None
    detail: str | None


def tally_run(
    connection: Connection, campaign_id: int, run: str, *, ignored: Collection[str]
) -> list[TallyRow]:
    """Return what a run has done with a campaign.

    A launch that was sent once more, because it certainly had not been sent before, counts once.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        run: the run's id.
        ignored: the details of launches that stand for nothing: their recipients came again.
    """
    latest = _select_latest(campaign_id, run, ignored)
    state = _as_told(latest)
    query = (
        select(state, latest.c.detail, func.count(), func.sum(latest.c.recipients))
        .group_by(state, latest.c.detail)
        .order_by(state, latest.c.detail)
    )
    return [TallyRow(row[0], row[1], row[2], int(row[3])) for row in connection.execute(query)]


def iterate_run(
    connection: Connection, campaign_id: int, run: str, *, ignored: Collection[str]
) -> Iterator[RunLaunch]:
    """Yield the launches that `tally_run` counts, in the order of their intents."""
    latest = _select_latest(campaign_id, run, ignored)
    query = select(
        latest.c.launch_key,
        latest.c.message,
        _as_told(latest),
        latest.c.recipients,
        latest.c.project_launch_guid,
        latest.c.detail,
    ).order_by(latest.c.id)
    for row in connection.execute(query):
        yield RunLaunch(*row)


def _select_latest(campaign_id: int, run: str, ignored: Collection[str]) -> Subquery:
    place = func.row_number().over(partition_by=launches.c.launch_key, order_by=launches.c.id.desc())
    ranked = (
        select(launches, place.label("place"))
        .where(
            launches.c.campaign_id == campaign_id,
            launches.c.run == run,
            func.coalesce(launches.c.detail, "").not_in(ignored),
        )
        .subquery()
    )
    return select(ranked).where(ranked.c.place == 1).subquery()


def _as_told(latest: Subquery) -> ColumnElement[str]:
    return case((latest.c.state == "intent", "unknown"), else_=latest.c.state)
