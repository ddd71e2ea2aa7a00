"""Launches that the service lists under a campaign's tags, and that no record explains.

They may be what a lost run has sent, so the people that they reached are held: each has a delivery of the
launch for every message that it may have been, and counts as unresolved until a person says what it was. A
launch that was dismissed is another's: it holds nobody back any more. That stands in the lockfile, so that
it is said once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, inspect, select

from runner.ledger.bulk import BulkStatement
from runner.ledger.database import insert_into
from runner.ledger.entry_statements import CLAIM
from runner.ledger.open_launches import asks_something
from runner.ledger.tables import deliveries, dismissed_launches, launches
from runner.ledger.unsettled import UNEXPLAINED
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sqlalchemy import Connection

_IN_PART = "it was listed without all of its recipients"
_DISMISS = BulkStatement(
    lambda connection: insert_into(connection, dismissed_launches).on_conflict_do_nothing(
        index_elements=[column.name for column in dismissed_launches.primary_key]
    ),
    [column.name for column in dismissed_launches.c],
)


@dataclass(frozen=True, slots=True)
class UnexplainedLaunch:
    """A launch that the service lists and no record explains.

    Attributes:
        project_launch_guid: the service's name for it.
        tag: its project tag, as listed.
        started_at: when the service started it; UTC, ISO 8601.
        definition: as listed.
        held: the fingerprints of those who are held because of it, by the messages that it may have been.
        is_whole: whether it was listed with all whom it has reached; else it holds all whom it may have.
    """

    project_launch_guid: str
    tag: str
    started_at: str
    definition: dict[str, Any] = field(repr=False)
    held: Mapping[str, Collection[str]] = field(repr=False)
    is_whole: bool = True

    @property
    def people(self) -> set[str]:
        """The fingerprints of those who are held because of it."""
        return {fingerprint for people in self.held.values() for fingerprint in people}


def hold_people(connection: Connection, campaign_id: int, launch: UnexplainedLaunch) -> None:
    """Enter a launch that no record explains, and hold its people; those who are on record otherwise stay so.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        launch: the launch, which is not entered yet.
    """
    launch_id = _enter(connection, campaign_id, launch)
    rows = [
        {
            "campaign_id": campaign_id,
            "message": message,
            "fingerprint": fingerprint,
            "launch_id": launch_id,
            "released": False,
        }
        for message, people in launch.held.items()
        for fingerprint in sorted(people)
    ]
    if rows:
        CLAIM.run(connection, rows)


def _enter(connection: Connection, campaign_id: int, launch: UnexplainedLaunch) -> int:
    # In ASCII: JSON can hold half a surrogate pair, and no database can.
    definition = json.dumps(launch.definition)
    row = {
        "campaign_id": campaign_id,
        "message": next(iter(launch.held), ""),
        # It has no key and no payload of ours: the service's name for it stands for both.
        "launch_key": launch.project_launch_guid,
        "payload_digest": launch.project_launch_guid,
        "tag": launch.tag,
        "definition": definition,
        "is_open": asks_something(definition),
        "recipients": len(launch.people),
        "state": UNEXPLAINED,
        "project_launch_guid": launch.project_launch_guid,
        "intent_at": launch.started_at,
        "detail": None if launch.is_whole else _IN_PART,
    }
    entered = insert_into(connection, launches).values(row).returning(launches.c.id)
    return int(connection.execute(entered).scalar_one())


def list_unexplained(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str] | None = None
) -> list[UnexplainedLaunch]:
    """Return a campaign's launches that no record explains, the earliest first.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    current = message_ids or {}
    query = (
        select(launches, deliveries.c.message.label("held_message"), deliveries.c.fingerprint)
        .outerjoin(deliveries, deliveries.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id, launches.c.state == UNEXPLAINED)
        .order_by(launches.c.intent_at, launches.c.id)
    )
    rows = {}
    held: dict[str, dict[str, set[str]]] = {}
    for row in connection.execute(query):
        rows[row.project_launch_guid] = row
        shelf = held.setdefault(row.project_launch_guid, {})
        if row.fingerprint is not None:
            shelf.setdefault(current.get(row.held_message, row.held_message), set()).add(row.fingerprint)
    return [
        UnexplainedLaunch(
            guid,
            row.tag,
            row.intent_at,
            json.loads(row.definition or "{}"),
            held[guid],
            row.detail != _IN_PART,
        )
        for guid, row in rows.items()
    ]


def has_unexplained(connection: Connection, campaign_id: int) -> bool:
    """Return whether there are launches of a campaign that no record explains."""
    query = select(launches.c.id).where(
        launches.c.campaign_id == campaign_id, launches.c.state == UNEXPLAINED
    )
    return connection.execute(query.limit(1)).first() is not None


def drop_unexplained(connection: Connection, campaign_id: int, guids: Iterable[str] | None = None) -> None:
    """Take out launches that are explained by now: whoever they hold is free, or on record otherwise.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        guids: their `project_launch_guid`s; None for all.
    """
    query = select(launches.c.id, launches.c.project_launch_guid).where(
        launches.c.campaign_id == campaign_id, launches.c.state == UNEXPLAINED
    )
    rows = connection.execute(query).all()
    wanted = set(map(fold_guid, guids)) if rows and guids is not None else None
    for launch_id, guid in rows:
        if wanted is None or fold_guid(guid) in wanted:
            connection.execute(delete(deliveries).where(deliveries.c.launch_id == launch_id))
            connection.execute(delete(launches).where(launches.c.id == launch_id))


def dismiss_launches(connection: Connection, campaign_id: int, guids: Iterable[str]) -> None:
    """Record that launches are not the campaign's: they hold nobody back, now and in later runs.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        guids: their `project_launch_guid`s.
    """
    dismissed = sorted(set(guids))
    if dismissed:
        rows = [{"campaign_id": campaign_id, "project_launch_guid": guid} for guid in dismissed]
        _DISMISS.run(connection, rows)
        drop_unexplained(connection, campaign_id, dismissed)


def read_dismissed(connection: Connection, campaign_id: int) -> set[str]:
    """Return the `project_launch_guid`s of launches that a person said are not the campaign's."""
    if not inspect(connection).has_table(dismissed_launches.name):
        # A ledger of an older version, which is only read.
        return set()
    query = select(dismissed_launches.c.project_launch_guid)
    return set(connection.execute(query.where(dismissed_launches.c.campaign_id == campaign_id)).scalars())
