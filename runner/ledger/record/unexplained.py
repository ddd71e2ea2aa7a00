"""Launches that the service lists under a campaign's tags and no record explains.

A lost run may have sent them, so their people are held: they count as unresolved for every message that the
launch may have been, until a person decides. A dismissed launch holds nobody, and is noted in the lockfile.

A later list without the launch frees nobody, so files of suppressions carry these holds to other ledgers.
They end when a record names the launch, as sent or as dismissed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

from runner.ledger.database import insert_missing
from runner.ledger.files.suppressions import HoldLine
from runner.ledger.model import LaunchEntry
from runner.ledger.record.deliveries import asks_something, enter_campaign, find_record
from runner.ledger.record.entry import CLAIM, enter_launches, list_deliveries
from runner.ledger.record.unsettled import UNEXPLAINED, drop_unexplained, iterate_launches, list_claimed
from runner.ledger.tables import campaigns, dismissed_launches, launches
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


_IN_PART = "it was listed without all of its recipients"


@dataclass(frozen=True, slots=True)
class UnexplainedLaunch:
    """A launch that the service lists and no record explains.

    `tag`, `started_at` (UTC, ISO 8601) and `definition` are as listed. `held` has fingerprints by each
    message that it may have been. Unless it `is_whole`, recipients were missing from the list, and all that
    it may have reached are held.
    """

    project_launch_guid: str
    tag: str
    started_at: str
    definition: dict[str, Any] = field(repr=False)
    held: Mapping[str, Collection[str]] = field(repr=False)
    is_whole: bool = True

    @property
    def people(self) -> set[str]:
        """The fingerprints of all people that it holds."""
        return {fingerprint for people in self.held.values() for fingerprint in people}


def hold_people(connection: Connection, campaign_id: int, launch: UnexplainedLaunch) -> None:
    """Enter an unexplained launch, and hold its people who have no other delivery on record."""
    # In ASCII: JSON can hold half a surrogate pair, and no database can.
    definition = json.dumps(launch.definition)
    # It has no key or payload of ours: the service's guid stands for both.
    message, guid = next(iter(launch.held), ""), launch.project_launch_guid
    entry = LaunchEntry(message, guid, launch.tag, guid, tuple(launch.people))
    (launch_id,), _ = enter_launches(
        connection,
        campaign_id,
        [entry],
        lambda _: {
            "definition": definition,
            "asks": asks_something(definition),
            "state": UNEXPLAINED,
            "project_launch_guid": guid,
            "intent_at": launch.started_at,
            "detail": None if launch.is_whole else _IN_PART,
        },
    )
    rows = [
        row
        for message, people in launch.held.items()
        for row in list_deliveries(campaign_id, message, launch_id, sorted(people))
    ]
    if rows:
        CLAIM.run(connection, rows)


def list_unexplained(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str] | None = None
) -> list[UnexplainedLaunch]:
    """Return a campaign's unexplained launches, the earliest first."""
    current = message_ids or {}
    are_theirs = launches.c.campaign_id == campaign_id, launches.c.state == UNEXPLAINED
    columns = "project_launch_guid", "tag", "intent_at", "definition", "detail"
    found = []
    for row, held in iterate_launches(
        connection, columns, *are_theirs, order=(launches.c.intent_at, launches.c.id)
    ):
        people: dict[str, set[str]] = {}
        for message, person in held:
            people.setdefault(current.get(message, message), set()).add(person)
        definition, is_whole = json.loads(row.definition or "{}"), row.detail != _IN_PART
        found.append(
            UnexplainedLaunch(row.project_launch_guid, row.tag, row.intent_at, definition, people, is_whole)
        )
    return found


def has_unexplained(connection: Connection, campaign_id: int) -> bool:
    """Return whether a campaign has unexplained launches."""
    query = select(launches.c.id).where(
        launches.c.campaign_id == campaign_id, launches.c.state == UNEXPLAINED
    )
    return connection.execute(query.limit(1)).first() is not None


def dismiss_launches(connection: Connection, campaign_id: int, guids: Iterable[str]) -> None:
    """Record that launches are not the campaign's, and release their people."""
    dismissed = sorted(set(guids))
    if dismissed:
        rows = [{"campaign_id": campaign_id, "project_launch_guid": guid} for guid in dismissed]
        insert_missing(connection, dismissed_launches, rows)
        drop_unexplained(connection, campaign_id, dismissed)


def read_dismissed(connection: Connection, campaign_id: int) -> set[str]:
    """Return the `project_launch_guid`s of launches that a person has dismissed."""
    query = select(dismissed_launches.c.project_launch_guid)
    return set(connection.execute(query.where(dismissed_launches.c.campaign_id == campaign_id)).scalars())


def absorb_hold(connection: Connection, target: str, hold: HoldLine, campaign_id: int | None = None) -> None:
    """Hold the people that a file names, unless the ledger knows the launch: then it decides about them.

    `campaign_id` is None for the campaign that it names.
    """
    if campaign_id is None:
        row = find_record(connection, target, [hold.campaign], takes_heirs=True)
        campaign_id = enter_campaign(connection, target, hold.campaign) if row is None else row.id
    guid = normalize_guid(hold.launch)
    dismissed = set(map(normalize_guid, read_dismissed(connection, campaign_id)))
    if guid in dismissed | list_claimed(connection, target):
        return
    query = select(launches.c.id, launches.c.project_launch_guid).where(
        launches.c.campaign_id == campaign_id, launches.c.state == UNEXPLAINED
    )
    known = {normalize_guid(each.project_launch_guid): each.id for each in connection.execute(query)}
    held = {hold.message: hold.fingerprints}
    if guid not in known:
        launch = UnexplainedLaunch(hold.launch, hold.tag, hold.at, {}, held, hold.whole)
        hold_people(connection, campaign_id, launch)
        return
    rows = list_deliveries(campaign_id, hold.message, known[guid], hold.fingerprints)
    CLAIM.run(connection, list(rows))


def iterate_holds(connection: Connection, target: str) -> Iterator[HoldLine]:
    """Yield the holds of a target, in the order of the file."""
    holding = select(launches.c.campaign_id).where(launches.c.state == UNEXPLAINED)
    is_holding = (campaigns.c.target == target) & campaigns.c.id.in_(holding)
    found = [
        HoldLine(
            row.name,
            launch.project_launch_guid,
            message,
            launch.tag,
            tuple(sorted(people)),
            launch.is_whole,
            launch.started_at,
        )
        for row in connection.execute(select(campaigns).where(is_holding)).all()
        for launch in list_unexplained(connection, row.id)
        for message, people in launch.held.items()
    ]
    yield from sorted(found, key=lambda one: one.identity)
