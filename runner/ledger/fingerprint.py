"""Fingerprints: what the records hold in the place of phone numbers.

A fingerprint is a keyed BLAKE2b (RFC 7693) of campaign name and E.164 number, 80 bits. The key is
`RUNNER_STATE_KEY`, or, without it, a random salt that the lockfile itself keeps: with a salt a
fingerprint is a pseudonym only, since phone numbers can be guessed one by one (design: delivery).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_BITS = 80


@dataclass(frozen=True, slots=True)
class FingerprintKey:
    """The key under which one campaign's fingerprints are made.

    Attributes:
        salt: what the lockfile keeps; None when the key is the user's secret.
        name: the key's own fingerprint, by which a wrong key is recognised.
        first_name: of a renamed campaign: the name that its fingerprints were made with first. They go on
            being made with it, so that everyone who was texted under an old name is still known.
    """

    salt: str | None
    name: str
    _key: bytes = field(repr=False)
    first_name: str | None = None

    @classmethod
    def from_secret(cls, secret: str) -> FingerprintKey:
        """Return the key that a user's secret stands for."""
        return cls._make(secret, None)

    @classmethod
    def from_salt(cls, salt: str) -> FingerprintKey:
        """Return the key that a lockfile's salt stands for."""
        return cls._make(salt, salt)

    @classmethod
    def _make(cls, source: str, salt: str | None) -> FingerprintKey:
        key = hashlib.blake2b(source.encode(), digest_size=32, person=b"runner key").digest()
        name = hashlib.blake2b(b"", key=key, digest_size=8, person=b"runner key name").hexdigest()
        return cls(salt, name, key)

    def lasting_name(self, campaign: str) -> str:
        """Return the name that a campaign's fingerprints and launch keys are made with: its first one.

        Args:
            campaign: the name that it has now.
        """
        return self.first_name or campaign

    def fingerprint(self, campaign: str, phone: str) -> str:
        """Return a recipient's fingerprint, 20 hexadecimal digits.

        Args:
            campaign: the campaign's name; a renamed campaign keeps its first one.
            phone: E.164.
        """
        text = f"{self.lasting_name(campaign)}\0{phone}".encode()
        return hashlib.blake2b(text, key=self._key, digest_size=_BITS // 8).hexdigest()

    def for_purpose(self, purpose: str) -> FingerprintKey:
        """Return a key for one purpose alone.

        Else what is made for one could be good for another: plans show what `seal` makes of campaign files,
        and these may say what a lockfile says.

        Args:
            purpose: names it.
        """
        key = hashlib.blake2b(
            purpose.encode(), key=self._key, digest_size=32, person=b"runner purpose"
        ).digest()
        return FingerprintKey(self.salt, self.name, key, self.first_name)

    def seal(self, text: bytes) -> str:
        """Return a digest of a text that nobody can make, or guess at, who has not the key: 128 bits."""
        return hashlib.blake2b(text, key=self._key, digest_size=16, person=b"runner seal").hexdigest()


def launch_key(campaign: str, message: str, payload_digest: str, fingerprints: Iterable[str]) -> str:
    """Return the name of a launch: the same payload to the same recipients has the same name anywhere.

    Args:
        campaign: the campaign's first name (`FingerprintKey.lasting_name`).
        message: the message's id.
        payload_digest: of the definition.
        fingerprints: of its recipients, in any order.
    """
    text = "\0".join((campaign, message, payload_digest, *sorted(fingerprints)))
    return hashlib.blake2b(text.encode(), digest_size=_BITS // 8).hexdigest()
