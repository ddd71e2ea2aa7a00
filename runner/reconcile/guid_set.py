"""Very many names in little memory."""

from __future__ import annotations

from array import array

_BUCKETS = 2**16
_WORD = 2**64


class GuidSet:
    """The results that one run has met: about 25 bytes each, where a set of tuples of texts takes over 250.

    It keeps their 64-bit hashes alone. Two results with the same hash count as one: among 1,000,000 that
    happens once in 37 million runs, and then a list seems to lack a result, never to be full.
    """

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}

    def add(self, launch_guid: str, guid: str) -> bool:
        """Add a result, and return whether it is new."""
        number = _number(launch_guid, guid)
        bucket = self._buckets.get(number % _BUCKETS)
        if bucket is None:
            bucket = self._buckets[number % _BUCKETS] = array("Q")
        if number in bucket:
            return False
        bucket.append(number)
        return True

    def has(self, launch_guid: str, guid: str) -> bool:
        """Return whether a result is among them."""
        number = _number(launch_guid, guid)
        return number in self._buckets.get(number % _BUCKETS, ())


def _number(launch_guid: str, guid: str) -> int:
    return hash((launch_guid, guid)) % _WORD
