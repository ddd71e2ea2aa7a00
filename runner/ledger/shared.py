"""What all machines that send a campaign share of its record: what was sent, and what was reserved.

A reservation says, before the first of them leaves, which launches a run is about to send. It is to other
machines what an intent is to the next run on this one. It holds fingerprints and digests: no phones, no
texts. With a state key it carries a MAC of it, as the lines of lockfiles do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from runner.ledger.line_macs import without_mac
from runner.ledger.model import Run
from runner.ledger.provenance import store_run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.ledger.line_macs import LineMacs

_VERSION = 1
_TEXTS = ("message", "key", "tag", "payload_digest", "definition_digest", "reserved_at")


@dataclass(frozen=True, slots=True)
class ReservedLaunch:
    """A launch that a run was about to send.

    Attributes:
        message: the message's id.
        key: names the launch.
        tag: the project tag it is sent with.
        payload_digest: of the payload, as in the lockfile.
        definition_digest: of what the service lists of it.
        reserved_at: UTC, ISO 8601.
        recipients: fingerprints, sorted.
        arm: the experiment's arm, of a message that has several.
        run: the id of the run; None if it is not known.
    """

    message: str
    key: str
    tag: str
    payload_digest: str
    definition_digest: str
    reserved_at: str
    recipients: tuple[str, ...]
    arm: str | None = None
    run: str | None = None


_FIELDS = sorted(one.name for one in fields(ReservedLaunch))


@dataclass(frozen=True, slots=True)
class Reservation:
    """A group of launches that were reserved together.

    Attributes:
        id: random: a ledger that knows it knows all of its launches that can have left.
        launches: the group.
        runs: those that were about to send them.
    """

    id: str
    launches: tuple[ReservedLaunch, ...]
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedRecord:
    """What all machines share of a campaign's record.

    Attributes:
        lockfiles: their texts, by where they are kept.
        reservations: launches without a known outcome.
        is_held: whether this run alone may go on from here: nobody else is just sending them.
        mending: what to do if the lockfiles cannot be read.
    """

    lockfiles: Mapping[Path, str] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    is_held: bool = False
    mending: str | None = None


def dump_reservation(reservation: Reservation, macs: LineMacs | None = None) -> str:
    """Return a reservation as text, a launch a line.

    Args:
        reservation: a group of launches.
        macs: signs it; None without a state key.
    """
    lines = ",\n".join(
        f"    {json.dumps({name: getattr(one, name) for name in _FIELDS}, ensure_ascii=False)}"
        for one in reservation.launches
    )
    head = f'{{\n  "id": {json.dumps(reservation.id)},\n  "launches": [\n'
    runs = json.dumps([store_run(run) for run in reservation.runs], ensure_ascii=False)
    text = f'{head}{lines}\n  ],\n  "reservation_version": {_VERSION},\n  "runs": {runs}\n}}\n'
    if macs is None:
        return text
    mac = macs.make("reservation", json.loads(text))
    return text.replace('  "reservation_version"', f'  "mac": "{mac}",\n  "reservation_version"', 1)


def is_signed_reservation(text: str, macs: LineMacs) -> bool:
    """Return whether the text of a reservation, which can be parsed, carries the MAC that it should."""
    data = json.loads(text)
    return bool(data.get("mac") == macs.make("reservation", without_mac(data)))


def parse_reservation(text: str) -> Reservation | None:
    """Return the reservation that a text says; None if it is not one that this version writes."""
    try:
        data = json.loads(text)
        if data["reservation_version"] != _VERSION or not isinstance(data["id"], str):
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
