"""How many people, and who, in 40 bytes: what stands for fingerprints where these are too many to be held.

A tally is a number and a digest that adds up. The digest of a set of fingerprints is the sum, modulo 2²⁵⁶,
of BLAKE2b-256 (RFC 7693) of each, as it is written (ASCII, lower case), read as a big-endian number; it is
written as 64 hexadecimal digits. So it is the same in whatever order and on whatever database they come,
nothing has to be sorted, the tallies of parts make that of the whole, and one person can be taken out.

It tells records from each other that were made by accident of copies, restores and merges. Whoever can write
into the ledger could make two records of one digest: against them it is no seal, nor is anything else there.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.ledger.model import Known

_SIZE = 32
_MASK = 2 ** (8 * _SIZE) - 1
_RECORD_SIZE = 16


class PeopleTally:
    """How many people, and a digest of who they are.

    Args:
        fingerprints: theirs, each once.

    Attributes:
        recipients: how many they are.
    """

    __slots__ = ("_sum", "recipients")

    def __init__(self, fingerprints: Iterable[str] = ()) -> None:
        self.recipients = 0
        self._sum = 0
        for fingerprint in fingerprints:
            self.add(fingerprint)

    @classmethod
    def read(cls, recipients: int, digest: str) -> Self:
        """Return the tally that a number and a digest say.

        Raises:
            ValueError: the digest is not 64 hexadecimal digits.
        """
        value = bytes.fromhex(digest)
        if len(value) != _SIZE:
            raise ValueError(digest)
        tally = cls()
        tally.recipients, tally._sum = recipients, int.from_bytes(value)
        return tally

    @property
    def digest(self) -> str:
        """The digest of who they are: 64 hexadecimal digits."""
        return self._sum.to_bytes(_SIZE).hex()

    def add(self, fingerprint: str) -> None:
        """Count a person who is not counted yet."""
        self.recipients += 1
        self._sum = (self._sum + _hash(fingerprint)) & _MASK

    def take_out(self, fingerprint: str) -> None:
        """Count a person no more who was counted."""
        self.recipients -= 1
        self._sum = (self._sum - _hash(fingerprint)) & _MASK

    def __add__(self, other: PeopleTally) -> PeopleTally:
        """Return the tally of these people and others, nobody of whom is one of these."""
        both = PeopleTally()
        both.recipients = self.recipients + other.recipients
        both._sum = (self._sum + other._sum) & _MASK
        return both

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PeopleTally):
            return NotImplemented
        return (self.recipients, self._sum) == (other.recipients, other._sum)

    def __hash__(self) -> int:
        raise TypeError("a tally changes while it is counted")

    def __bool__(self) -> bool:
        return self.recipients > 0

    def __repr__(self) -> str:
        return f"PeopleTally.read({self.recipients}, {self.digest!r})"


def _hash(fingerprint: str) -> int:
    return int.from_bytes(hashlib.blake2b(fingerprint.encode(), digest_size=_SIZE).digest())


def tally_texted(known: Known) -> dict[str, PeopleTally]:
    """Return who of a record got each message, or may have, by message id; without forgotten people.

    What one machine still holds for unresolved and another has settled is the same to it.
    """
    found = {}
    for message in sorted(known.messages):
        texted = known.sent.get(message, set()) | known.unresolved.get(message, set())
        if tally := PeopleTally(texted - known.forgotten):
            found[message] = tally
    return found


def digest_tallies(tallies: Mapping[str, PeopleTally]) -> str:
    """Return one digest, of 32 hexadecimal digits, of the tallies of messages, by message id.

    It is BLAKE2b-128 of each message that has anybody, sorted: its id, a NUL, the digest, a line break.
    """
    digest = hashlib.blake2b(digest_size=_RECORD_SIZE)
    for message, tally in sorted(tallies.items()):
        if tally:
            digest.update(f"{message}\0{tally.digest}\n".encode())
    return digest.hexdigest()
