"""What is on record of one campaign on one target: ledger and lockfile taken together.

A ledger that is missing or older than the lockfile is filled from it; the key of the fingerprints
is checked first, because with another key everyone would look new (design: delivery).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from runner.ledger.checksum import leave_out
from runner.ledger.database import exclude_others
from runner.ledger.deliveries import (
    enter_campaign,
    find_campaign,
    read_guids,
    read_known,
)
from runner.ledger.earlier import EarlierMessage, add_recorded, read_earlier
from runner.ledger.entry import absorb_launches
from runner.ledger.forgotten import absorb_forgotten, iterate_remembered, read_forgotten
from runner.ledger.key import Entry, choose_key, keeps_salt, make_key, several_records
from runner.ledger.lockfile_writer import LockfileContents, dump_lockfile, write_lockfile
from runner.ledger.lockfiles import (
    Stamps,
    all_forgotten,
    all_launches,
    all_runs,
    list_merged,
    read_lockfiles,
    stamp_lockfiles,
)
from runner.ledger.message_names import rename_messages, require_current_ids
from runner.ledger.model import Known
from runner.ledger.renaming import enter_first_name, find_first_name, find_recorded_names, rename_campaign
from runner.ledger.reserved import absorb_reservations, add_reserved, list_unknown
from runner.ledger.runs import enter_runs, read_runs

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.identity import Identity
    from runner.ledger.model import LaunchRecord


@dataclass(frozen=True, slots=True)
class Record:
    """What is on record.

    Attributes:
        campaign_id: the ledger's number of the campaign; None if the ledger doesn't know it.
        key: the key of the fingerprints; None if nothing is on record yet.
        known: the deliveries.
        uses_salt_despite_key: whether the record keeps its salt although the user has set a key.
        merged: lockfiles that git has put together from two branches': they are to be written anew.
        stamps: tells the lockfiles that were read from others that may take their places.
    """

    campaign_id: int | None
    key: FingerprintKey | None
    known: Known
    uses_salt_despite_key: bool = False
    merged: tuple[Path, ...] = ()
    stamps: Stamps = field(default_factory=dict)

    def is_unclear(self) -> bool:
        """Return whether there are deliveries that may or may not have been made."""
        return any(self.known.unresolved.values())

    def require_entered(self) -> tuple[int, FingerprintKey]:
        """Return the ledger's number and the key of a campaign that `enter_record` has entered.

        Raises:
            ValueError: it was only read.
        """
        if self.campaign_id is None or self.key is None:
            raise ValueError("this record was only read")
        return self.campaign_id, self.key


def read_record(ledger: Ledger | None, identity: Identity) -> Record:
    """Return what ledger and lockfile say together, and write nothing.

    Raises:
        LockfileError: the lockfile cannot be read, belongs to another campaign, or has another key.
        LedgerError: the ledger cannot be read.
    """
    lockfiles = read_lockfiles(identity)
    entry = None
    known, told = Known({}, {}), all_forgotten(lockfiles)
    reserved = list(identity.shared.reservations) if identity.shared else []
    if ledger is not None:
        with ledger.reading() as connection:
            reserved = list_unknown(connection, reserved)
            entry = _find_entry(connection, identity)
            if entry is not None:
                require_current_ids(connection, entry.row.id, identity.message_ids)
                known = read_known(connection, entry.row.id, identity.message_ids)
                told = read_forgotten(connection, entry.row.id, told)
    key = choose_key(identity, lockfiles, entry)
    for launch in all_launches(lockfiles):
        known.sent.setdefault(launch.message, set()).update(launch.recipients)
        known.unresolved.get(launch.message, set()).difference_update(launch.recipients)
    add_reserved(known, reserved, identity.message_ids)
    known.forgotten.update(told)
    campaign_id = entry.row.id if entry else None
    return Record(campaign_id, key, known, keeps_salt(identity, key), list_merged(lockfiles))


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
            entry = _find_entry(connection, identity)
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
            entry = _find_entry(connection, identity)
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
        entry = _find_entry(connection, identity)
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
        exclude_others(connection)
        entry = _find_entry(connection, identity)
        key = choose_key(identity, lockfiles, entry)
        if key is None:
            key = make_key(identity, entry, new_salt)
        campaign_id = _enter(connection, identity, entry, key)
        require_current_ids(connection, campaign_id, identity.message_ids)
        first_name = key.lasting_name(identity.name)
        rename_messages(connection, campaign_id, first_name, identity.message_ids)
        forgotten = absorb_forgotten(connection, campaign_id, first_name, all_forgotten(lockfiles))
        remembered = (leave_out(one, forgotten, first_name) for one in all_launches(lockfiles))
        enter_runs(connection, all_runs(lockfiles))
        absorb_launches(connection, campaign_id, remembered)
        if identity.shared is not None and identity.shared.is_held:
            told, ids = identity.shared.reservations, identity.message_ids
            absorb_reservations(connection, campaign_id, first_name, told, ids)
        known = replace(read_known(connection, campaign_id), forgotten=forgotten)
    return Record(campaign_id, key, known, keeps_salt(identity, key), list_merged(lockfiles), stamps)


def is_overtaken(record: Record, identity: Identity) -> bool:
    """Return whether lockfiles have been changed since the record was entered: by git, or by hand."""
    return record.stamps != stamp_lockfiles(identity)


def _enter(connection: Connection, identity: Identity, entry: Entry | None, key: FingerprintKey) -> int:
    if entry is None or not entry.row.has_launches:
        campaign_id = enter_campaign(connection, identity.target, identity.name, key)
    else:
        campaign_id = entry.row.id
        if entry.name != identity.name:
            rename_campaign(connection, identity.target, campaign_id, identity.name)
    if key.first_name is not None:
        enter_first_name(connection, campaign_id, key.first_name)
    return campaign_id


def refresh_lockfile(connection: Connection, identity: Identity, record: Record) -> bool:
    """Write the lockfile from the ledger, if anything was sent.

    Args:
        connection: reads the ledger.
        identity: the campaign on its target; says where the lockfile stands.
        record: as it was entered.

    Returns:
        Whether the file has changed.

    Raises:
        LockfileError: it cannot be written.
    """
    contents = _gather_contents(connection, identity, record, keeps_empty=False)
    return contents is not None and write_lockfile(identity.lockfile, *contents)


def compose_lockfile(
    connection: Connection, identity: Identity, record: Record, *, is_needed: bool
) -> str | None:
    """Return the text of the lockfile as of now, for another place than its own; None if there would be none.

    Args:
        connection: reads the ledger.
        identity: the campaign on its target.
        record: as it was entered.
        is_needed: whether it is needed also if nothing was sent: for the key that it names.
    """
    contents = _gather_contents(connection, identity, record, keeps_empty=is_needed)
    return None if contents is None else dump_lockfile(contents)


def _gather_contents(
    connection: Connection, identity: Identity, record: Record, *, keeps_empty: bool
) -> LockfileContents | None:
    if record.campaign_id is None or record.key is None:
        return None
    first_name = record.key.lasting_name(identity.name)
    launches = iterate_remembered(connection, record.campaign_id, first_name)
    first = next(launches, None)
    if first is None and not keeps_empty:
        return None
    return LockfileContents(
        identity.name,
        identity.target,
        record.key,
        launches if first is None else chain([first], launches),
        read_forgotten(connection, record.campaign_id),
        read_runs(connection, record.campaign_id),
    )


def _find_entry(connection: Connection, identity: Identity) -> Entry | None:
    found = find_recorded_names(connection, identity.target, identity.names)
    if len(found) > 1:
        raise several_records(identity, found)
    if not found:
        row = find_campaign(connection, identity.target, identity.name)
        return None if row is None else Entry(identity.name, row, identity.name)
    ((name, row),) = found.items()
    return Entry(name, row, find_first_name(connection, row.id) or name)
