"""Whom a message is not to be sent, as far as is on record: asked by who sends a part of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from runner.ledger.tables import deliveries, launches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.ledger.model import LaunchState

_LOOKED_UP = 5_000
"""People that are looked up with one statement."""


def find_recorded(
    connection: Connection,
    campaign_id: int,
    message: str,
    fingerprints: Sequence[str],
    *,
    run: str | None,
    too_late: str,
) -> dict[str, LaunchState]:
    """Return those of some people to whom a message is not to be sent, as far as is on record.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message: the message's id.
        fingerprints: the people; at most some ten thousands.
        run: the id of the run that asks: whom the service has refused it, or whose hours were over, it
            doesn't try again.
        too_late: the detail of launches whose hours were over.

    Returns:
        The states of their latest launches, by their fingerprints.
    """
    was_tried = (launches.c.run == run) & ((launches.c.state == "rejected") | (launches.c.detail == too_late))
    found: dict[str, LaunchState] = {}
    for first in range(0, len(fingerprints), _LOOKED_UP):
        query = (
            select(deliveries.c.fingerprint, launches.c.state)
            .join(launches, launches.c.id == deliveries.c.launch_id)
            .where(
                deliveries.c.campaign_id == campaign_id,
                deliveries.c.message == message,
                deliveries.c.fingerprint.in_(fingerprints[first : first + _LOOKED_UP]),
                deliveries.c.released.is_(False) | was_tried,
            )
        )
        found.update((row.fingerprint, row.state) for row in connection.execute(query))
    return found
