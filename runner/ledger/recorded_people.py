"""Whom a message is not to be sent, as far as is on record: asked by who sends a part of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, select, update

from runner.ledger.tables import deliveries, launches

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from runner.ledger.model import LaunchState

_LOOKED_UP = 5_000
"""People that are looked up with one statement."""


class RecordedPeople(NamedTuple):
    """Some people, as far as they are on record with a message.

    Attributes:
        states: of the latest launches of those to whom it is not to be sent, by their fingerprints.
        freed: launches of the run that asks, by their numbers in the ledger, which certainly were not sent:
            their recipients are free, and sent to again.
    """

    states: dict[str, LaunchState]
    freed: set[int]


def find_recorded(
    connection: Connection,
    campaign_id: int,
    message: str,
    fingerprints: Sequence[str],
    *,
    run: str | None,
    too_late: str,
) -> RecordedPeople:
    """Return those of some people to whom a message is not to be sent, as far as is on record.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message: the message's id.
        fingerprints: the people; at most some ten thousands.
        run: the id of the run that asks: whom the service has refused it, or whose hours were over, it
            doesn't try again.
        too_late: the detail of launches whose hours were over.
    """
    found = RecordedPeople({}, set())
    for first in range(0, len(fingerprints), _LOOKED_UP):
        query = (
            select(
                deliveries.c.fingerprint,
                deliveries.c.released,
                launches.c.id,
                launches.c.state,
                launches.c.detail,
            )
            .join(launches, launches.c.id == deliveries.c.launch_id)
            .where(
                deliveries.c.campaign_id == campaign_id,
                deliveries.c.message == message,
                deliveries.c.fingerprint.in_(fingerprints[first : first + _LOOKED_UP]),
                deliveries.c.released.is_(False) | (launches.c.run == run),
            )
        )
        for row in connection.execute(query):
            if not row.released or row.state == "rejected" or row.detail == too_late:
                found.states[row.fingerprint] = row.state
            else:
                found.freed.add(row.id)
    return found


def note_tried_again(connection: Connection, freed: Collection[int], detail: str) -> None:
    """Record that launches which were not sent stand for nothing any more: their recipients come again.

    Args:
        connection: commits after this.
        freed: their numbers.
        detail: says so.
    """
    ids = sorted(freed)
    for first in range(0, len(ids), _LOOKED_UP):
        is_one = launches.c.id.in_(ids[first : first + _LOOKED_UP])
        connection.execute(
            update(launches).where(is_one, launches.c.state == "not_sent").values(detail=detail)
        )
