"""Under which key the people of a target are known to the ledger, whatever campaign texts them.

A campaign's fingerprints say nothing outside it, on purpose. An opt-out holds for every campaign on a target,
so it needs a fingerprint of the target's own. Its key is `RUNNER_STATE_KEY`, or, without it, a salt that the
ledger and the file of suppressions keep: as with a lockfile's salt that makes a pseudonym only, since phones
can be guessed one by one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import Connection, and_, inspect, select

from runner.errors import LedgerError
from runner.ledger.database import exclude_others, insert_into
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.tables import campaigns, target_keys

if TYPE_CHECKING:
    from collections.abc import Collection

LedgerConnection: TypeAlias = Connection
"""What `Ledger.writing` and `Ledger.reading` yield, for callers that hand it on: SQLAlchemy stays in here."""
_BITS = 128
_SEAL_SIZE = 16
_HINT = "set RUNNER_STATE_KEY to the key it was written with; with another one nobody would have opted out"


@dataclass(frozen=True, slots=True)
class TargetKey:
    """The key of one target's fingerprints.

    Attributes:
        target: the target's name.
        salt: what the ledger keeps; None when the key is the user's secret.
        name: the key's own fingerprint, by which a wrong key is recognised.
    """

    target: str
    salt: str | None
    name: str
    _key: bytes = field(repr=False)
    _seal_key: bytes | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_secret(cls, target: str, secret: str) -> TargetKey:
        """Return the key that a user's secret stands for."""
        return cls._make(target, secret, None, secret)

    @classmethod
    def from_salt(cls, target: str, salt: str, secret: str | None = None) -> TargetKey:
        """Return the key that a ledger's salt stands for.

        Args:
            target: the target's name.
            salt: makes the fingerprints.
            secret: the user's, which was set after the salt was made: it makes the seals.
        """
        return cls._make(target, salt, salt, secret)

    @classmethod
    def _make(cls, target: str, source: str, salt: str | None, secret: str | None) -> TargetKey:
        # `person` sets the keys of campaigns and targets apart (RFC 7693 has none, the BLAKE2 paper has).
        base = hashlib.blake2b(source.encode(), digest_size=32, person=b"runner target").digest()
        key = hashlib.blake2b(target.encode(), key=base, digest_size=32).digest()
        name = hashlib.blake2b(b"", key=key, digest_size=8, person=b"runner key name").hexdigest()
        return cls(target, salt, name, key, _derive_seal_key(target, secret) if secret else None)

    def fingerprint(self, phone: str) -> str:
        """Return a person's fingerprint on the target, 32 hexadecimal digits.

        Args:
            phone: E.164.
        """
        return hashlib.blake2b(phone.encode(), key=self._key, digest_size=_BITS // 8).hexdigest()

    def seal(self, text: str) -> str | None:
        """Return what proves that a text about the target was written with the user's secret: 128 bits.

        Returns:
            None if there is no secret: nothing can be proved then.
        """
        if self._seal_key is None:
            return None
        return hashlib.blake2b(text.encode(), key=self._seal_key, digest_size=_SEAL_SIZE).hexdigest()


def _derive_seal_key(target: str, secret: str) -> bytes:
    base = hashlib.blake2b(secret.encode(), digest_size=32, person=b"runner tgt seal").digest()
    return hashlib.blake2b(target.encode(), key=base, digest_size=32).digest()


@dataclass(frozen=True, slots=True)
class TargetSecret:
    """The user's secret for the fingerprints of a target, as far as it is at hand.

    Attributes:
        variable: the environment variable that it comes from.
        value: None if that one is not set.
        is_certain: whether it is said to be the secret of this target, and not only of those that name none.
        is_required: whether the target is said to have a secret of its own.
    """

    variable: str
    value: str | None = field(repr=False)
    is_certain: bool
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where the key of a target's people comes from, once there is somebody to enter.

    Attributes:
        target: the target's name.
        state_key: the user's secret; None if there is none.
        new_salt: 32 hexadecimal digits, random; used if there is neither a record nor a secret.
    """

    target: str
    state_key: str | None = field(repr=False)
    new_salt: str = field(repr=False)

    def read(self, connection: Connection) -> TargetKey | None:
        """Return the key on record, as `read_target_key` does."""
        return read_target_key(connection, self.target, self.state_key)

    def enter(self, connection: Connection) -> TargetKey:
        """Return the key, which is on record from now on, as `enter_target_key` does."""
        return enter_target_key(connection, self.target, self.state_key, self.new_salt)


def read_target_key(connection: Connection, target: str, state_key: str | None) -> TargetKey | None:
    """Return the key under which a target's people are on record; None if nobody is.

    Args:
        connection: reads the ledger, which may be of an older version.
        target: the target's name.
        state_key: the user's secret; None if there is none.

    Raises:
        LedgerError: the key is not at hand.
    """
    if not inspect(connection).has_table(target_keys.name):
        return None
    query = select(target_keys.c.salt, target_keys.c.key_fingerprint).where(target_keys.c.target == target)
    row = connection.execute(query).first()
    if row is None:
        return None
    # A salt on record stays the key when the user sets a secret later: what is there was made with it.
    if row.salt is None and not state_key:
        raise LedgerError(
            f"the opt-outs of the target {target} were written with a RUNNER_STATE_KEY, and none is set",
            hint=_HINT,
        )
    key = (
        TargetKey.from_secret(target, state_key or "")
        if row.salt is None
        else TargetKey.from_salt(target, row.salt, state_key)
    )
    if key.name != row.key_fingerprint:
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
    """Return the key of a target's people, which is on record from now on.

    Args:
        connection: commits after this.
        target: the target's name.
        state_key: the user's secret; None if there is none.
        new_salt: 32 hexadecimal digits, random; used if there is neither a record nor a secret.

    Raises:
        LedgerError: the key on record is not at hand.
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
    """Return the key of the people of a target that is not the run's own; None if it is not at hand.

    A target without a key on record gets one, but never from another target's secret: whoever has its own
    would be locked out. A salt is no obstacle to them.

    Args:
        connection: commits after this.
        target: the target's name.
        secret: the user's.
        new_salt: 32 hexadecimal digits, random; used if there is neither a record nor a secret of the target.
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
    """Put a key on record for a target that has none."""
    row = {"target": key.target, "salt": key.salt, "key_fingerprint": key.name}
    connection.execute(insert_into(connection, target_keys), [row])


def list_keyed_targets(connection: Connection) -> Collection[str]:
    """Return the targets that have a key on record, in order."""
    return connection.execute(select(target_keys.c.target).order_by(target_keys.c.target)).scalars().all()
