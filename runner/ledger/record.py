"""What is on record of one campaign on one target: ledger and lockfile taken together.

A ledger that is missing or older than the lockfile is filled from it; the key of the fingerprints
is checked first, because with another key everyone would look new (design: delivery).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runner.ledger.containment import require_contained
from runner.ledger.deliveries import read_guids, read_known
from runner.ledger.earlier import EarlierMessage, add_recorded, read_earlier
from runner.ledger.filling import fill_ledger, find_entry, refuse_shared_summary
from runner.ledger.forgotten import read_forgotten
from runner.ledger.key import choose_key, find_held_key, keeps_salt
from runner.ledger.lockfiles import all_forgotten, all_launches, list_merged, read_lockfiles, stamp_lockfiles
from runner.ledger.message_names import require_current_ids
from runner.ledger.model import Known
from runner.ledger.recorded import Record
from runner.ledger.reserved import add_reserved, list_unknown

if TYPE_CHECKING:
    from collections.abc import Collection

    from runner.ledger.database import Ledger
    from runner.ledger.identity import Identity
    from runner.ledger.model import LaunchRecord
    from runner.ledger.recorded import RecordHead


def read_record(ledger: Ledger | None, identity: Identity) -> Record:
    """Return what ledger and lockfile say together, and write nothing.

    Raises:
        LockfileError: the lockfile cannot be read, belongs to another campaign, or has another key.
        LedgerError: the ledger cannot be read.
    """
    lockfiles = read_lockfiles(identity)
    refuse_shared_summary(identity, lockfiles)
    entry = None
    known, told = Known({}, {}), all_forgotten(lockfiles)
    reserved = list(identity.shared.reservations) if identity.shared else []
    if ledger is not None:
        with ledger.reading() as connection:
            reserved = list_unknown(connection, reserved)
            entry = find_entry(connection, identity)
            if entry is not None:
                require_current_ids(connection, entry.row.id, identity.message_ids)
                known = read_known(connection, entry.row.id, identity.message_ids)
                told = read_forgotten(connection, entry.row.id, told)
            require_contained(
                connection, entry.row.id if entry else None, lockfiles, identity.message_ids, told
            )
    else:
        require_contained(None, None, lockfiles, identity.message_ids, told)
    key = choose_key(identity, lockfiles, entry) or find_held_key(identity, entry)
    for launch in all_launches(lockfiles):
        known.sent.setdefault(launch.message, set()).update(launch.recipients)
        known.unresolved.get(launch.message, set()).difference_update(launch.recipients)
    add_reserved(known, reserved, identity.message_ids)
    known.forgotten.update(told)
    campaign_id = entry.row.id if entry else None
    return Record(
        campaign_id=campaign_id,
        key=key,
        known=known,
        uses_salt_despite_key=keeps_salt(identity, key),
        merged=list_merged(lockfiles),
    )


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
    return Record(**filled.describe(identity, lockfiles, stamps), known=known)


def is_overtaken(record: RecordHead, identity: Identity) -> bool:
    """Return whether lockfiles have been changed since the record was entered: by git, or by hand."""
    return record.stamps != stamp_lockfiles(identity)
