"""Enters a campaign into the ledger, and fills the ledger from its lockfiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from runner.errors import LockfileError
from runner.ledger.checksum import leave_out
from runner.ledger.containment import require_contained
from runner.ledger.database import exclude_others
from runner.ledger.deliveries import enter_campaign, find_campaign
from runner.ledger.entry import absorb_launches
from runner.ledger.forgotten import absorb_forgotten, read_forgotten
from runner.ledger.key import Entry, choose_key, make_key, several_records
from runner.ledger.lockfiles import all_dismissed, all_forgotten, all_launches, all_runs, list_merged
from runner.ledger.marks import mark_launches, renew_marks
from runner.ledger.message_names import rename_messages, require_current_ids
from runner.ledger.renaming import enter_first_name, find_first_name, find_recorded_names, rename_campaign
from runner.ledger.reserved import absorb_reservations
from runner.ledger.runs import enter_runs
from runner.ledger.told_holds import take_told
from runner.ledger.unexplained import dismiss_launches, drop_unexplained

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.identity import Identity
    from runner.ledger.lockfile import Lockfile
    from runner.ledger.lockfiles import Stamps


@dataclass(frozen=True, slots=True)
class Filled:
    """A campaign that is entered, with all that its lockfiles tell.

    Attributes:
        campaign_id: the ledger's number of it.
        key: the key of its fingerprints.
        forgotten: the fingerprints of those who asked to be forgotten.
    """

    campaign_id: int
    key: FingerprintKey
    forgotten: set[str]

    def describe(self, lockfiles: dict[Path, Lockfile], stamps: Stamps) -> dict[str, Any]:
        """Return the values of the `RecordHead` of what is entered."""
        return {
            "campaign_id": self.campaign_id,
            "key": self.key,
            "merged": list_merged(lockfiles),
            "stamps": stamps,
        }


def find_entry(connection: Connection, identity: Identity) -> Entry | None:
    """Return how the ledger knows a campaign, under any of its names; None if it doesn't.

    Raises:
        LockfileError: its names have several records.
    """
    found = find_recorded_names(connection, identity.target, identity.names)
    if len(found) > 1:
        raise several_records(identity, found)
    if not found:
        row = find_campaign(connection, identity.target, identity.name)
        if row is not None and row.salt is not None and identity.state_key is not None:
            # Whoever was forgotten under the salt would be another under the key.
            row = replace(row, has_launches=bool(read_forgotten(connection, row.id)))
        return None if row is None else Entry(identity.name, row, identity.name)
    ((name, row),) = found.items()
    return Entry(name, row, find_first_name(connection, row.id) or name)


def refuse_shared_summary(identity: Identity, lockfiles: dict[Path, Lockfile]) -> None:
    """Make sure that a record that is summed up is not kept on a git remote.

    Raises:
        LockfileError: it would be: machines with ledgers of their own cannot fill them from sums.
    """
    is_summary = identity.keeps_summary or any(one.is_summary for one in lockfiles.values())
    if identity.shared is not None and is_summary:
        raise LockfileError(
            f"the lockfile of {identity.name} is a summary, which cannot be shared on a git remote",
            hint="leave out --state-remote and let all machines use one ledger (RUNNER_LEDGER); or keep all "
            "launches in the lockfile: `lockfile: full`",
        )


def fill_ledger(
    connection: Connection, identity: Identity, lockfiles: dict[Path, Lockfile], new_salt: str
) -> Filled:
    """Enter a campaign, and what its lockfiles know and the ledger doesn't.

    Args:
        connection: commits after this.
        identity: the campaign on its target.
        lockfiles: its lockfiles, by file.
        new_salt: 32 hexadecimal digits, random; used if there is neither a record nor a user's key.

    Raises:
        LockfileError: lockfiles and ledger don't go together.
    """
    refuse_shared_summary(identity, lockfiles)
    exclude_others(connection)
    entry = find_entry(connection, identity)
    key = choose_key(identity, lockfiles, entry)
    if key is None:
        key = make_key(identity, entry, new_salt)
    campaign_id = _enter(connection, identity, entry, key)
    require_current_ids(connection, campaign_id, identity.message_ids)
    first_name = key.lasting_name(identity.name)
    told = read_forgotten(connection, campaign_id, all_forgotten(lockfiles))
    require_contained(connection, campaign_id, lockfiles, identity.message_ids, told)
    rename_messages(connection, campaign_id, first_name, identity.message_ids)
    forgotten = absorb_forgotten(connection, campaign_id, first_name, all_forgotten(lockfiles))
    remembered = (leave_out(one, forgotten, first_name) for one in all_launches(lockfiles))
    enter_runs(connection, all_runs(lockfiles))
    dismiss_launches(connection, campaign_id, all_dismissed(lockfiles))
    is_new = absorb_launches(connection, campaign_id, remembered, identity.surveys)
    take_told(connection, identity, campaign_id, key)
    if is_new:
        renew_marks(connection, campaign_id)
    if identity.keeps_summary:
        mark_launches(connection, campaign_id)
    if identity.shared is not None and identity.shared.is_held:
        reserved, ids = identity.shared.reservations, identity.message_ids
        absorb_reservations(connection, campaign_id, first_name, reserved, ids)
    return Filled(campaign_id, key, forgotten)


def _enter(connection: Connection, identity: Identity, entry: Entry | None, key: FingerprintKey) -> int:
    if entry is None or not entry.row.has_launches:
        campaign_id = enter_campaign(connection, identity.target, identity.name, key)
        if entry is not None and entry.row.key_fingerprint != key.name:
            # Under another key those who are held would be others: the next preflight finds them again.
            drop_unexplained(connection, campaign_id)
    else:
        campaign_id = entry.row.id
        if entry.name != identity.name:
            rename_campaign(connection, identity.target, campaign_id, identity.name)
    if key.first_name is not None:
        enter_first_name(connection, campaign_id, key.first_name)
    return campaign_id
