"""Enters launches with their recipients: those about to be sent, and those found to have been sent."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, select, update

from runner.errors import RunLockedError
from runner.ledger.deliveries import read_guids
from runner.ledger.entry_statements import (
    ADD_ARMS,
    ADD_DIGESTS,
    ADD_LAUNCHES,
    ADOPT,
    CLAIM,
    RELEASE,
    TAKE_OVER,
)
from runner.ledger.fingerprint import launch_key
from runner.ledger.open_launches import asks_something
from runner.ledger.renaming import find_first_name
from runner.ledger.runs import fill_in_runs
from runner.ledger.tables import launches
from runner.ledger.unexplained import drop_unexplained
from runner.ledger.unsettled import adopt_launch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from runner.ledger.model import Intent, LaunchRecord, Unsettled
    from runner.ledger.shared import ReservedLaunch

_PORTION = 1000


def add_intents(connection: Connection, campaign_id: int, intents: Sequence[Intent], at: str) -> list[int]:
    """Record launches that are about to be sent.

    Args:
        connection: commits after this; no request may leave before.
        campaign_id: the ledger's number of the campaign.
        intents: the launches, at least one.
        at: UTC, ISO 8601.

    Returns:
        The ledger's numbers of the launches, in the order of `intents`.

    Raises:
        RunLockedError: one of the recipients has been recorded by another run in the meantime.
    """
    ids = _reserve_ids(connection, len(intents))
    ADD_LAUNCHES.run(
        connection,
        [
            {
                **_describe(launch_id, campaign_id, intent),
                "definition": intent.definition,
                "is_open": asks_something(intent.definition),
                "state": "intent",
                "project_launch_guid": None,
                "intent_at": at,
                "outcome_at": None,
            }
            for launch_id, intent in zip(ids, intents, strict=True)
        ],
    )
    _add_arms(connection, ids, intents)
    rows = _list_all_deliveries(campaign_id, ids, intents)
    # A row that is not released belongs to someone: leaving it untouched shows in the count.
    if CLAIM.run(connection, rows) != len(rows):
        raise RunLockedError(
            "another run is sending this campaign: it has recorded some of the same recipients",
            hint="wait until it has ended, then run the same command again",
        )
    return ids


def absorb_launches(
    connection: Connection,
    campaign_id: int,
    records: Iterable[LaunchRecord],
    surveys: Collection[str] = (),
) -> int:
    """Enter launches that only the lockfile knows of.

    That they were sent outweighs whatever the ledger thought of their recipients: a lockfile holds
    accepted launches alone. The runs that they name are entered already.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        records: all that the lockfile has.
        surveys: the ids of messages that ask something: their sessions stay open.

    Returns:
        How many there were.
    """
    told = list(records)
    present = read_guids(connection, campaign_id)
    # By guid: a lockfile that git has merged can hold one launch twice.
    missing = {
        record.project_launch_guid: record for record in told if record.project_launch_guid not in present
    }
    drop_unexplained(connection, campaign_id, missing)
    waiting = iter(missing.values())
    while portion := list(islice(waiting, _PORTION)):
        rows = _add_accepted(connection, campaign_id, portion, surveys=surveys)
        if rows:
            TAKE_OVER.run(connection, rows)
    fill_in_runs(connection, campaign_id, [one for one in told if one.project_launch_guid in present])
    return len(missing)


def enter_reserved_launches(
    connection: Connection, campaign_id: int, reserved: Sequence[ReservedLaunch]
) -> None:
    """Enter launches that another machine was about to send, as intents without an outcome.

    Recipients that are on record as reached stay with the launch that reached them.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        reserved: the launches.
    """
    waiting = iter(reserved)
    while portion := list(islice(waiting, _PORTION)):
        ids = _reserve_ids(connection, len(portion))
        pairs = list(zip(ids, portion, strict=True))
        unknown = {
            "definition": None,
            "is_open": True,
            "state": "intent",
            "project_launch_guid": None,
            "outcome_at": None,
        }
        ADD_LAUNCHES.run(
            connection,
            [
                {**_describe(launch_id, campaign_id, one), **unknown, "intent_at": one.reserved_at}
                for launch_id, one in pairs
            ],
        )
        _add_arms(connection, ids, portion)
        ADD_DIGESTS.run(
            connection,
            [
                {"launch_id": launch_id, "definition_digest": one.definition_digest}
                for launch_id, one in pairs
            ],
        )
        rows = _list_all_deliveries(campaign_id, ids, portion)
        if rows:
            ADOPT.run(connection, rows)


def enter_adopted(
    connection: Connection, campaign_id: int, record: LaunchRecord, definition: dict[str, Any]
) -> None:
    """Enter a launch that the service knows and that no record did: it was sent by a run that was lost.

    Recipients that are on record as reached by another launch stay with that one. Those of a launch of
    unknown outcome don't: what became of them is known now.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        record: the launch.
        definition: as the service lists it.
    """
    # In ASCII: JSON can hold half a surrogate pair, and no database can.
    text = json.dumps(definition)
    drop_unexplained(connection, campaign_id, [record.project_launch_guid])
    rows = _add_accepted(connection, campaign_id, [record], text)
    if rows:
        ADOPT.run(connection, rows)


def adopt_in_part(
    connection: Connection, campaign: str, launch: Unsettled, guid: str, at: str, reached: frozenset[str]
) -> None:
    """Record that an unsettled launch was sent, but not to the people that its intent names.

    Those whom it has not reached are free again; those whom it has reached besides are on record with it.

    Args:
        connection: commits after this.
        campaign: the campaign's name.
        launch: the launch.
        guid: the service's name for it.
        at: when the service started it; UTC, ISO 8601.
        reached: the fingerprints of those whom it has reached.
    """
    query = select(launches.c.campaign_id, launches.c.payload_digest).where(launches.c.id == launch.id)
    campaign_id, digest = connection.execute(query).one()
    name = find_first_name(connection, campaign_id) or campaign
    key = launch_key(name, launch.message, digest, reached)
    drop_unexplained(connection, campaign_id, [guid])
    adopt_launch(connection, launch.id, guid, at)
    connection.execute(
        update(launches).where(launches.c.id == launch.id).values(launch_key=key, recipients=len(reached))
    )
    missed = [{"b_launch_id": launch.id, "b_fingerprint": name} for name in launch.recipients - reached]
    if missed:
        RELEASE.run(connection, missed)
    shared = {
        "campaign_id": campaign_id,
        "message": launch.message,
        "launch_id": launch.id,
        "released": False,
    }
    if reached:
        ADOPT.run(connection, [{**shared, "fingerprint": name} for name in sorted(reached)])


def _add_accepted(
    connection: Connection,
    campaign_id: int,
    records: Sequence[LaunchRecord],
    definition: str | None = None,
    surveys: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Enter launches that were sent, and return the rows of their deliveries."""
    ids = _reserve_ids(connection, len(records))
    ADD_LAUNCHES.run(
        connection,
        [
            {
                **_describe(launch_id, campaign_id, record),
                "definition": definition,
                "is_open": record.message in surveys if definition is None else asks_something(definition),
                "state": "sent",
                "project_launch_guid": record.project_launch_guid,
                "intent_at": record.sent_at,
                "outcome_at": record.sent_at,
            }
            for launch_id, record in zip(ids, records, strict=True)
        ],
    )
    _add_arms(connection, ids, records)
    return _list_all_deliveries(campaign_id, ids, records)


def _add_arms(
    connection: Connection, ids: Iterable[int], items: Iterable[Intent | LaunchRecord | ReservedLaunch]
) -> None:
    rows = [
        {"launch_id": launch_id, "arm": item.arm}
        for launch_id, item in zip(ids, items, strict=True)
        if item.arm is not None
    ]
    if rows:
        ADD_ARMS.run(connection, rows)


def _describe(
    launch_id: int, campaign_id: int, item: Intent | LaunchRecord | ReservedLaunch
) -> dict[str, Any]:
    return {
        "id": launch_id,
        "campaign_id": campaign_id,
        "message": item.message,
        "launch_key": item.key,
        "tag": item.tag,
        "payload_digest": item.payload_digest,
        "recipients": len(item.recipients),
        "run": item.run,
    }


def _list_deliveries(
    campaign_id: int, message: str, launch_id: int, recipients: Iterable[str]
) -> list[dict[str, Any]]:
    shared = {"campaign_id": campaign_id, "message": message, "launch_id": launch_id, "released": False}
    return [{**shared, "fingerprint": fingerprint} for fingerprint in recipients]


def _list_all_deliveries(
    campaign_id: int, ids: Iterable[int], items: Iterable[Intent | LaunchRecord | ReservedLaunch]
) -> list[dict[str, Any]]:
    return [
        row
        for launch_id, item in zip(ids, items, strict=True)
        for row in _list_deliveries(campaign_id, item.message, launch_id, item.recipients)
    ]


def _reserve_ids(connection: Connection, count: int) -> list[int]:
    """Return numbers for new launches. To be told them afterwards would cost a statement a launch."""
    if connection.dialect.name == "postgresql":
        number = func.nextval(func.pg_get_serial_sequence(launches.name, launches.c.id.name))
        query = select(number).select_from(func.generate_series(1, count))
        return list(connection.execute(query).scalars())
    # SQLite has one writer at a time: nobody else takes them before this transaction has ended.
    last: int = connection.execute(select(func.coalesce(func.max(launches.c.id), 0))).scalar_one()
    return list(range(last + 1, last + 1 + count))
