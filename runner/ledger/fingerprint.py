"""Fingerprints: the records' replacement for phone numbers.

A person has one fingerprint on a target: a keyed BLAKE2b (RFC 7693) of their E.164 number, 80 bits. The key
is derived from `RUNNER_STATE_KEY` and the target's name. Without a `RUNNER_STATE_KEY` it is derived from the
name alone, and so public: then a fingerprint is a pseudonym only, since phone numbers can be guessed one by
one, and seals show accidents, not forgery.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeVar

from runner.ledger.model import DATE, on_occasion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


Kind = TypeVar("Kind")
_BITS = 80
_OF_CLOCKS = ":"
"""In each date with its time, and in no name of a wave."""
_DIGITS = 32  # of the longest fingerprint: 128 bits
_WORD_BITS = 64
_WORD_MASK = 2**_WORD_BITS - 1


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

    def name_occasion(self, occasion: str) -> str:
        """Return an occasion as records name it: a wave as it is, a person's date only as a fingerprint."""
        return f"{DATE}{self.fingerprint(occasion)}" if _OF_CLOCKS in occasion else occasion

    def seal_payload(self, digest: str) -> str:
        """Return what records keep of a payload's digest: only the holder of the key can try texts on it."""
        return self.seal("payload", digest.encode())

    def matches_payload(self, recorded: str, digest: str) -> bool:
        """Return whether a record is of a payload's digest; those of before 2026-11-27 have it as it is."""
        return recorded in {digest, self.seal_payload(digest)}

    def seal(self, purpose: str, text: bytes) -> str:
        """Return a digest of a text that only the holder of the key can make: 128 bits.

        Seals of one `purpose` do not fit another: plans show seals of campaign files, which could have the
        text of a lockfile.
        """
        said = purpose.encode() + b"\0" + text
        return hashlib.blake2b(said, key=self._key, digest_size=16, person=b"runner seal").hexdigest()


def launch_key(
    campaign: str, message: str, payload_digest: str, fingerprints: Iterable[str], occasion: str = ""
) -> str:
    """Return the key of a launch: the same payload to the same recipients has the same key anywhere."""
    named = on_occasion(message, occasion)
    text = "\0".join((campaign, named, payload_digest, *sorted(fingerprints)))
    return hashlib.blake2b(text.encode(), digest_size=_BITS // 8).hexdigest()


class FingerprintSet:
    """A multiset of fingerprints, sorted, of one length of at most 32 hexadecimal digits. It is exact.

    Deliveries on an occasion (`on_occasion`) are kept by a digest of 128 bits.
    """

    __slots__ = ("_high", "_low")

    def __init__(self, fingerprints: Iterable[str] = ()) -> None:
        self._high = array("Q")
        self._low = array("Q")
        for fingerprint in fingerprints:
            self.append(fingerprint)

    @classmethod
    def of(cls, deliveries: Iterable[str]) -> Self:
        """Return the set of some fingerprints or keys of deliveries, in any order."""
        return cls(sorted(deliveries, key=_read))

    def append(self, fingerprint: str) -> None:
        """Add a fingerprint that is not less than the others."""
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
    if "@" in fingerprint:
        return int.from_bytes(hashlib.blake2b(fingerprint.encode(), digest_size=_DIGITS // 2).digest())
    return int(fingerprint.ljust(_DIGITS, "0"), 16)


class OpenSession(NamedTuple):
    """The open survey that holds a person: its campaign, and the grounds.

    `read`: its session was open when last read; `unread`: it was never read; `planned`: it is about to begin.
    """

    campaign: str
    state: Literal["read", "unread", "planned"]


@dataclass(frozen=True, slots=True)
class KnownPeople(Generic[Kind]):
    """People by what is known of them, as the state of an opt-out or an open survey: at 16 bytes each."""

    key: TargetKey
    shelves: Mapping[Kind, FingerprintSet] = field(default_factory=dict)

    @classmethod
    def gather(cls, key: TargetKey, rows: Iterable[tuple[str, Any]]) -> Self:
        """Return the people of rows of a fingerprint and a kind, by fingerprint."""
        found: dict[Any, FingerprintSet] = {}
        for fingerprint, kind in rows:
            if kind not in found:
                found[kind] = FingerprintSet()
            found[kind].append(fingerprint)
        return cls(key, {kind: found[kind] for kind in sorted(found)})

    def __bool__(self) -> bool:
        return any(self.shelves.values())

    def find(self, phone: str) -> Kind | None:
        """Return the first kind that a person, by phone (E.164), is of; None if nothing is known of them."""
        person = self.key.fingerprint(phone) if self.shelves else ""
        return next((kind for kind, people in self.shelves.items() if person in people), None)

    def count(self, phone: str) -> int:
        """Return the number of times that a person was given."""
        person = self.key.fingerprint(phone)
        return sum(people.count(person) for people in self.shelves.values())
