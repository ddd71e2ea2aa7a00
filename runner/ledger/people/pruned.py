"""Pruning: the texts and answers of old launches leave the ledger, and the figures of the campaign stay.

A pruned launch keeps its deliveries, so nobody is texted twice, and its `detail` says that it is pruned:
results of it that are read later are searched for opt-outs and not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from sqlalchemy import Connection, and_, case, exists, func, select, update

from runner.ledger.bulk import iterate_rows
from runner.ledger.database import read_info, write_info
from runner.ledger.model import CampaignLaunches
from runner.ledger.people.forgotten import drop_results
from runner.ledger.record.unsettled import OPEN, UNEXPLAINED
from runner.ledger.tables import PRUNED, are_of, campaigns, launches, opt_outs, results

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class KeptFigures(msgspec.Struct, frozen=True):
    """Figures that stay of a campaign, or of a wave of it, once its answers are pruned.

    Attributes:
        at: when they were pruned; UTC, ISO 8601.
        completed: how many people had answered to the end.
        report: the report as it was, as JSON text.
    """

    at: str
    completed: int
    report: str


class Prunable(NamedTuple):
    """Counts of a campaign, or of a wave of it, that decide whether it may be pruned.

    Attributes:
        launches: launches that are not pruned.
        results: results in the ledger.
        last_at: when the last launch was sent; UTC, ISO 8601; None without any.
        unsettled: launches whose outcome is not known.
        is_open: launches with a survey that may still be open.
        doubtful: replies that wait for a person's decision.
    """

    launches: int
    results: int
    last_at: str | None
    unsettled: int
    is_open: int
    doubtful: int


def find_prunable(connection: Connection, campaign_id: int, wave: str = "") -> Prunable:
    """Return what a campaign, or one wave of it, has that may be pruned."""
    own = are_of(CampaignLaunches(campaign_id, wave=wave))
    is_sent = launches.c.state == "sent"
    counts = (
        func.count(case((and_(is_sent, ~IS_PRUNED), 1))),
        func.max(launches.c.intent_at),
        func.count(case((launches.c.state.in_((*OPEN, UNEXPLAINED)), 1))),
        func.count(case((and_(is_sent, launches.c.asks, launches.c.is_open), 1))),
    )
    sent, last_at, unsettled, is_open = connection.execute(select(*counts).where(own)).one()
    launch_ids = select(launches.c.id).where(own)
    held = select(func.count()).select_from(results).where(results.c.launch_id.in_(launch_ids))
    is_doubtful = exists().where(
        opt_outs.c.target == campaigns.c.target,
        campaigns.c.id == campaign_id,
        opt_outs.c.evidence == results.c.result_guid,
        opt_outs.c.state == "doubtful",
    )
    found, doubtful = (connection.execute(query).scalar_one() for query in (held, held.where(is_doubtful)))
    return Prunable(sent, found, last_at, unsettled, is_open, doubtful)


IS_PRUNED = func.coalesce(launches.c.detail, "") == PRUNED
"""The condition that a launch's texts and answers were pruned."""


def prune_launches(
    connection: Connection, campaign_id: int, wave: str, kept: KeptFigures, digest: Callable[[str], str]
) -> None:
    """Remove the texts and answers of a campaign, or of one wave of it, and keep its figures.

    An earlier report stays. `digest` is that of a definition's JSON text, which takes its place.
    """
    own = are_of(CampaignLaunches(campaign_id, wave=wave))
    drop_results(connection, results.c.launch_id.in_(select(launches.c.id).where(own)))
    written = select(launches.c.id, launches.c.definition).where(own, launches.c.definition.is_not(None))
    for number, text in connection.execute(written).all():
        values = {"definition": None, "definition_digest": digest(text)}
        connection.execute(update(launches).where(launches.c.id == number).values(values))
    connection.execute(update(launches).where(own, launches.c.state == "sent").values(detail=PRUNED))
    earlier = read_figures(connection, campaign_id, wave)
    if earlier is not None:
        completed = earlier.completed + kept.completed
        kept = KeptFigures(earlier.at, completed, earlier.report)
    write_info(connection, _name(campaign_id, wave), msgspec.json.encode(kept).decode())


def read_figures(connection: Connection, campaign_id: int, wave: str) -> KeptFigures | None:
    """Return what is kept of pruned answers to a campaign, or to one wave of it; None if none were pruned."""
    written = read_info(connection, _name(campaign_id, wave))
    return None if written is None else msgspec.json.decode(written, type=KeptFigures)


def _name(campaign_id: int, wave: str) -> str:
    return f"pruned {campaign_id} {wave}".rstrip()


def find_pruned(connection: Connection, launch_ids: Collection[int]) -> set[int]:
    """Return those of some launches whose results are not kept, by number."""
    query = select(launches.c.id).where(IS_PRUNED)
    return {row.id for row in iterate_rows(connection, query, launches.c.id, launch_ids)}


def list_pruned(connection: Connection, target: str) -> list[str]:
    """Return the guids of all pruned launches on a target."""
    query = select(launches.c.project_launch_guid).join(campaigns, campaigns.c.id == launches.c.campaign_id)
    return [*connection.execute(query.where(campaigns.c.target == target, IS_PRUNED)).scalars()]
