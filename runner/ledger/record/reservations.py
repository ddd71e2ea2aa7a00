"""Reservations: launches that this machine, or another one, was about to send.

A reservation that the ledger doesn't know is of a lost machine. Its launches are entered as intents of a dead
run, and settled like those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import exists, update

from runner.ledger.database import find_absorbed, note_absorbed
from runner.ledger.model import ReservedLaunch
from runner.ledger.record.deliveries import iterate_held
from runner.ledger.record.entry import BARE, enter_reserved_launches
from runner.ledger.record.unsettled import OPEN, list_unsettled
from runner.ledger.results.runs import enter_runs
from runner.ledger.tables import deliveries, launches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from runner.ledger.model import RecordedDeliveries, Reservation


def list_unknown(connection: Connection, told: Collection[Reservation]) -> list[Reservation]:
    """Return the reservations that the ledger doesn't know."""
    known = find_absorbed(connection, [one.id for one in told])
    return [one for one in told if one.id not in known]


def absorb_reservations(
    connection: Connection, campaign_id: int, told: Collection[Reservation], message_ids: Mapping[str, str]
) -> None:
    """Enter the launches of unknown reservations as intents of a dead run.

    Launches recorded as sent stay so. Recipients of open launches move to the reservation: it was made later,
    by a run that knew their outcomes.
    """
    unknown = list_unknown(connection, told)
    for reservation in unknown:
        current = [
            msgspec.structs.replace(one, message=message_ids.get(one.message, one.message))
            for one in reservation.launches
        ]
        enter_runs(connection, reservation.runs)
        enter_reserved_launches(connection, campaign_id, current)
        note_absorbed(connection, [reservation.id])
    if not unknown:
        return
    held = exists().where(deliveries.c.launch_id == launches.c.id, deliveries.c.released.is_(False))
    is_bare = (launches.c.campaign_id == campaign_id) & launches.c.state.in_(OPEN) & ~held
    connection.execute(update(launches).where(is_bare).values(state="not_sent", detail=BARE))


def add_reserved(
    known: RecordedDeliveries, told: Iterable[Reservation], message_ids: Mapping[str, str]
) -> None:
    """Add the recipients of unknown reservations to the `known` deliveries as unresolved."""
    for launch in (launch for reservation in told for launch in reservation.launches):
        message = message_ids.get(launch.message, launch.message)
        people = set(launch.recipients) - known.sent.get(message, set())
        known.unresolved.setdefault(message, set()).update(people)


def list_open(
    connection: Connection, campaign_id: int, digest: Callable[[dict[str, Any]], str]
) -> Sequence[ReservedLaunch]:
    """Return the launches of unknown outcome, for other machines, and rejected ones without proof."""
    found = []
    for states, is_released in ((OPEN, False), (("rejected",), True)):
        unsettled = {
            one.id: one
            for one in list_unsettled(connection, campaign_id, states=states, is_released=is_released)
        }
        is_open = (launches.c.campaign_id == campaign_id) & launches.c.state.in_(states)
        found += [
            ReservedLaunch(
                message=row.message,
                key=row.launch_key,
                tag=row.tag,
                payload_digest=row.payload_digest,
                definition_digest=one.definition_digest if one.definition is None else digest(one.definition),
                reserved_at=one.intent_at,
                recipients=recipients,
                arm=row.arm,
                asks=row.asks,
                run=row.run,
            )
            for row, recipients in iterate_held(connection, is_open, is_released=is_released)
            # Launches without recipients hold nobody, here or elsewhere.
            if recipients and (one := unsettled.get(row.id)) is not None
        ]
    return found
