"""What is on record of one campaign on one target: ledger and lockfile taken together.

A ledger that is missing or older than the lockfile is filled from it; the key of the fingerprints
is checked first, because with another key everyone would look new (design: delivery).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.deliveries import (
    absorb_launches,
    enter_campaign,
    find_campaign,
    iterate_accepted,
    read_known,
)
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile import Lockfile, lockfile_path, read_lockfile, write_lockfile
from runner.ledger.model import CampaignRow, Known

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.database import Ledger


@dataclass(frozen=True, slots=True)
class Identity:
    """Which campaign on which target a record is about.

    Attributes:
        name: the campaign's name.
        file: the campaign file.
        target: the target's name.
        state_key: the user's secret for fingerprints; None to use the record's salt.
    """

    name: str
    file: Path
    target: str
    state_key: str | None = field(default=None, repr=False)

    @property
    def lockfile(self) -> Path:
        """Where the lockfile stands."""
        return lockfile_path(self.file, self.target)


@dataclass(frozen=True, slots=True)
class Record:
    """What is on record.

    Attributes:
        campaign_id: the ledger's number of the campaign; None if the ledger doesn't know it.
        key: the key of the fingerprints; None if nothing is on record yet.
        known: the deliveries.
        uses_salt_despite_key: whether the record keeps its salt although the user has set a key.
    """

    campaign_id: int | None
    key: FingerprintKey | None
    known: Known
    uses_salt_despite_key: bool = False

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
    lockfile = _read_own_lockfile(identity)
    row = None
    known = Known({}, {})
    if ledger is not None:
        with ledger.reading() as connection:
            row = find_campaign(connection, identity.target, identity.name)
            known = read_known(connection, row.id) if row else known
    key = _choose_key(identity, lockfile, row)
    for launch in lockfile.launches if lockfile else ():
        known.sent.setdefault(launch.message, set()).update(launch.recipients)
        known.unresolved.get(launch.message, set()).difference_update(launch.recipients)
    return Record(row.id if row else None, key, known, _keeps_salt(identity, key))


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
    lockfile = _read_own_lockfile(identity)
    with ledger.writing() as connection:
        row = find_campaign(connection, identity.target, identity.name)
        key = _choose_key(identity, lockfile, row)
        if key is None:
            key = _make_key(identity, row, new_salt)
        campaign_id = (
            row.id
            if row and row.has_launches
            else enter_campaign(connection, identity.target, identity.name, key)
        )
        if lockfile is not None:
            absorb_launches(connection, campaign_id, lockfile.launches)
        known = read_known(connection, campaign_id)
    return Record(campaign_id, key, known, _keeps_salt(identity, key))


def refresh_lockfile(connection: Connection, identity: Identity, record: Record) -> bool:
    """Write the lockfile from the ledger, if anything was sent.

    Returns:
        Whether the file has changed.

    Raises:
        LockfileError: it cannot be written.
    """
    if record.campaign_id is None or record.key is None:
        return False
    launches = iterate_accepted(connection, record.campaign_id)
    first = next(launches, None)
    if first is None:
        return False
    return write_lockfile(
        identity.lockfile, identity.name, identity.target, record.key, chain([first], launches)
    )


def _read_own_lockfile(identity: Identity) -> Lockfile | None:
    lockfile = read_lockfile(identity.lockfile)
    if lockfile is None:
        return None
    for what, found, wanted in (
        ("campaign", lockfile.campaign, identity.name),
        ("target", lockfile.target, identity.target),
    ):
        if found != wanted:
            raise LockfileError(
                f"the lockfile {identity.lockfile} is of the {what} {found!r}, not {wanted!r}",
                hint="names are for good, with a new one everyone would be texted again: put it back",
            )
    return lockfile


def _choose_key(
    identity: Identity, lockfile: Lockfile | None, row: CampaignRow | None
) -> FingerprintKey | None:
    recorded = []
    if lockfile is not None:
        recorded.append((f"the lockfile {identity.lockfile}", lockfile.salt, lockfile.key_fingerprint))
    if row is not None and row.has_launches:
        recorded.append(("the ledger", row.salt, row.key_fingerprint))
    keys = [_open_key(identity, where, salt, name) for where, salt, name in recorded]
    if len({key.name for key in keys}) > 1:
        raise LockfileError(
            f"the lockfile {identity.lockfile} and the ledger were written with different keys",
            hint="restore the lockfile with git; nothing is sent as long as it is unclear who was texted",
        )
    return keys[0] if keys else None


def _make_key(identity: Identity, row: CampaignRow | None, new_salt: str) -> FingerprintKey:
    if identity.state_key:
        return FingerprintKey.from_secret(identity.state_key)
    # Another run may have entered the campaign and be about to send: with a salt of its own each
    # of the two would find that the other's recipients look new.
    return FingerprintKey.from_salt(row.salt if row and row.salt else new_salt)


def _open_key(identity: Identity, where: str, salt: str | None, name: str) -> FingerprintKey:
    hint = "set RUNNER_STATE_KEY to the key it was written with; with another one everyone would look new"
    if salt is None and not identity.state_key:
        raise LockfileError(f"{where} was written with a RUNNER_STATE_KEY, and none is set", hint=hint)
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


def _keeps_salt(identity: Identity, key: FingerprintKey | None) -> bool:
    return key is not None and key.salt is not None and identity.state_key is not None
