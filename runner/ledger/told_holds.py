"""People who are held because of launches that no record explains: what machines tell each other of them.

The service lists such launches to every machine. But a list that lacks one that it once showed sets nobody
free, and only the ledger that saw it knows. What a file of suppressions tells waits until the campaign is
entered. Once a lockfile names the launch, as sent or as dismissed, the entry counts no more.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, inspect, select

from runner.ledger.bulk import BulkStatement
from runner.ledger.database import insert_into
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.suppression_file import Entry, identify
from runner.ledger.tables import campaigns, launches, told_holds
from runner.ledger.unexplained import UnexplainedLaunch, hold_people, list_unexplained, read_dismissed
from runner.ledger.unsettled import UNEXPLAINED, list_claimed
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from runner.ledger.identity import Identity
    from runner.ledger.model import Known

_DIGEST_SIZE = 16
_KEEP = BulkStatement(
    lambda connection: insert_into(connection, told_holds).on_conflict_do_nothing(
        index_elements=[column.name for column in told_holds.primary_key]
    ),
    [column.name for column in told_holds.c],
)


def keep_told(connection: Connection, target: str, entries: Iterable[Entry]) -> None:
    """Keep what a file tells until the campaigns are entered.

    Args:
        connection: commits after this.
        target: the target's name.
        entries: of the kind `hold`, without what the ledger itself has seen.
    """
    known = list_claimed(connection, target, explained_only=False)
    rows = []
    for entry in entries:
        if fold_guid(entry["launch"]) not in known:
            text = json.dumps(
                {name: value for name, value in entry.items() if name != "seal"}, sort_keys=True
            )
            digest = hashlib.blake2b(text.encode(), digest_size=_DIGEST_SIZE).hexdigest()
            rows.append({"target": target, "campaign": entry["campaign"], "digest": digest, "entry": text})
    if rows:
        _KEEP.run(connection, rows)


def take_told(connection: Connection, identity: Identity, campaign_id: int, key: FingerprintKey) -> None:
    """Hold the people of whom files have told, once: from now on this ledger says what becomes of them.

    Args:
        connection: commits after this.
        identity: the campaign, which is entered with all that its lockfiles tell.
        campaign_id: the ledger's number of it.
        key: of its fingerprints.
    """
    is_own = (told_holds.c.target == identity.target) & told_holds.c.campaign.in_(identity.names)
    texts = connection.execute(select(told_holds.c.entry).where(is_own)).scalars().all()
    if not texts:
        return
    connection.execute(delete(told_holds).where(is_own))
    explained = list_claimed(connection, identity.target, explained_only=False)
    explained |= set(map(fold_guid, read_dismissed(connection, campaign_id)))
    for launch in _gather(map(json.loads, texts), identity, key, explained):
        hold_people(connection, campaign_id, launch)


def add_told(
    known: Known,
    identity: Identity,
    key: FingerprintKey,
    explained: Collection[str],
) -> None:
    """Add the people of whom files tell to what is known of a campaign, where nothing may be written.

    Args:
        known: the campaign's deliveries.
        identity: the campaign, with what files tell of it.
        key: of its fingerprints.
        explained: guids of launches that are on record, or dismissed, as `fold_guid` writes them.
    """
    for launch in _gather(identity.held, identity, key, explained):
        for message, people in launch.held.items():
            held = set(people) - known.sent.get(message, set()) - known.unresolved.get(message, set())
            for shelf in (known.unresolved, known.unexplained):
                shelf.setdefault(message, set()).update(held)


def open_told_key(identity: Identity) -> FingerprintKey | None:
    """Return the key of the people of whom files tell and no record does; None if there are none."""
    if not identity.held or not identity.state_key:
        return None
    return FingerprintKey.from_secret(identity.state_key)


def iterate_holds(connection: Connection, target: str) -> Iterator[Entry]:
    """Yield what there is to tell of a target, in the order of the file.

    Args:
        connection: reads the ledger, which may be of an older version.
        target: the target's name.
    """
    if not inspect(connection).has_table(told_holds.name):
        return
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
    """Yield launches that are still to be explained, each with all of whom files tell."""
    held: dict[str, dict[str, set[str]]] = {}
    told: dict[str, Entry] = {}
    for entry in entries:
        # Under another key they would be others: the service's list shows them again.
        if entry["key_fingerprint"] != key.name or fold_guid(entry["launch"]) in explained:
            continue
        message = identity.message_ids.get(entry["message"], entry["message"])
        people = held.setdefault(entry["launch"], {}).setdefault(message, set())
        people.update(entry["fingerprints"])
        told[entry["launch"]] = entry
    for guid, entry in told.items():
        yield UnexplainedLaunch(guid, entry["tag"], entry["at"], {}, held[guid], entry["whole"])
