"""Fingerprints: the records' replacement for phone numbers.

A person has one fingerprint on a target: a keyed BLAKE2b (RFC 7693) of their E.164 number, 80 bits. The key
is derived from `RUNNER_STATE_KEY` and the target's name. Without a `RUNNER_STATE_KEY` it is derived from the
name alone, and so public: then a fingerprint is a pseudonym only, since phone numbers can be guessed one by
one, and seals show accidents, not forgery.

`FingerprintSet` holds many of them, at 16 bytes each. `PeopleTally` represents a set in 40 bytes: the number,
and the sum, modulo 2²⁵⁶, of BLAKE2b-256 (RFC 7693) of each fingerprint (ASCII, lower case), read as a
big-endian number and written as 64 hexadecimal digits. It is independent of order and database, and tallies
of parts add up.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.ledger.model import RecordedDeliveries


_BITS = 80
_DIGITS = 32  # of the longest fingerprint: 128 bits
_WORD_BITS = 64
_WORD_MASK = 2**_WORD_BITS - 1
_SIZE = 32
_MASK = 2 ** (8 * _SIZE) - 1
_RECORD_SIZE = 16


@dataclass(frozen=True, slots=True)
class TargetKey:
    """The key of a target's fingerprints and seals.

    `name` is the fingerprint of the key, which reveals a wrong one. `is_secret` is true if it was made with
    the user's secret.
    """

    target: str
    name: str
    is_secret: bool
    _key: bytes = field(repr=False)

    @classmethod
    def of(cls, target: str, secret: str | None) -> TargetKey:
        """Return the key of a target; `secret` is the user's, or None."""
        source = secret.encode() if secret else b""
        person = b"runner target" if secret else b"runner public"
        # `person` separates uses of one secret (in the BLAKE2 paper, not in RFC 7693).
        base = hashlib.blake2b(source, digest_size=32, person=person).digest()
        key = hashlib.blake2b(target.encode(), key=base, digest_size=32).digest()
        name = hashlib.blake2b(b"", key=key, digest_size=8, person=b"runner key name").hexdigest()
        return cls(target, name, bool(secret), key)

    def fingerprint(self, phone: str) -> str:
        """Return a person's fingerprint, 20 hexadecimal digits; `phone` is E.164."""
        return hashlib.blake2b(phone.encode(), key=self._key, digest_size=_BITS // 8).hexdigest()

    def seal(self, purpose: str, text: bytes) -> str:
        """Return a digest of a text that only the holder of the key can make: 128 bits.

        Seals of one `purpose` do not fit another: plans show seals of campaign files, which could have the
        text of a lockfile.
        """
        said = purpose.encode() + b"\0" + text
        return hashlib.blake2b(said, key=self._key, digest_size=16, person=b"runner seal").hexdigest()


def launch_key(campaign: str, message: str, payload_digest: str, fingerprints: Iterable[str]) -> str:
    """Return the key of a launch: the same payload to the same recipients has the same key anywhere."""
    text = "\0".join((campaign, message, payload_digest, *sorted(fingerprints)))
    return hashlib.blake2b(text.encode(), digest_size=_BITS // 8).hexdigest()


class FingerprintSet:
    """A multiset of fingerprints, sorted, of one length of at most 32 hexadecimal digits. It is exact."""

    __slots__ = ("_high", "_low")

    def __init__(self, fingerprints: Iterable[str] = ()) -> None:
        self._high = array("Q")
        self._low = array("Q")
        for fingerprint in fingerprints:
            number = _read(fingerprint)
            self._high.append(number >> _WORD_BITS)
            self._low.append(number & _WORD_MASK)

    def __len__(self) -> int:
        return len(self._high)

    def __contains__(self, fingerprint: str) -> bool:
        return self.count(fingerprint) > 0

    def count(self, fingerprint: str) -> int:
        """Return the number of times that a fingerprint was given."""
        number = _read(fingerprint)
        high, low = number >> _WORD_BITS, number & _WORD_MASK
        start = bisect_left(self._high, high)
        if start == len(self._high) or self._high[start] != high:
            return 0
        stop = bisect_right(self._high, high, start, len(self._high))
        return sum(self._low[index] == low for index in range(start, stop))


def _read(fingerprint: str) -> int:
    return int(fingerprint.ljust(_DIGITS, "0"), 16)


class PeopleTally:
    """A number of people, and a digest of their fingerprints, each given once."""

    __slots__ = ("_sum", "recipients")

    def __init__(self, fingerprints: Iterable[str] = ()) -> None:
        self.recipients = 0
        self._sum = 0
        for fingerprint in fingerprints:
            self.add(fingerprint)

    @property
    def digest(self) -> str:
        """The digest of the people: 64 hexadecimal digits."""
        return self._sum.to_bytes(_SIZE).hex()

    def add(self, fingerprint: str) -> None:
        """Count a person who is not counted yet."""
        self.recipients += 1
        self._sum = (self._sum + _hash(fingerprint)) & _MASK

    def __add__(self, other: PeopleTally) -> PeopleTally:
        """Return the tally of two groups without common people."""
        both = PeopleTally()
        both.recipients = self.recipients + other.recipients
        both._sum = (self._sum + other._sum) & _MASK
        return both

    def __bool__(self) -> bool:
        return self.recipients > 0


def _hash(fingerprint: str) -> int:
    return int.from_bytes(hashlib.blake2b(fingerprint.encode(), digest_size=_SIZE).digest())


def tally_texted(known: RecordedDeliveries) -> dict[str, PeopleTally]:
    """Return tallies of the people who got a message, or may have, by message id.

    Unresolved and settled deliveries count alike: machines may differ in that.
    """
    found = {}
    for message in sorted(known.messages):
        texted = known.sent.get(message, set()) | known.unresolved.get(message, set())
        if tally := PeopleTally(texted):
            found[message] = tally
    return found


def digest_tallies(tallies: Mapping[str, PeopleTally]) -> str:
    """Return a digest (32 hexadecimal digits) of the tallies of messages.

    It is BLAKE2b-128 of each message that has anybody, sorted: its id, a NUL, the digest, a line break.
    """
    digest = hashlib.blake2b(digest_size=_RECORD_SIZE)
    for message, tally in sorted(tallies.items()):
        if tally:
            digest.update(f"{message}\0{tally.digest}\n".encode())
    return digest.hexdigest()
