"""Statements about reservations: launches that this machine, or another one, was about to send.

A reservation that the ledger doesn't know was made by a machine that is gone. Its launches are entered as
intents of a run that has died, and settled like those (design: delivery, step 4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import exists, inspect, select, update

from runner.ledger.database import insert_into
from runner.ledger.deliveries import iterate_held
from runner.ledger.entry import enter_reserved_launches
from runner.ledger.fingerprint import launch_key
from runner.ledger.runs import enter_runs
from runner.ledger.shared import Reservation, ReservedLaunch
from runner.ledger.tables import deliveries, launches, reservations
from runner.ledger.unsettled import OPEN, list_unsettled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from runner.ledger.model import Known

BARE = "other launches have its recipients"


def note_own(connection: Connection, name: str) -> None:
    """Record a run of this ledger, or a reservation whose launches it knows, as far as they can have left.

    Args:
        connection: commits after this, and before anybody else sees that name.
        name: the run's, or the reservation's; random.
    """
    entered = insert_into(connection, reservations).values(id=name)
    connection.execute(entered.on_conflict_do_nothing(index_elements=[reservations.c.id]))


def is_own(connection: Connection, name: str) -> bool:
    """Return whether a run, or a reservation, is one that this ledger knows."""
    query = select(reservations.c.id).where(reservations.c.id == name)
    return connection.execute(query).first() is not None


def list_unknown(connection: Connection, told: Iterable[Reservation]) -> list[Reservation]:
    """Return those of the reservations that the ledger, which may be of an older version, doesn't know."""
    if not inspect(connection).has_table(reservations.name):
        return list(told)
    known = set(connection.execute(select(reservations.c.id)).scalars())
    return [one for one in told if one.id not in known]


def absorb_reservations(
    connection: Connection,
    campaign_id: int,
    first_name: str,
    told: Iterable[Reservation],
    message_ids: Mapping[str, str],
) -> None:
    """Enter the launches of reservations that the ledger doesn't know, as intents of a run that has died.

    What is on record as sent stays so. Recipients of launches that are open here count as the
    reservation's: it was made later, by a run that knew what had become of those.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        first_name: the campaign's first name.
        told: the reservations.
        message_ids: the ids that messages have now, by those that they had before.
    """
    unknown = list_unknown(connection, told)
    for reservation in unknown:
        current = [_rename(one, message_ids, first_name) for one in reservation.launches]
        enter_runs(connection, reservation.runs)
        enter_reserved_launches(connection, campaign_id, current)
        note_own(connection, reservation.id)
    if not unknown:
        return
    held = exists().where(deliveries.c.launch_id == launches.c.id, deliveries.c.released.is_(False))
    is_bare = (launches.c.campaign_id == campaign_id) & launches.c.state.in_(OPEN) & ~held
    connection.execute(update(launches).where(is_bare).values(state="not_sent", detail=BARE))


def add_reserved(known: Known, told: Iterable[Reservation], message_ids: Mapping[str, str]) -> None:
    """Count the recipients of reservations among those whose outcome is not known.

    Args:
        known: what ledger and lockfiles say; reservations are added.
        told: those that the ledger doesn't know.
        message_ids: the ids that messages have now, by those that they had before.
    """
    for launch in (launch for reservation in told for launch in reservation.launches):
        message = message_ids.get(launch.message, launch.message)
        people = set(launch.recipients) - known.sent.get(message, set())
        known.unresolved.setdefault(message, set()).update(people)


def list_open(
    connection: Connection, campaign_id: int, digest: Callable[[dict[str, Any]], str]
) -> Sequence[ReservedLaunch]:
    """Return the launches that may or may not have been sent, as other machines are told of them.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        digest: returns what stands for a definition.
    """
    unsettled = {one.id: one for one in list_unsettled(connection, campaign_id)}
    is_open = (launches.c.campaign_id == campaign_id) & launches.c.state.in_(OPEN)
    return [
        ReservedLaunch(
            message=row.message,
            key=row.launch_key,
            tag=row.tag,
            payload_digest=row.payload_digest,
            definition_digest=one.definition_digest if one.definition is None else digest(one.definition),
            reserved_at=one.intent_at,
            recipients=recipients,
            arm=row.arm,
            run=row.run,
        )
        for row, recipients in iterate_held(connection, is_open)
        # Whoever has no recipients left holds nobody back, here or elsewhere.
        if recipients and (one := unsettled.get(row.id)) is not None
    ]


def _rename(one: ReservedLaunch, message_ids: Mapping[str, str], name: str) -> ReservedLaunch:
    message = message_ids.get(one.message, one.message)
    if message == one.message:
        return one
    key = launch_key(name, message, one.payload_digest, one.recipients)
    return replace(one, message=message, key=key)
