"""What is on record of one campaign, as counts and digests: for records too large to be held at once.

Ledger and lockfile are taken together as in `runner.ledger.record`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.containment import require_contained
from runner.ledger.deliveries import read_guids
from runner.ledger.filling import fill_ledger, find_entry
from runner.ledger.forgotten import read_forgotten
from runner.ledger.key import choose_key, find_held_key
from runner.ledger.lockfiles import all_forgotten, all_launches, list_merged, read_lockfiles, stamp_lockfiles
from runner.ledger.message_names import require_current_ids
from runner.ledger.recorded import SummedRecord
from runner.ledger.summary import RecordSummary, summarize_deliveries

if TYPE_CHECKING:
    from pathlib import Path

    from runner.ledger.database import Ledger
    from runner.ledger.identity import Identity
    from runner.ledger.lockfile import Lockfile


def enter_summed_record(ledger: Ledger, identity: Identity, new_salt: str) -> SummedRecord:
    """Return what is on record as `enter_record` does, the deliveries as counts and digests.

    Args:
        ledger: open, with its tables.
        identity: the campaign on its target.
        new_salt: as for `enter_record`.

    Raises:
        LockfileError: as for `read_record`, or the state is kept on a git remote.
        LedgerError: the ledger cannot be written.
    """
    _refuse_shared(identity)
    stamps = stamp_lockfiles(identity)
    lockfiles = read_lockfiles(identity)
    with ledger.writing() as connection:
        filled = fill_ledger(connection, identity, lockfiles, new_salt)
        summary = summarize_deliveries(connection, filled.campaign_id, left_out=filled.forgotten)
    head = filled.describe(lockfiles, stamps)
    return SummedRecord(**head, summary=summary, forgotten=frozenset(filled.forgotten))


def read_summed_record(ledger: Ledger | None, identity: Identity) -> SummedRecord:
    """Return what the ledger says, the deliveries as counts and digests, and write nothing.

    Args:
        ledger: open; None if there is none yet.
        identity: the campaign on its target.

    Raises:
        LockfileError: as for `read_record`; or the lockfile knows launches that the ledger doesn't: what
            asks the ledger for people one by one would take theirs for new; or the state is kept on a git
            remote.
        LedgerError: the ledger cannot be read.
    """
    _refuse_shared(identity)
    lockfiles = read_lockfiles(identity)
    entry, entered = None, set[str]()
    summary, forgotten = RecordSummary(), all_forgotten(lockfiles)
    ids = identity.message_ids
    if ledger is None:
        require_contained(None, None, lockfiles, ids, forgotten)
    else:
        with ledger.reading() as connection:
            entry = find_entry(connection, identity)
            if entry is not None:
                require_current_ids(connection, entry.row.id, ids)
                forgotten = read_forgotten(connection, entry.row.id, forgotten)
                entered = read_guids(connection, entry.row.id) if any(all_launches(lockfiles)) else entered
                summary = summarize_deliveries(connection, entry.row.id, ids, forgotten)
            require_contained(connection, entry.row.id if entry else None, lockfiles, ids, forgotten)
    key = choose_key(identity, lockfiles, entry) or find_held_key(identity, entry)
    _require_filled(identity, lockfiles, entered)
    return SummedRecord(
        campaign_id=entry.row.id if entry else None,
        key=key,
        merged=list_merged(lockfiles),
        summary=summary,
        forgotten=frozenset(forgotten),
    )


def _refuse_shared(identity: Identity) -> None:
    if identity.shared is not None:
        raise LockfileError(
            f"the record of {identity.name} is kept on a git remote, and is too large for it",
            hint="leave out --state-remote: machines that share a ledger need none",
        )


def _require_filled(identity: Identity, lockfiles: dict[Path, Lockfile], entered: set[str]) -> None:
    told = {launch.project_launch_guid for launch in all_launches(lockfiles)}
    if lacking := len(told - entered):
        launches = "a launch" if lacking == 1 else f"{lacking:,} launches"
        raise LockfileError(
            f"the lockfile {identity.lockfile} knows of {launches} that the ledger lacks",
            hint="`runner reconcile` enters them; then run the same command again",
        )
