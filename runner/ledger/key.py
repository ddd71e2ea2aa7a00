"""With which key a campaign's fingerprints are made: all its records must say the same.

With another key everyone would look new. A salt is the key of records that were written without a state key.
Once there is one, a salt is believed only if that key has signed it: anybody who can change a record could
choose a salt, and who seems to have been texted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.errors import LockfileError, MissingKeyError
from runner.ledger.fingerprint import FingerprintKey

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from runner.ledger.identity import Identity
    from runner.ledger.lockfile import Lockfile
    from runner.ledger.model import CampaignRow


@dataclass(frozen=True, slots=True)
class Entry:
    """A campaign in the ledger.

    Attributes:
        name: under which it is entered.
        row: how it is entered.
        first_name: with which its fingerprints are made.
    """

    name: str
    row: CampaignRow
    first_name: str


def several_records(identity: Identity, names: Iterable[str]) -> LockfileError:
    """Return the error for a campaign whose names were sent apart from each other."""
    made = ", ".join(sorted(names))
    return LockfileError(
        f"the campaign {identity.name!r} has several records, made under the names {made}",
        hint="one record cannot take in another: nothing is sent as long as it is unclear who was texted; "
        "keep them as campaigns of their own, each with its name",
    )


def choose_key(
    identity: Identity, lockfiles: dict[Path, Lockfile], entry: Entry | None
) -> FingerprintKey | None:
    """Return the key of what is on record; None if nothing is.

    Args:
        identity: the campaign on its target.
        lockfiles: its lockfiles, by file.
        entry: how the ledger knows it.

    Raises:
        LockfileError: the key is not at hand, or the records don't go together.
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
        raise several_records(identity, first_names)
    if not keys:
        return None
    (first_name,) = first_names
    return replace(keys[0], first_name=None if first_name == identity.name else first_name)


def make_key(identity: Identity, entry: Entry | None, new_salt: str) -> FingerprintKey:
    """Return the key for a campaign that nothing is on record of.

    Args:
        identity: the campaign on its target.
        entry: how the ledger has entered it already, without launches.
        new_salt: 32 hexadecimal digits, random.
    """
    if identity.state_key:
        return FingerprintKey.from_secret(identity.state_key)
    # Another run may have entered the campaign and be about to send: with a salt of its own each
    # of the two would find that the other's recipients look new.
    return FingerprintKey.from_salt(entry.row.salt if entry and entry.row.salt else new_salt)


def find_held_key(identity: Identity, entry: Entry | None) -> FingerprintKey | None:
    """Return the key of people who are held before anything was sent; None if it isn't at hand.

    Args:
        identity: the campaign on its target.
        entry: how the ledger has entered it.
    """
    if entry is None or (entry.row.salt is None and not identity.state_key):
        return None
    key = make_key(identity, entry, entry.row.salt or "")
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


def _require_signed_salts(identity: Identity, lockfiles: dict[Path, Lockfile], entry: Entry | None) -> None:
    """Make sure that nothing rests on a salt that the state key has not signed.

    Lockfiles that are read with a key are signed. The ledger has no MACs: it may have the salt of a lockfile.
    """
    if identity.state_key is None:
        for file, lockfile in lockfiles.items():
            if lockfile.salt is not None and lockfile.is_signed:
                raise MissingKeyError(
                    f"the lockfile {file} was signed with a RUNNER_STATE_KEY, and none is set",
                    hint="set RUNNER_STATE_KEY to that key: without it nobody can tell what was changed",
                )
        return
    salt = entry.row.salt if entry is not None and entry.row.has_launches else None
    if salt is not None and salt not in {lockfile.salt for lockfile in lockfiles.values()}:
        raise LockfileError(
            f"the ledger has a salt for {identity.name}, and now there is a RUNNER_STATE_KEY",
            hint="`runner key rotate` moves the records to the key; until then nothing is sent",
        )
