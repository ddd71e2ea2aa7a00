"""What is on record of one campaign on one target: ledger and lockfile taken together.

A ledger that is missing or older than the lockfile is filled from it; the key of the fingerprints
is checked first, because with another key everyone would look new (design: delivery).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.database import exclude_others
from runner.ledger.deliveries import enter_campaign, find_campaign, iterate_accepted, read_known
from runner.ledger.entry import absorb_launches
from runner.ledger.key import Entry, choose_key, keeps_salt, make_key, several_records
from runner.ledger.lockfile import Lockfile, read_lockfile, write_lockfile
from runner.ledger.message_names import rename_messages, require_current_ids
from runner.ledger.model import Known
from runner.ledger.renaming import enter_first_name, find_first_name, find_recorded_names, rename_campaign

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.identity import Identity
    from runner.ledger.model import LaunchRecord


Stamps = dict["Path", tuple[int, int, int]]


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
    lockfiles = _read_lockfiles(identity)
    entry = None
    known = Known({}, {})
    if ledger is not None:
        with ledger.reading() as connection:
            entry = _find_entry(connection, identity)
            if entry is not None:
                require_current_ids(connection, entry.row.id, identity.message_ids)
                known = read_known(connection, entry.row.id, identity.message_ids)
    key = choose_key(identity, lockfiles, entry)
    for launch in _all_launches(lockfiles):
        known.sent.setdefault(launch.message, set()).update(launch.recipients)
        known.unresolved.get(launch.message, set()).difference_update(launch.recipients)
    campaign_id = entry.row.id if entry else None
    return Record(campaign_id, key, known, keeps_salt(identity, key), _merged(lockfiles))


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
    stamps = _stamp_lockfiles(identity)
    lockfiles = _read_lockfiles(identity)
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
        absorb_launches(connection, campaign_id, _all_launches(lockfiles))
        known = read_known(connection, campaign_id)
    return Record(campaign_id, key, known, keeps_salt(identity, key), _merged(lockfiles), stamps)


def is_overtaken(record: Record, identity: Identity) -> bool:
    """Return whether lockfiles have been changed since the record was entered: by git, or by hand."""
    return record.stamps != _stamp_lockfiles(identity)


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

    Returns:
        Whether the file has changed.

    Raises:
        LockfileError: it cannot be written.
    """
    if record.campaign_id is None or record.key is None:
        return False
    first_name = record.key.lasting_name(identity.name)
    launches = iterate_accepted(connection, record.campaign_id, first_name)
    first = next(launches, None)
    if first is None:
        return False
    return write_lockfile(
        identity.lockfile, identity.name, identity.target, record.key, chain([first], launches)
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


def _read_lockfiles(identity: Identity) -> dict[Path, Lockfile]:
    """Return the campaign's lockfile, and those of its old names that stand beside it."""
    lockfiles = {}
    for file in _lockfile_places(identity):
        lockfile = read_lockfile(file, identity.names, identity.message_ids)
        # A campaign file may have had an old name whose campaign never had it.
        if lockfile is not None and (file == identity.lockfile or lockfile.campaign in identity.names):
            _require_own(identity, file, lockfile)
            lockfiles[file] = lockfile
    return lockfiles


def _lockfile_places(identity: Identity) -> list[Path]:
    own = identity.lockfile
    old = [own.with_name(f"{name}.{identity.target}.lock.json") for name in identity.names[1:]]
    return list(dict.fromkeys([own, *old]))


def _stamp_lockfiles(identity: Identity) -> Stamps:
    stamps = {}
    for file in _lockfile_places(identity):
        with suppress(FileNotFoundError):
            status = file.stat()
            stamps[file] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return stamps


def _require_own(identity: Identity, file: Path, lockfile: Lockfile) -> None:
    if lockfile.campaign not in identity.names:
        raise LockfileError(
            f"the lockfile {file} is of the campaign {lockfile.campaign!r}, not {identity.name!r}",
            hint="with a new name everyone would be texted again: put the old one back, or, if the campaign "
            f"was renamed, add `renamed_from: [{lockfile.campaign}]` to it",
        )
    if lockfile.target != identity.target:
        raise LockfileError(
            f"the lockfile {file} is of the target {lockfile.target!r}, not {identity.target!r}",
            hint="targets' names are for good, with a new one everyone would be texted again: put it back",
        )


def _all_launches(lockfiles: dict[Path, Lockfile]) -> Iterator[LaunchRecord]:
    return chain.from_iterable(lockfile.launches for lockfile in lockfiles.values())


def _merged(lockfiles: dict[Path, Lockfile]) -> tuple[Path, ...]:
    return tuple(file for file, lockfile in lockfiles.items() if lockfile.is_merged)
