"""Recorded deliveries of campaigns that no file claims, and of other targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, exists, func, or_, select

from runner.ledger.record.renaming import REACHED_SOMEBODY
from runner.ledger.tables import campaigns, deliveries, launches, opt_outs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_GROUP = 10_000


def list_unclaimed(
    connection: Connection, target: str, claimed: Collection[str]
) -> list[tuple[str, str, int]]:
    """Return the names of a target's campaigns that are not `claimed`, with their tags.

    Each tag comes with the number of recipients who were reached under it, or may have been.
    """
    query = (
        select(campaigns.c.name, launches.c.tag, func.sum(launches.c.recipients))
        .join(launches, launches.c.campaign_id == campaigns.c.id)
        .where(
            campaigns.c.target == target,
            campaigns.c.name.not_in(claimed),
            launches.c.state.in_(REACHED_SOMEBODY),
        )
        .group_by(campaigns.c.name, launches.c.tag)
    )
    return [(name, tag, int(count)) for name, tag, count in connection.execute(query)]


def iterate_reached(connection: Connection, target: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the people whom a campaign has reached, or may have, each with a launch's payload digest."""
    query = (
        select(launches.c.payload_digest, deliveries.c.fingerprint)
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .join(deliveries, deliveries.c.launch_id == launches.c.id)
        .where(campaigns.c.target == target, campaigns.c.name == name, deliveries.c.released.is_(False))
        .execution_options(yield_per=_GROUP)
    )
    yield from map(tuple, connection.execute(query))


def has_own_launches(connection: Connection, campaign_id: int) -> bool:
    """Return whether a run has sent launches of a campaign, or may have: found ones have no run."""
    own = and_(
        launches.c.campaign_id == campaign_id,
        launches.c.state.in_(REACHED_SOMEBODY),
        launches.c.run.is_not(None),
    )
    return bool(connection.execute(select(exists().where(own))).scalar())


def list_targets(connection: Connection, own: str, names: Collection[str] | None) -> set[str]:
    """Return the targets with launches or opt-outs on record.

    `own` counts only with launches; others, if `names` are given, only with launches of these campaigns.
    """
    has_launches = exists().where(
        launches.c.campaign_id == campaigns.c.id, launches.c.state.in_(REACHED_SOMEBODY)
    )
    query = select(campaigns.c.target).distinct().where(has_launches)
    if names is not None:
        query = query.where(or_(campaigns.c.target == own, campaigns.c.name.in_(names)))
    found = set(connection.execute(query).scalars())
    if names is None:
        opted_out = select(opt_outs.c.target).distinct().where(opt_outs.c.target != own)
        found |= set(connection.execute(opted_out).scalars())
    return found
