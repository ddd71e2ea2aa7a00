"""Shards of an audience: the same ones whoever plans it, and however many share the work."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

SHARDS = 1 << 9
"""The most partitions of a plan: each is made of as many neighbouring shards."""
PRIME = 65_521
"""The largest below 2¹⁶: numbers that follow each other at any step land in all the shards."""
SHIFT = 16 - 9
_DIGEST_BYTES = 16
_MESSAGE_BYTES = 4
_ENTRY_BYTES = _MESSAGE_BYTES + _DIGEST_BYTES + 8


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
    """Digests who gets what, in whatever order they come: sorted in each shard.

    So partitions that are planned apart come to the same digest as one process that plans everything, and so
    do the files that say what a plan sends.
    """

    def __init__(self) -> None:
        entries = [bytearray() for _ in range(SHARDS)]
        self._entries = entries
        self._extend = [one.extend for one in entries]

    def add(self, phone: str, message: int, digest: str) -> None:
        """Add one delivery.

        Args:
            phone: E.164.
            message: the message's place among those that are planned.
            digest: of what is delivered: 128 bits in hexadecimal.

        Raises:
            ValueError: it is no delivery.
            OverflowError: as for ValueError.
        """
        number = int(phone)
        entry = b"%b%b%b" % (message.to_bytes(_MESSAGE_BYTES), bytes.fromhex(digest), number.to_bytes(8))
        self._extend[number % PRIME >> SHIFT](entry)

    def finish(self) -> dict[int, bytes]:
        """Return the digests of the shards that have deliveries."""
        return {shard: _digest_sorted(entries) for shard, entries in enumerate(self._entries) if entries}


def _digest_sorted(entries: bytearray) -> bytes:
    # Of one length, so that nothing in one can be taken for the beginning of the next.
    whole = bytes(entries)
    ordered = sorted([whole[start : start + _ENTRY_BYTES] for start in range(0, len(whole), _ENTRY_BYTES)])
    return hashlib.blake2b(b"".join(ordered), digest_size=_DIGEST_BYTES).digest()


@lru_cache(maxsize=1024)
def digest_terms(arm: str | None, until: datetime | None) -> str:
    """Return the digest of how a delivery is made: 128 bits in hexadecimal.

    Args:
        arm: the experiment's arm; None for a message without.
        until: from when on it is not the time for it any more; None if it always is.
    """
    text = json.dumps([arm, None if until is None else until.timestamp()])
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


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
