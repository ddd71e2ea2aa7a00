"""Very many fingerprints in little memory: 16 bytes each, where a set of strings takes over 100."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGITS = 32  # of the longest fingerprint: 128 bits
_WORD_BITS = 64
_WORD_MASK = 2**_WORD_BITS - 1


class FingerprintSet:
    """Fingerprints, each as often as it was given. Nothing is lost: two that differ stay two.

    Args:
        fingerprints: at most 32 hexadecimal digits each, all of one length, sorted.
    """

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
        """Return how often a fingerprint was given."""
        number = _read(fingerprint)
        high, low = number >> _WORD_BITS, number & _WORD_MASK
        start = bisect_left(self._high, high)
        if start == len(self._high) or self._high[start] != high:
            return 0
        stop = bisect_right(self._high, high, start, len(self._high))
        return sum(self._low[index] == low for index in range(start, stop))

    @property
    def size(self) -> int:
        """The memory that it takes, in bytes."""
        return self._high.itemsize * len(self._high) + self._low.itemsize * len(self._low)


def _read(fingerprint: str) -> int:
    return int(fingerprint.ljust(_DIGITS, "0"), 16)
