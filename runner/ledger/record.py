"""What is on record of one campaign on one target: ledger and lockfile taken together.

A ledger that is missing or older than the lockfile is filled from it; the key of the fingerprints
is checked first, because with another key everyone would look new (design: delivery).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from runner.ledger.containment import require_contained
from runner.ledger.deliveries import read_guids, read_known
from runner.ledger.earlier import EarlierMessage, add_recorded, read_earlier
from runner.ledger.filling import fill_ledger, find_entry, refuse_shared_summary
from runner.ledger.forgotten import read_forgotten
from runner.ledger.key import choose_key, find_held_key
from runner.ledger.lockfiles import (
    all_dismissed,
    all_forgotten,
    all_launches,
    list_merged,
    read_lockfiles,
    stamp_lockfiles,
)
from runner.ledger.message_names import require_current_ids
from runner.ledger.model import Known
from runner.ledger.recorded import Record, RecordHead
from runner.ledger.reserved import add_reserved, list_unknown
from runner.ledger.told_holds import add_told, open_told_key
from runner.ledger.unexplained import read_dismissed
from runner.ledger.unsettled import list_claimed
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.identity import Identity
    from runner.ledger.key import Entry
    from runner.ledger.lockfile import Lockfile
    from runner.ledger.model import LaunchRecord


def read_record(ledger: Ledger | None, identity: Identity) -> Record:
    """Return what ledger and lockfile say together, and write nothing.

    Raises:
        LockfileError: the lockfile cannot be read, belongs to another campaign, or has another key.
        LedgerError: the ledger cannot be read.
    """
    lockfiles = read_lockfiles(identity)
    known = Known({}, {})
    reserved = list(identity.shared.reservations) if identity.shared else []
    with _reading(ledger) as connection:
        found = _find(connection, identity, lockfiles)
        if connection is not None:
            reserved = list_unknown(connection, reserved)
            if found.entry is not None:
                known = read_known(connection, found.entry.row.id, identity.message_ids)
    for launch in all_launches(lockfiles):
        known.sent.setdefault(launch.message, set()).update(launch.recipients)
        known.unresolved.get(launch.message, set()).difference_update(launch.recipients)
    add_reserved(known, reserved, identity.message_ids)
    known.forgotten.update(found.forgotten)
    values = found.describe(identity, lockfiles)
    key = values["key"] or open_told_key(identity)
    if identity.held and key is not None:
        add_told(known, identity, key, found.explained | _list_explained(lockfiles))
        values["key"] = key
    return Record(**values, known=known)


def _list_explained(lockfiles: dict[Path, Lockfile]) -> set[str]:
    guids = (launch.project_launch_guid for launch in all_launches(lockfiles))
    return set(map(fold_guid, (*guids, *all_dismissed(lockfiles))))


def read_head(ledger: Ledger | None, identity: Identity) -> RecordHead:
    """Return what ledger and lockfile say together, without the deliveries, and write nothing.

    Raises:
        LockfileError: as for `read_record`.
        LedgerError: the ledger cannot be read.
    """
    lockfiles = read_lockfiles(identity)
    with _reading(ledger) as connection:
        found = _find(connection, identity, lockfiles)
    return RecordHead(**found.describe(identity, lockfiles))


@dataclass(frozen=True, slots=True)
class _Found:
    """A campaign as it was found.

    Attributes:
        entry: how the ledger knows it; None if it doesn't.
        forgotten: the fingerprints of those who asked to be forgotten.
        explained: guids of launches that the ledger has, or that were dismissed in it, as `fold_guid` writes
            them.
    """

    entry: Entry | None
    forgotten: set[str]
    explained: set[str]

    def describe(self, identity: Identity, lockfiles: dict[Path, Lockfile]) -> dict[str, Any]:
        """Return the values of its `RecordHead`."""
        key = choose_key(identity, lockfiles, self.entry) or find_held_key(identity, self.entry)
        return {
            "campaign_id": None if self.entry is None else self.entry.row.id,
            "key": key,
            "merged": list_merged(lockfiles),
        }


def _find(connection: Connection | None, identity: Identity, lockfiles: dict[Path, Lockfile]) -> _Found:
    refuse_shared_summary(identity, lockfiles)
    found = _Found(None, all_forgotten(lockfiles), set())
    entry = None if connection is None else find_entry(connection, identity)
    if connection is not None and entry is not None:
        require_current_ids(connection, entry.row.id, identity.message_ids)
        explained = set(map(fold_guid, read_dismissed(connection, entry.row.id)))
        if identity.held:
            explained |= list_claimed(connection, identity.target)
        found = _Found(entry, read_forgotten(connection, entry.row.id, found.forgotten), explained)
    campaign_id = None if entry is None else entry.row.id
    require_contained(connection, campaign_id, lockfiles, identity.message_ids, found.forgotten)
    return found


def _reading(ledger: Ledger | None) -> AbstractContextManager[Connection | None]:
    return nullcontext() if ledger is None else ledger.reading()


def read_earlier_messages(
    ledger: Ledger | None, identity: Identity, wanted: Collection[str]
) -> dict[str, EarlierMessage]:
    """Return what ledger and lockfile know of messages that others come after.

    Args:
        ledger: open; None if there is none yet.
        identity: the campaign on its target.
        wanted: ids of messages.

    Raises:
        LockfileError: the lockfile cannot be read.
        LedgerError: the ledger cannot be read.
    """
    found = {message: EarlierMessage() for message in wanted}
    if ledger is not None:
        with ledger.reading() as connection:
            entry = find_entry(connection, identity)
            if entry is not None:
                found = read_earlier(connection, entry.row.id, identity.message_ids, wanted)
    add_recorded(found, all_launches(read_lockfiles(identity)))
    return found


def list_unentered(ledger: Ledger | None, identity: Identity) -> list[LaunchRecord]:
    """Return the launches that lockfiles know of and the ledger doesn't.

    Args:
        ledger: open; None if there is none yet.
        identity: the campaign on its target.

    Raises:
        LockfileError: a lockfile cannot be read.
        LedgerError: the ledger cannot be read.
    """
    entered: set[str] = set()
    if ledger is not None:
        with ledger.reading() as connection:
            entry = find_entry(connection, identity)
            entered = read_guids(connection, entry.row.id) if entry is not None else set()
    launches = all_launches(read_lockfiles(identity))
    return [launch for launch in launches if launch.project_launch_guid not in entered]


def find_campaign_id(ledger: Ledger, identity: Identity) -> int | None:
    """Return the ledger's number of a campaign, whatever its lockfile says; None if the ledger has none.

    Raises:
        LedgerError: the ledger cannot be read.
        LockfileError: its names have several records.
    """
    with ledger.reading() as connection:
        entry = find_entry(connection, identity)
    return None if entry is None else entry.row.id


def enter_record(ledger: Ledger, identity: Identity, new_salt: str) -> Record:
    """Return what is on record, after filling the ledger from the lockfile.

    Args:
        ledger: open, with its tables.
        identity: the campaign on its target.
        new_salt: 32 hexadecimal digits, random; used if there is neither a record nor a user's key.

    Raises:
        LockfileError: as for `read_record`.
        LedgerError: the ledger cannot be written.
    """
    stamps = stamp_lockfiles(identity)
    lockfiles = read_lockfiles(identity)
    with ledger.writing() as connection:
        filled = fill_ledger(connection, identity, lockfiles, new_salt)
        known = replace(read_known(connection, filled.campaign_id), forgotten=filled.forgotten)
    return Record(**filled.describe(lockfiles, stamps), known=known)


def enter_head(ledger: Ledger, identity: Identity, new_salt: str) -> RecordHead:
    """Return what is on record as `enter_record` does, without the deliveries.

    Args:
        ledger: as for `enter_record`.
        identity: the campaign on its target.
        new_salt: as for `enter_record`.

    Raises:
        LockfileError: as for `read_record`.
        LedgerError: the ledger cannot be written.
    """
    stamps = stamp_lockfiles(identity)
    lockfiles = read_lockfiles(identity)
    with ledger.writing() as connection:
        filled = fill_ledger(connection, identity, lockfiles, new_salt)
    return RecordHead(**filled.describe(lockfiles, stamps))


def is_overtaken(record: RecordHead, identity: Identity) -> bool:
    """Return whether lockfiles have been changed since the record was entered: by git, or by hand."""
    return record.stamps != stamp_lockfiles(identity)
