"""Shards of an audience: the same ones whoever plans it, and however many share the work."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHARDS = 1 << 9
"""The most partitions of a plan: each is made of as many neighbouring shards."""
PRIME = 65_521
"""The largest below 2¹⁶: numbers that follow each other at any step land in all the shards."""
SHIFT = 16 - 9
_DIGEST_BYTES = 16


def shard_of(number: int) -> int:
    """Return the shard of a phone.

    Args:
        number: E.164 as a number.
    """
    return number % PRIME >> SHIFT


def partition_of(number: int, count: int) -> int:
    """Return the partition of a phone.

    Args:
        number: E.164 as a number.
        count: how many partitions there are: a power of two, at most `SHARDS`.
    """
    return shard_of(number) * count // SHARDS


class DeliveryDigest:
    """Digests who gets what: in each shard in the order of the audience, whatever stands between.

    So partitions that are planned apart come to the same digest as one process that plans everything.
    """

    def __init__(self) -> None:
        digests = [hashlib.blake2b(digest_size=_DIGEST_BYTES) for _ in range(SHARDS)]
        self._digests = digests
        self._updates = [digest.update for digest in digests]

    def add(self, phone: str, line: str) -> None:
        """Add one delivery.

        Args:
            phone: E.164.
            line: what it gets; with a line break at its end.
        """
        self._updates[int(phone) % PRIME >> SHIFT](line.encode())

    def finish(self) -> dict[int, bytes]:
        """Return the digests of the shards that have deliveries."""
        digests = ((shard, digest.digest()) for shard, digest in enumerate(self._digests))
        return {shard: digest for shard, digest in digests if digest != _EMPTY}


_EMPTY = hashlib.blake2b(digest_size=_DIGEST_BYTES).digest()


def join_digests(parts: Iterable[Mapping[int, bytes]]) -> str:
    """Return the digest of all shards: 128 bits in hexadecimal.

    Args:
        parts: as `DeliveryDigest.finish` returns them; no shard is in several.
    """
    found = {shard: digest for part in parts for shard, digest in part.items()}
    whole = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for shard in sorted(found):
        whole.update(shard.to_bytes(2) + found[shard])
    return whole.hexdigest()
