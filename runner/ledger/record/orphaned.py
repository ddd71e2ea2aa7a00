"""Recorded deliveries of campaigns that no file claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from runner.ledger.tables import campaigns, deliveries, launches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_GROUP = 10_000


def iterate_reached(
    connection: Connection, target: str, claimed: Collection[str]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield the people whom campaigns of a target without a `claimed` name have reached, or may have.

    Each comes with the campaign's name, the launch's project tag and its payload digest.
    """
    query = (
        select(campaigns.c.name, launches.c.tag, launches.c.payload_digest, deliveries.c.fingerprint)
        .join(launches, launches.c.campaign_id == campaigns.c.id)
        .join(deliveries, deliveries.c.launch_id == launches.c.id)
        .where(
            campaigns.c.target == target,
            campaigns.c.name.not_in(claimed),
            deliveries.c.released.is_(False),
        )
        .execution_options(yield_per=_GROUP)
    )
    for name, tag, digest, fingerprint in connection.execute(query):
        yield name, tag, digest, fingerprint
