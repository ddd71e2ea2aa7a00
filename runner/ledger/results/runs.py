"""Runs that sent launches: their commits, plans and jobs, and what became of their launches."""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from sqlalchemy import case, exists, func, literal, select

from runner.ledger.database import insert_missing
from runner.ledger.model import AudienceFigures, Run
from runner.ledger.report_model import RunRow
from runner.ledger.tables import are_of, info, launches, runs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from sqlalchemy import ColumnElement, Connection

    from runner.ledger.model import CampaignLaunches, LaunchState


_BY_TIME = (runs.c.started_at, runs.c.id)
_BITS = 64
_COLUMNS = [column.name for column in runs.c]
_AUDIENCE = "audience of run "
_SELECT = select(runs, info.c.value).outerjoin(info, info.c.name == literal(_AUDIENCE) + runs.c.id)
_OUTCOME = case((launches.c.state == "intent", "unknown"), else_=launches.c.state)


def enter_runs(connection: Connection, entered: Iterable[Run]) -> None:
    """Enter runs that are not on record, with what their audiences were like."""
    found = list(entered)
    insert_missing(connection, runs, [{name: getattr(run, name) for name in _COLUMNS} for run in found])
    told = {run.id: msgspec.json.encode(run.audience).decode() for run in found if run.audience is not None}
    insert_missing(connection, info, [{"name": _AUDIENCE + run, "value": text} for run, text in told.items()])


def read_runs(connection: Connection, campaign_id: int) -> list[Run]:
    """Return the runs that sent an accepted launch of a campaign, the earliest first."""
    is_sent = select(launches.c.run).where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    return _read(connection, runs.c.id.in_(is_sent))


def find_runs(connection: Connection, ids: Collection[str]) -> list[Run]:
    """Return runs by their ids, the earliest first."""
    return _read(connection, runs.c.id.in_(ids))


def find_last_audience(connection: Connection, campaign_id: int) -> Run | None:
    """Return the last run that sent a campaign, of those whose audience is known; None if there is none."""
    known = [run for run in read_runs(connection, campaign_id) if run.audience is not None]
    return known[-1] if known else None


def was_sent(connection: Connection, campaign_id: int) -> bool:
    """Return whether a campaign has an accepted launch on record, of a known run or not."""
    is_sent = exists().where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    return bool(connection.execute(select(is_sent)).scalar_one())


def _read(connection: Connection, condition: ColumnElement[bool]) -> list[Run]:
    rows = connection.execute(_SELECT.where(condition).order_by(*_BY_TIME))
    decode = partial(msgspec.json.decode, type=AudienceFigures)
    return [Run(*[*row, text and decode(text)]) for *row, text in map(tuple, rows)]


def count_by_run(connection: Connection, asked: CampaignLaunches) -> list[RunRow]:
    """Return launches and recipients by run, the earliest first."""
    counted = (
        select(launches.c.run, func.count(), func.sum(launches.c.recipients))
        .where(are_of(asked), launches.c.state == "sent")
        .group_by(launches.c.run)
    )
    sent = {run: (number, int(recipients)) for run, number, recipients in connection.execute(counted)}
    return [RunRow(run, *sent[run.id]) for run in read_runs(connection, asked.campaign_id) if run.id in sent]


def name_run(run: Run, audience: AudienceFigures | None = None) -> Run:
    """Return a run with what the audience that it sends to is like, if known, and the id of its fields."""
    run = msgspec.structs.replace(run, id="", audience=audience)
    said = blake2b(msgspec.json.encode(run, order="sorted"), digest_size=_BITS // 8)
    return msgspec.structs.replace(run, id=said.hexdigest())


class TallyRow(NamedTuple):
    """Launches of a run with the same state and detail; an intent without an outcome is `unknown`."""

    state: LaunchState
    detail: str | None
    launches: int
    recipients: int


class RunLaunch(NamedTuple):
    """One launch of a run."""

    key: str
    message: str
    outcome: LaunchState
    recipients: int
    project_launch_guid: str | None
    detail: str | None


def tally_run(
    connection: Connection, campaign_id: int, run: str | None, *, ignored: Collection[str]
) -> list[TallyRow]:
    """Return the launches of a run in a campaign, counted by state and detail.

    Launches with `ignored` details don't count: their recipients were retried.
    """
    query = (
        select(_OUTCOME, launches.c.detail, func.count(), func.sum(launches.c.recipients))
        .where(*_are_of(campaign_id, run, ignored))
        .group_by(_OUTCOME, launches.c.detail)
        .order_by(_OUTCOME, launches.c.detail)
    )
    return [TallyRow(row[0], row[1], row[2], int(row[3])) for row in connection.execute(query)]


def iterate_run(
    connection: Connection, campaign_id: int, run: str | None, *, ignored: Collection[str]
) -> Iterator[RunLaunch]:
    """Yield the launches that `tally_run` counts, in the order of their intents."""
    columns = launches.c
    query = select(
        columns.launch_key,
        columns.message,
        _OUTCOME,
        columns.recipients,
        columns.project_launch_guid,
        columns.detail,
    ).where(*_are_of(campaign_id, run, ignored))
    for row in connection.execute(query.order_by(columns.id)):
        yield RunLaunch(*row)


def _are_of(campaign_id: int, run: str | None, ignored: Collection[str]) -> tuple[ColumnElement[bool], ...]:
    return (
        launches.c.campaign_id == campaign_id,
        launches.c.run == run,
        func.coalesce(launches.c.detail, "").not_in(ignored),
    )
