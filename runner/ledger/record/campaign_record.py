"""The record of one campaign on one target, from ledger and lockfile together.

A ledger that is missing or older than the lockfile is filled from it. The key of the fingerprints is checked
first, because with another key everyone would look new (docs/delivery.md). Records without a state key have a
salt for a key. With a state key, a salt counts only if that key has signed it: people who can change a record
could choose a salt, and so the people who seem to have been texted.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.errors import LedgerError, LockfileError, MissingKeyError
from runner.ledger.database import exclude_others
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile.checkpoints import add_checkpoints, renew_checkpoints, require_coverage
from runner.ledger.lockfile.integrity import leave_out
from runner.ledger.lockfile.lockfiles import (
    all_dismissed,
    all_forgotten,
    all_launches,
    all_runs,
    list_merged,
    read_lockfiles,
    stamp_lockfiles,
)
from runner.ledger.model import RecordedDeliveries
from runner.ledger.people.earlier import EarlierMessage, add_recorded, read_earlier
from runner.ledger.people.forgotten import absorb_forgotten, read_forgotten
from runner.ledger.record.deliveries import enter_campaign, find_campaign, read_guids, read_known
from runner.ledger.record.entry import absorb_launches
from runner.ledger.record.recorded import CampaignRecord, Record, RecordSummary, summarize_deliveries
from runner.ledger.record.renaming import (
    enter_first_name,
    find_first_name,
    find_recorded_names,
    rename_campaign,
    rename_messages,
    require_current_ids,
)
from runner.ledger.record.reservations import absorb_reservations, add_reserved, list_unknown
from runner.ledger.record.unexplained import (
    add_told,
    dismiss_launches,
    open_told_key,
    read_dismissed,
    take_told,
)
from runner.ledger.record.unsettled import drop_unexplained, list_claimed
from runner.ledger.results.runs import enter_runs
from runner.ledger.results.sendings import note_behind
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.lockfile.format import Lockfile
    from runner.ledger.model import CampaignRow, LaunchRecord
    from runner.ledger.record.recorded import Identity


def read_record(ledger: Ledger | None, identity: Identity, *, counts_only: bool = False) -> Record:
    """Return the record of ledger (None if there is none yet) and lockfile, and write nothing.

    With `counts_only`, only counts and digests of the deliveries are read.

    Raises:
        LockfileError: the lockfile is invalid, of another campaign, or has another key. With
            `counts_only` also: the state is on a git remote, or the ledger lacks launches of the
            lockfile, whose people it would take for new.
        LedgerError: the ledger cannot be read.
    """
    return _read_counts(ledger, identity) if counts_only else _read_people(ledger, identity)


def _read_people(ledger: Ledger | None, identity: Identity) -> Record:
    known = RecordedDeliveries({}, {})
    reserved = list(identity.shared.reservations) if identity.shared else []
    with _finding(ledger, identity) as (connection, found):
        if connection is not None:
            reserved = list_unknown(connection, reserved)
            if found.entry is not None:
                known = read_known(connection, found.entry.row.id, identity.message_ids)
    for launch in all_launches(found.lockfiles):
        known.sent.setdefault(launch.message, set()).update(launch.recipients)
        known.unresolved.get(launch.message, set()).difference_update(launch.recipients)
    add_reserved(known, reserved, identity.message_ids)
    known.forgotten.update(found.forgotten)
    head = found.describe()
    key = head.key or open_told_key(identity)
    if identity.held and key is not None:
        add_told(known, identity, key, found.explained | _list_explained(found.lockfiles))
        head = replace(head, key=key)
    return head.with_deliveries(known)


def _read_counts(ledger: Ledger | None, identity: Identity) -> Record:
    _refuse_shared(identity)
    summary = RecordSummary()
    with _finding(ledger, identity) as (connection, found):
        lacking = found.count_lacking(connection)
        if connection is not None and found.entry is not None:
            ids = identity.message_ids
            summary = summarize_deliveries(connection, found.entry.row.id, ids, found.forgotten)
    head = found.describe()
    if lacking:
        raise LockfileError(
            f"the lockfile {identity.lockfile} knows of {_name_launches(lacking)} that the ledger lacks",
            hint="`runner reconcile` enters them; then run the same command again",
        )
    return head.with_deliveries(replace(summary, forgotten=frozenset(found.forgotten)))


def _name_launches(count: int) -> str:
    return "a launch" if count == 1 else f"{count:,} launches"


def _refuse_shared(identity: Identity) -> None:
    if identity.shared is not None:
        raise LockfileError(
            f"the record of {identity.name} is kept on a git remote, and is too large for it",
            hint="leave out --state-remote: machines that share a ledger need none",
        )


def _list_explained(lockfiles: dict[Path, Lockfile]) -> set[str]:
    guids = (launch.project_launch_guid for launch in all_launches(lockfiles))
    return set(map(normalize_guid, (*guids, *all_dismissed(lockfiles))))


def read_head(ledger: Ledger | None, identity: Identity) -> CampaignRecord:
    """Return the record without the deliveries, and write nothing.

    Raises:
        LockfileError: as for `read_record`.
        LedgerError: the ledger cannot be read.
    """
    with _finding(ledger, identity) as (_, found):
        return found.describe()


def read_filled_head(ledger: Ledger | None, identity: Identity) -> CampaignRecord:
    """Return what `read_head` does, of a campaign whose launches are all in the ledger.

    Raises:
        LockfileError: as for `read_record`.
        LedgerError: the ledger cannot be read, or lacks launches of the lockfiles.
    """
    with _finding(ledger, identity) as (connection, found):
        lacking = found.count_lacking(connection)
    if lacking:
        raise LedgerError(
            f"the ledger lacks {_name_launches(lacking)} of {identity.name} that its lockfile has"
            if found.entry is not None
            else f"the ledger has nothing of {identity.name}, and its lockfile has people who were texted",
            hint="run `runner report --reconcile`, which fills the ledger and reads the answers",
        )
    return found.describe()


@dataclass(frozen=True, slots=True)
class _Found:
    """A campaign as found in the ledger (`entry`; None if it isn't there) and in the lockfiles.

    `explained` has the guids of launches that are recorded or dismissed, written as by `normalize_guid`.
    """

    identity: Identity
    lockfiles: dict[Path, Lockfile]
    entry: _Entry | None
    forgotten: set[str]
    explained: set[str]

    def describe(self) -> CampaignRecord:
        """Return the record without the deliveries."""
        key = _choose_key(self.identity, self.lockfiles, self.entry)
        return CampaignRecord(
            campaign_id=None if self.entry is None else self.entry.row.id,
            key=key or _find_held_key(self.identity, self.entry),
            merged=list_merged(self.lockfiles),
        )

    def count_lacking(self, connection: Connection | None) -> int:
        """Return the number of launches of lockfiles that the ledger lacks."""
        told = {one.project_launch_guid for one in all_launches(self.lockfiles)}
        if told and connection is not None and self.entry is not None:
            told -= read_guids(connection, self.entry.row.id)
        return len(told)


@contextmanager
def _finding(ledger: Ledger | None, identity: Identity) -> Iterator[tuple[Connection | None, _Found]]:
    """Yield a connection to the ledger, if there is one, and the campaign as found."""
    lockfiles = read_lockfiles(identity)
    with nullcontext() if ledger is None else ledger.reading() as connection:
        yield connection, _find(connection, identity, lockfiles)


def _find(connection: Connection | None, identity: Identity, lockfiles: dict[Path, Lockfile]) -> _Found:
    _refuse_shared_summary(identity, lockfiles)
    forgotten, explained = all_forgotten(lockfiles), set[str]()
    entry = None if connection is None else _find_entry(connection, identity)
    if connection is not None and entry is not None:
        require_current_ids(connection, entry.row.id, identity.message_ids)
        explained = set(map(normalize_guid, read_dismissed(connection, entry.row.id)))
        if identity.held:
            explained |= list_claimed(connection, identity.target)
        forgotten = read_forgotten(connection, entry.row.id, forgotten)
    campaign_id = None if entry is None else entry.row.id
    require_coverage(connection, campaign_id, lockfiles, identity.message_ids, forgotten)
    return _Found(identity, lockfiles, entry, forgotten, explained)


def read_earlier_messages(
    ledger: Ledger | None, identity: Identity, wanted: Collection[str]
) -> dict[str, EarlierMessage]:
    """Return the record of messages that others come after, by id.

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
    """Return the launches of lockfiles that the ledger (None if there is none yet) lacks.

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
    """Return the ledger's number of a campaign without reading its lockfile; None if the ledger has none.

    Raises:
        LedgerError: the ledger cannot be read.
        LockfileError: its names have several records.
    """
    with ledger.reading() as connection:
        entry = _find_entry(connection, identity)
    return None if entry is None else entry.row.id


def enter_record(ledger: Ledger, identity: Identity, new_salt: str, *, counts_only: bool = False) -> Record:
    """Return the record, after filling the ledger from the lockfile.

    `new_salt` (32 random hexadecimal digits) is used if there is neither a record nor a user's key. With
    `counts_only`, only counts and digests of the deliveries are read.

    Raises:
        LockfileError: as for `read_record`.
        LedgerError: the ledger cannot be written.
    """
    if counts_only:
        _refuse_shared(identity)
    with _filling(ledger, identity, new_salt) as (connection, head, forgotten):
        campaign_id, _ = head.require_entered()
        if counts_only:
            return head.with_deliveries(summarize_deliveries(connection, campaign_id, forgotten=forgotten))
        return head.with_deliveries(replace(read_known(connection, campaign_id), forgotten=forgotten))


def enter_head(ledger: Ledger, identity: Identity, new_salt: str) -> CampaignRecord:
    """Return the record as `enter_record` does, without the deliveries.

    Raises:
        LockfileError: as for `read_record`.
        LedgerError: the ledger cannot be written.
    """
    with _filling(ledger, identity, new_salt) as (_, head, _):
        return head


@contextmanager
def _filling(
    ledger: Ledger, identity: Identity, new_salt: str
) -> Iterator[tuple[Connection, CampaignRecord, set[str]]]:
    """Fill the ledger from the lockfiles; yield a connection, the record, and the forgotten people."""
    stamps = stamp_lockfiles(identity)
    lockfiles = read_lockfiles(identity)
    with ledger.writing() as connection:
        campaign_id, key, forgotten = _fill(connection, identity, lockfiles, new_salt)
        merged = list_merged(lockfiles)
        head = CampaignRecord(campaign_id=campaign_id, key=key, merged=merged, stamps=stamps)
        yield connection, head, forgotten


def is_overtaken(record: CampaignRecord, identity: Identity) -> bool:
    """Return whether lockfiles were changed since the record was entered, by git or by hand."""
    return record.stamps != stamp_lockfiles(identity)


def _find_entry(connection: Connection, identity: Identity) -> _Entry | None:
    """Return the ledger's entry of a campaign under any of its names, or None.

    Raises:
        LockfileError: its names have several records.
    """
    found = find_recorded_names(connection, identity.target, identity.names)
    if len(found) > 1:
        raise _several_records(identity, found)
    if not found:
        row = find_campaign(connection, identity.target, identity.name)
        if row is not None and row.salt is not None and identity.state_key is not None:
            # The forgotten would have other fingerprints under the key than under the salt.
            row = replace(row, has_launches=bool(read_forgotten(connection, row.id)))
        return None if row is None else _Entry(identity.name, row, identity.name)
    ((name, row),) = found.items()
    return _Entry(name, row, find_first_name(connection, row.id) or name)


def _refuse_shared_summary(identity: Identity, lockfiles: dict[Path, Lockfile]) -> None:
    """Ensure that a record that is summed up is not kept on a git remote.

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


def _fill(
    connection: Connection, identity: Identity, lockfiles: dict[Path, Lockfile], new_salt: str
) -> tuple[int, FingerprintKey, set[str]]:
    """Enter a campaign, and everything in its lockfiles that the ledger lacks.

    Returns the ledger's number of it, its key, and the forgotten people. `new_salt` (32 random hexadecimal
    digits) is used if there is neither a record nor a user's key.

    Raises:
        LockfileError: lockfiles and ledger contradict each other.
    """
    _refuse_shared_summary(identity, lockfiles)
    exclude_others(connection)
    entry = _find_entry(connection, identity)
    key = _choose_key(identity, lockfiles, entry)
    if key is None:
        key = _make_key(identity, entry, new_salt)
    campaign_id = _enter(connection, identity, entry, key)
    require_current_ids(connection, campaign_id, identity.message_ids)
    first_name = key.lasting_name(identity.name)
    told = read_forgotten(connection, campaign_id, all_forgotten(lockfiles))
    require_coverage(connection, campaign_id, lockfiles, identity.message_ids, told)
    rename_messages(connection, campaign_id, first_name, identity.message_ids)
    forgotten = absorb_forgotten(connection, campaign_id, first_name, all_forgotten(lockfiles))
    remembered = (leave_out(one, forgotten, first_name) for one in all_launches(lockfiles))
    enter_runs(connection, all_runs(lockfiles))
    dismiss_launches(connection, campaign_id, all_dismissed(lockfiles))
    is_new = absorb_launches(connection, campaign_id, remembered, identity.surveys)
    take_told(connection, identity, campaign_id, key)
    if is_new:
        renew_checkpoints(connection, campaign_id)
        note_behind(connection, campaign_id, is_behind=True)
    if identity.keeps_summary:
        add_checkpoints(connection, campaign_id)
    if identity.shared is not None and identity.shared.is_held:
        reserved, ids = identity.shared.reservations, identity.message_ids
        absorb_reservations(connection, campaign_id, first_name, reserved, ids)
    return campaign_id, key, forgotten


def _enter(connection: Connection, identity: Identity, entry: _Entry | None, key: FingerprintKey) -> int:
    if entry is None or not entry.row.has_launches:
        campaign_id = enter_campaign(connection, identity.target, identity.name, key)
        if entry is not None and entry.row.key_fingerprint != key.name:
            # Held people would have other fingerprints under the new key: a preflight finds them again.
            drop_unexplained(connection, campaign_id)
    else:
        campaign_id = entry.row.id
        if entry.name != identity.name:
            rename_campaign(connection, identity.target, campaign_id, identity.name)
    if key.first_name is not None:
        enter_first_name(connection, campaign_id, key.first_name)
    return campaign_id


@dataclass(frozen=True, slots=True)
class _Entry:
    """A campaign in the ledger: its name, its row, and the first name, for fingerprints."""

    name: str
    row: CampaignRow
    first_name: str


def _several_records(identity: Identity, names: Iterable[str]) -> LockfileError:
    """Return the error for a campaign whose names have separate records."""
    made = ", ".join(sorted(names))
    return LockfileError(
        f"the campaign {identity.name!r} has several records, made under the names {made}",
        hint="one record cannot take in another: nothing is sent as long as it is unclear who was texted; "
        "keep them as campaigns of their own, each with its name",
    )


def _choose_key(
    identity: Identity, lockfiles: dict[Path, Lockfile], entry: _Entry | None
) -> FingerprintKey | None:
    """Return the key of a campaign's records; None if there are none.

    Raises:
        LockfileError: the key is missing, or the records contradict each other.
    """
    _require_signed_salts(identity, lockfiles, entry)
    recorded = [
        (f"the lockfile {file}", lockfile.salt, lockfile.key_fingerprint)
        for file, lockfile in lockfiles.items()
    ]
    first_names = {lockfile.first_name or lockfile.campaign for lockfile in lockfiles.values()}
    if entry is not None and entry.row.has_launches:
        recorded.append(("the ledger", entry.row.salt, entry.row.key_fingerprint))
        first_names.add(entry.first_name)
    keys = [_open_key(identity, where, salt, name) for where, salt, name in recorded]
    if len({key.name for key in keys}) > 1:
        where = " and ".join(where for where, _, _ in recorded)
        raise LockfileError(
            f"{where} were written with different keys",
            hint="nothing is sent as long as it is unclear who was texted. If the lockfile came from "
            "another machine, move the ledger away: it is filled from the lockfiles again, and "
            "`runner apply` asks the service for what they lack. Else restore the lockfile with git",
        )
    if len(first_names) > 1:
        raise _several_records(identity, first_names)
    if not keys:
        return None
    (first_name,) = first_names
    return replace(keys[0], first_name=None if first_name == identity.name else first_name)


def _make_key(identity: Identity, entry: _Entry | None, new_salt: str) -> FingerprintKey:
    """Return the key for a campaign without a record."""
    if identity.state_key:
        return FingerprintKey.from_secret(identity.state_key)
    # Another run may have entered the campaign and be about to send: with two salts, each run's recipients
    # would look new to the other.
    return FingerprintKey.from_salt(entry.row.salt if entry and entry.row.salt else new_salt)


def _find_held_key(identity: Identity, entry: _Entry | None) -> FingerprintKey | None:
    """Return the key of people who are held before anything was sent; None if it is missing."""
    if entry is None or (entry.row.salt is None and not identity.state_key):
        return None
    key = _make_key(identity, entry, entry.row.salt or "")
    return key if key.name == entry.row.key_fingerprint else None


def _open_key(identity: Identity, where: str, salt: str | None, name: str) -> FingerprintKey:
    hint = "set RUNNER_STATE_KEY to the key it was written with; with another one everyone would look new"
    if salt is None and not identity.state_key:
        raise MissingKeyError(f"{where} was written with a RUNNER_STATE_KEY, and none is set", hint=hint)
    key = (
        FingerprintKey.from_salt(salt)
        if salt is not None
        else FingerprintKey.from_secret(identity.state_key or "")
    )
    if key.name != name:
        wrong = "its salt is damaged" if salt is not None else "it was written with another RUNNER_STATE_KEY"
        raise LockfileError(
            f"{where} cannot be read: {wrong}", hint=hint if salt is None else "restore it with git"
        )
    return key


def _require_signed_salts(identity: Identity, lockfiles: dict[Path, Lockfile], entry: _Entry | None) -> None:
    """Ensure that the state key has signed all salts in use.

    Lockfiles that are read with a key are signed. The ledger has no MACs: it may have the salt of a lockfile.
    """
    if identity.state_key is None:
        for file, lockfile in lockfiles.items():
            if lockfile.salt is not None and lockfile.is_signed:
                raise MissingKeyError(
                    f"the lockfile {file} was signed with a RUNNER_STATE_KEY, and none is set",
                    hint="set RUNNER_STATE_KEY to that key: without it changes cannot be found",
                )
        return
    salt = entry.row.salt if entry is not None and entry.row.has_launches else None
    if salt is not None and salt not in {lockfile.salt for lockfile in lockfiles.values()}:
        raise LockfileError(
            f"the ledger has a salt for {identity.name}, and now there is a RUNNER_STATE_KEY",
            hint="`runner key rotate` moves the records to the key; until then nothing is sent",
        )
