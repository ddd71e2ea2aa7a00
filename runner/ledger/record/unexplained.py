"""Launches that the service lists under a campaign's tags and no record explains.

A lost run may have sent them, so their people are held: they count as unresolved for every message that the
launch may have been, until a person decides. A dismissed launch holds nobody, and is noted in the lockfile.

A later list without the launch frees nobody, so files of suppressions carry these holds to other ledgers.
They wait until the campaign is entered, and end when a lockfile names the launch, as sent or as dismissed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, select

from runner.ledger.database import insert_into, insert_missing
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.people.suppression_file import Entry, identify
from runner.ledger.record.entry import CLAIM, list_deliveries
from runner.ledger.record.open_launches import asks_something
from runner.ledger.record.unsettled import UNEXPLAINED, drop_unexplained, list_claimed
from runner.ledger.tables import campaigns, deliveries, dismissed_launches, launches, told_holds
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from runner.ledger.model import RecordedDeliveries
    from runner.ledger.record.recorded import Identity


_IN_PART = "it was listed without all of its recipients"
_DIGEST_SIZE = 16


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
    launch_id = _enter(connection, campaign_id, launch)
    rows = [
        row
        for message, people in launch.held.items()
        for row in list_deliveries(campaign_id, message, launch_id, sorted(people))
    ]
    if rows:
        CLAIM.run(connection, rows)


def _enter(connection: Connection, campaign_id: int, launch: UnexplainedLaunch) -> int:
    # In ASCII: JSON can hold half a surrogate pair, and no database can.
    definition = json.dumps(launch.definition)
    row = {
        "campaign_id": campaign_id,
        "message": next(iter(launch.held), ""),
        # It has no key or payload of ours: the service's guid stands for both.
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
    """Return a campaign's unexplained launches, the earliest first."""
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


def keep_told(connection: Connection, target: str, entries: Iterable[Entry]) -> None:
    """Store the `hold` entries of a file, without those from this ledger, until the campaigns are entered."""
    known = list_claimed(connection, target, explained_only=False)
    rows = []
    for entry in entries:
        if normalize_guid(entry["launch"]) not in known:
            text = json.dumps(
                {name: value for name, value in entry.items() if name != "seal"}, sort_keys=True
            )
            digest = hashlib.blake2b(text.encode(), digest_size=_DIGEST_SIZE).hexdigest()
            rows.append({"target": target, "campaign": entry["campaign"], "digest": digest, "entry": text})
    insert_missing(connection, told_holds, rows)


def take_told(connection: Connection, identity: Identity, campaign_id: int, key: FingerprintKey) -> None:
    """Hold the people named in files, once: from now on this ledger decides about them.

    The campaign must have been entered with everything in its lockfiles.
    """
    is_own = (told_holds.c.target == identity.target) & told_holds.c.campaign.in_(identity.names)
    texts = connection.execute(select(told_holds.c.entry).where(is_own)).scalars().all()
    if not texts:
        return
    connection.execute(delete(told_holds).where(is_own))
    explained = list_claimed(connection, identity.target, explained_only=False)
    explained |= set(map(normalize_guid, read_dismissed(connection, campaign_id)))
    for launch in _gather(map(json.loads, texts), identity, key, explained):
        hold_people(connection, campaign_id, launch)


def add_told(
    known: RecordedDeliveries,
    identity: Identity,
    key: FingerprintKey,
    explained: Collection[str],
) -> None:
    """Add the people that files hold to a campaign's deliveries `known`, without writing.

    `explained` has the guids of recorded or dismissed launches, written as by `normalize_guid`.
    """
    for launch in _gather(identity.held, identity, key, explained):
        for message, people in launch.held.items():
            held = set(people) - known.sent.get(message, set()) - known.unresolved.get(message, set())
            for shelf in (known.unresolved, known.unexplained):
                shelf.setdefault(message, set()).update(held)


def open_told_key(identity: Identity) -> FingerprintKey | None:
    """Return the key of people that only files hold; None if there are none."""
    if not identity.held or not identity.state_key:
        return None
    return FingerprintKey.from_secret(identity.state_key)


def iterate_holds(connection: Connection, target: str) -> Iterator[Entry]:
    """Yield the holds of a target, in the order of the file."""
    query = select(told_holds.c.entry).where(told_holds.c.target == target)
    found = [json.loads(text) for text in connection.execute(query).scalars()]
    holding = select(launches.c.campaign_id).where(launches.c.state == UNEXPLAINED)
    is_holding = (campaigns.c.target == target) & campaigns.c.id.in_(holding)
    for row in connection.execute(select(campaigns).where(is_holding)).all():
        found += [
            {
                "kind": "hold",
                "at": launch.started_at,
                "campaign": row.name,
                "fingerprints": sorted(people),
                "key_fingerprint": row.key_fingerprint,
                "launch": launch.project_launch_guid,
                "message": message,
                "tag": launch.tag,
                "whole": launch.is_whole,
            }
            for launch in list_unexplained(connection, row.id)
            for message, people in launch.held.items()
        ]
    yield from sorted({identify(entry): entry for entry in found}.values(), key=identify)


def _gather(
    entries: Iterable[Entry], identity: Identity, key: FingerprintKey, explained: Collection[str]
) -> Iterator[UnexplainedLaunch]:
    """Yield launches that are still unexplained, each with all its people in the files."""
    held: dict[str, dict[str, set[str]]] = {}
    told: dict[str, Entry] = {}
    for entry in entries:
        # Fingerprints of another key match nobody: the service's list shows these launches again.
        if entry["key_fingerprint"] != key.name or normalize_guid(entry["launch"]) in explained:
            continue
        message = identity.message_ids.get(entry["message"], entry["message"])
        people = held.setdefault(entry["launch"], {}).setdefault(message, set())
        people.update(entry["fingerprints"])
        told[entry["launch"]] = entry
    for guid, entry in told.items():
        yield UnexplainedLaunch(guid, entry["tag"], entry["at"], {}, held[guid], entry["whole"])
