"""The key of a target's people, in all campaigns.

Opt-outs hold for every campaign on a target, and so need fingerprints that are not a campaign's. Their key is
`RUNNER_STATE_KEY`, or, without it, a salt in the ledger and the file of suppressions: then they are
pseudonyms only, since phones can be guessed one by one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import Connection, and_, select

from runner.errors import LedgerError
from runner.ledger.database import exclude_others, insert_into
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.tables import campaigns, target_keys

if TYPE_CHECKING:
    from collections.abc import Collection

LedgerConnection: TypeAlias = Connection
"""The connection that `Ledger` yields, for callers without SQLAlchemy."""
_BITS = 128
_SEAL_SIZE = 16
_HINT = "set RUNNER_STATE_KEY to the key it was written with; with another one nobody would have opted out"


@dataclass(frozen=True, slots=True)
class TargetKey:
    """The key of one target's fingerprints.

    `salt` is None if the key is the user's secret. `name` is the fingerprint of the key, which reveals a
    wrong one. `is_secret` is true if its seals are made with the user's secret; those made with the salt,
    which everybody can read, show damage, and prove nothing.
    """

    target: str
    salt: str | None
    name: str
    _key: bytes = field(repr=False)
    _seal_key: bytes = field(repr=False, compare=False)
    is_secret: bool = field(default=False, compare=False)

    @classmethod
    def from_secret(cls, target: str, secret: str) -> TargetKey:
        """Return the key from a user's secret."""
        return cls._make(target, secret, None, secret)

    @classmethod
    def from_salt(cls, target: str, salt: str, secret: str | None = None) -> TargetKey:
        """Return the key from a ledger's salt; a secret that was set later makes the seals."""
        return cls._make(target, salt, salt, secret)

    @classmethod
    def reopen(cls, target: str, salt: str | None, state_key: str | None, name: str) -> TargetKey | None:
        """Return the key that a record was written with; None if it is another one.

        `salt` is None if the record was written with the user's secret.
        """
        # A recorded salt stays the key when a secret is set later: its records were made with it.
        key = (
            cls.from_secret(target, state_key or "")
            if salt is None
            else cls.from_salt(target, salt, state_key)
        )
        return key if key.name == name else None

    @classmethod
    def _make(cls, target: str, source: str, salt: str | None, secret: str | None) -> TargetKey:
        # `person` separates the keys of campaigns and targets (in the BLAKE2 paper, not in RFC 7693).
        base = hashlib.blake2b(source.encode(), digest_size=32, person=b"runner target").digest()
        key = hashlib.blake2b(target.encode(), key=base, digest_size=32).digest()
        name = hashlib.blake2b(b"", key=key, digest_size=8, person=b"runner key name").hexdigest()
        return cls(target, salt, name, key, _derive_seal_key(target, secret or source), bool(secret))

    def fingerprint(self, phone: str) -> str:
        """Return a person's fingerprint on the target, 32 hexadecimal digits."""
        return hashlib.blake2b(phone.encode(), key=self._key, digest_size=_BITS // 8).hexdigest()

    def seal(self, text: str) -> str:
        """Return the seal of a text about the target, 128 bits."""
        return hashlib.blake2b(text.encode(), key=self._seal_key, digest_size=_SEAL_SIZE).hexdigest()


def _derive_seal_key(target: str, secret: str) -> bytes:
    base = hashlib.blake2b(secret.encode(), digest_size=32, person=b"runner tgt seal").digest()
    return hashlib.blake2b(target.encode(), key=base, digest_size=32).digest()


@dataclass(frozen=True, slots=True)
class TargetSecret:
    """The user's secret for the fingerprints of a target, from an environment variable.

    `value` is None if that is not set. `is_certain`: it is configured for this target, not only as a default.
    `is_required`: the target is configured to have its own secret.
    """

    variable: str
    value: str | None = field(repr=False)
    is_certain: bool
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class KeySource:
    """The source of a target's key, once there is somebody to enter.

    `new_salt` (32 random hexadecimal digits) is used if there is neither a record nor a secret.
    """

    target: str
    state_key: str | None = field(repr=False)
    new_salt: str = field(repr=False)

    def read(self, connection: Connection) -> TargetKey | None:
        """Return the recorded key with `read_target_key`."""
        return read_target_key(connection, self.target, self.state_key)

    def enter(self, connection: Connection) -> TargetKey:
        """Return the key, recorded if it is new, with `enter_target_key`."""
        return enter_target_key(connection, self.target, self.state_key, self.new_salt)


def read_target_key(connection: Connection, target: str, state_key: str | None) -> TargetKey | None:
    """Return the recorded key of a target's people; None if there are none.

    Raises:
        LedgerError: the key is missing.
    """
    query = select(target_keys.c.salt, target_keys.c.key_fingerprint).where(target_keys.c.target == target)
    row = connection.execute(query).first()
    if row is None:
        return None
    if row.salt is None and not state_key:
        raise LedgerError(
            f"the opt-outs of the target {target} were written with a RUNNER_STATE_KEY, and none is set",
            hint=_HINT,
        )
    key = TargetKey.reopen(target, row.salt, state_key, row.key_fingerprint)
    if key is None:
        raise LedgerError(
            f"the opt-outs of the target {target} cannot be read: "
            + (
                "they were written with another RUNNER_STATE_KEY"
                if row.salt is None
                else "their salt is damaged"
            ),
            hint=_HINT if row.salt is None else "put back a copy of the ledger",
        )
    return key


def enter_target_key(connection: Connection, target: str, state_key: str | None, new_salt: str) -> TargetKey:
    """Return the key of a target's people, recorded if it is new.

    `new_salt` (32 random hexadecimal digits) is used if there is neither a record nor a secret.

    Raises:
        LedgerError: the key on record is missing.
    """
    exclude_others(connection)
    known = read_target_key(connection, target, state_key)
    if known is not None:
        return known
    key = TargetKey.from_secret(target, state_key) if state_key else TargetKey.from_salt(target, new_salt)
    record_target_key(connection, key)
    return key


def reach_target_key(
    connection: Connection, target: str, secret: TargetSecret, new_salt: str
) -> TargetKey | None:
    """Return the key of the people of another target than the run's own; None if it is missing.

    A target without a recorded key gets one from its own secret or `new_salt`, but never from another
    target's secret, which would lock out the holder of its own.
    """
    exclude_others(connection)
    if target in list_keyed_targets(connection):
        try:
            return read_target_key(connection, target, secret.value)
        except LedgerError:
            return None
    keyed = and_(campaigns.c.target == target, campaigns.c.salt.is_(None))
    written = set(connection.execute(select(campaigns.c.key_fingerprint).where(keyed)).scalars())
    own = FingerprintKey.from_secret(secret.value).name if secret.value else None
    if (written and own not in written) or (secret.is_required and own is None):
        return None
    is_theirs = secret.is_certain or own in written
    return enter_target_key(connection, target, secret.value if is_theirs else None, new_salt)


def record_target_key(connection: Connection, key: TargetKey) -> None:
    """Record the key of a target that has none."""
    row = {"target": key.target, "salt": key.salt, "key_fingerprint": key.name}
    connection.execute(insert_into(connection, target_keys), [row])


def list_keyed_targets(connection: Connection) -> Collection[str]:
    """Return the targets that have a recorded key, in order."""
    return connection.execute(select(target_keys.c.target).order_by(target_keys.c.target)).scalars().all()
