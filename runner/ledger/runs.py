"""Statements about the runs that sent launches."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, select, update

from runner.ledger.bulk import BulkStatement
from runner.ledger.database import insert_into
from runner.ledger.model import Run
from runner.ledger.report_model import RunRow
from runner.ledger.tables import launches, runs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sqlalchemy import Connection

    from runner.ledger.model import LaunchRecord

_ADD = BulkStatement(
    lambda connection: insert_into(connection, runs).on_conflict_do_nothing(index_elements=[runs.c.id]),
    [column.name for column in runs.c],
)
_FILL_IN = BulkStatement(
    lambda _: (
        update(launches)
        .where(
            launches.c.campaign_id == bindparam("b_campaign_id"),
            launches.c.project_launch_guid == bindparam("b_guid"),
            launches.c.run.is_(None),
        )
        .values(run=bindparam("b_run"))
    )
)
_BY_TIME = (runs.c.started_at, runs.c.id)


def enter_runs(connection: Connection, entered: Iterable[Run]) -> None:
    """Enter runs, but those that are entered already.

    Args:
        connection: commits after this.
        entered: any number of them.
    """
    rows = [asdict(run) for run in entered]
    if rows:
        _ADD.run(connection, rows)


def fill_in_runs(connection: Connection, campaign_id: int, records: Collection[LaunchRecord]) -> None:
    """Take from lockfiles which run sent what the ledger has only found to be sent.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        records: launches of lockfiles; one that the ledger knows a run of keeps that.
    """
    told = {one.project_launch_guid: one.run for one in records if one.run is not None}
    if not told:
        return
    query = select(launches.c.project_launch_guid).where(
        launches.c.campaign_id == campaign_id, launches.c.state == "sent", launches.c.run.is_(None)
    )
    lacking = told.keys() & connection.execute(query).scalars()
    if lacking:
        shared = {"b_campaign_id": campaign_id}
        _FILL_IN.run(
            connection, [{**shared, "b_guid": guid, "b_run": told[guid]} for guid in sorted(lacking)]
        )


def read_runs(connection: Connection, campaign_id: int) -> list[Run]:
    """Return the runs that sent an accepted launch of a campaign, the earliest first."""
    is_sent = select(launches.c.run).where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    query = select(runs).where(runs.c.id.in_(is_sent)).order_by(*_BY_TIME)
    return [Run(*row) for row in connection.execute(query)]


def find_runs(connection: Connection, ids: Collection[str]) -> list[Run]:
    """Return runs by their ids, the earliest first."""
    query = select(runs).where(runs.c.id.in_(ids)).order_by(*_BY_TIME)
    return [Run(*row) for row in connection.execute(query)]


def count_by_run(connection: Connection, campaign_id: int) -> list[RunRow]:
    """Return what each of the runs has sent of a campaign, the earliest first.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
    """
    counted = (
        select(launches.c.run, func.count(), func.sum(launches.c.recipients))
        .where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
        .group_by(launches.c.run)
    )
    sent = {run: (number, int(recipients)) for run, number, recipients in connection.execute(counted)}
    return [RunRow(run, *sent[run.id]) for run in read_runs(connection, campaign_id)]
