"""Reservations: launches that this machine, or another one, was about to send.

A reservation that the ledger doesn't know is of a lost machine. Its launches are entered as intents of a dead
run, and settled like those.

As a text, a reservation has fingerprints and digests, no phones or texts of messages, and with a state key a
MAC.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import exists, select, update

from runner.ledger.database import insert_missing
from runner.ledger.fingerprint import launch_key
from runner.ledger.lockfile.integrity import without_mac
from runner.ledger.model import Reservation, ReservedLaunch, Run
from runner.ledger.record.deliveries import iterate_held
from runner.ledger.record.entry import BARE, enter_reserved_launches
from runner.ledger.record.unsettled import OPEN, list_unsettled
from runner.ledger.results.runs import enter_runs, store_run
from runner.ledger.tables import deliveries, launches, reservations
from runner.version import RESERVATION_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from runner.ledger.lockfile.integrity import LineMacs
    from runner.ledger.model import RecordedDeliveries

_TEXTS = ("message", "key", "tag", "payload_digest", "definition_digest", "reserved_at")
_FIELDS = sorted(one.name for one in fields(ReservedLaunch))


def note_own(connection: Connection, name: str) -> None:
    """Record the random name of a run or reservation; to be committed before anybody else sees it.

    The ledger must have all launches of the reservation that can have been sent.
    """
    insert_missing(connection, reservations, [{"id": name}])


def is_own(connection: Connection, name: str) -> bool:
    """Return whether this ledger knows a run or a reservation."""
    query = select(reservations.c.id).where(reservations.c.id == name)
    return connection.execute(query).first() is not None


def list_unknown(connection: Connection, told: Iterable[Reservation]) -> list[Reservation]:
    """Return the reservations that the ledger doesn't know."""
    known = set(connection.execute(select(reservations.c.id)).scalars())
    return [one for one in told if one.id not in known]


def absorb_reservations(
    connection: Connection,
    campaign_id: int,
    first_name: str,
    told: Iterable[Reservation],
    message_ids: Mapping[str, str],
) -> None:
    """Enter the launches of unknown reservations as intents of a dead run.

    Launches recorded as sent stay so. Recipients of open launches move to the reservation: it was made later,
    by a run that knew their outcomes.
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
                run=row.run,
            )
            for row, recipients in iterate_held(connection, is_open, is_released=is_released)
            # Launches without recipients hold nobody, here or elsewhere.
            if recipients and (one := unsettled.get(row.id)) is not None
        ]
    return found


def _rename(one: ReservedLaunch, message_ids: Mapping[str, str], name: str) -> ReservedLaunch:
    message = message_ids.get(one.message, one.message)
    if message == one.message:
        return one
    key = launch_key(name, message, one.payload_digest, one.recipients)
    return replace(one, message=message, key=key)


def dump_reservation(reservation: Reservation, macs: LineMacs | None = None) -> str:
    """Return a reservation as text, a launch a line, signed if there are `macs`."""
    lines = ",\n".join(
        f"    {json.dumps({name: getattr(one, name) for name in _FIELDS}, ensure_ascii=False)}"
        for one in reservation.launches
    )
    head = f'{{\n  "id": {json.dumps(reservation.id)},\n  "launches": [\n'
    runs = json.dumps([store_run(run) for run in reservation.runs], ensure_ascii=False)
    text = f'{head}{lines}\n  ],\n  "reservation_version": {RESERVATION_VERSION},\n  "runs": {runs}\n}}\n'
    if macs is None:
        return text
    mac = macs.make("reservation", json.loads(text))
    return text.replace('  "reservation_version"', f'  "mac": "{mac}",\n  "reservation_version"', 1)


def is_signed_reservation(text: str, macs: LineMacs) -> bool:
    """Return whether the valid text of a reservation has the right MAC."""
    data = json.loads(text)
    return bool(data.get("mac") == macs.make("reservation", without_mac(data)))


def parse_reservation(text: str) -> Reservation | None:
    """Parse the text of a reservation; None if this version does not write such texts."""
    try:
        data = json.loads(text)
        if data["reservation_version"] != RESERVATION_VERSION or not isinstance(data["id"], str):
            return None
        runs = tuple(Run(**run) for run in data["runs"])
        return Reservation(data["id"], tuple(map(_parse_launch, data["launches"])), runs)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def _parse_launch(data: dict[str, Any]) -> ReservedLaunch:
    launch = ReservedLaunch(**{**data, "recipients": tuple(data["recipients"])})
    texts = [getattr(launch, name) for name in _TEXTS] + list(launch.recipients)
    optional = (launch.arm, launch.run)
    if not all(isinstance(text, str) for text in texts) or not all(
        isinstance(one, str | None) for one in optional
    ):
        raise TypeError(data)
    return launch
