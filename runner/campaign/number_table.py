"""A set of numbers below 2⁶⁴, exact, in a fraction of the memory of Python's own."""

from __future__ import annotations

from array import array

_FIRST_SIZE = 1 << 10
_SPREAD = 0x9E3779B97F4A7C15
_SPREAD_BITS = 40
"""2⁶⁴ over the golden ratio: neighbouring phones land far apart (Knuth, TAOCP 3, section 6.4)."""


class NumberTable:
    """Numbers that were seen: a hash table with open addressing, 16 to 32 bytes a number.

    Whole numbers are compared, so no two are taken for one. A million phones take 16 MiB, and 80 in a
    set of integers: what lets a plan keep to its share of memory (design: performance).
    """

    __slots__ = ("_free", "_mask", "_slots")

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * _FIRST_SIZE))
        self._mask = _FIRST_SIZE - 1
        self._free = _FIRST_SIZE // 2

    def add(self, number: int) -> bool:
        """Add a number, and return whether it is a new one.

        Args:
            number: from 1 to 2⁶⁴ - 1.
        """
        slots, mask = self._slots, self._mask
        index = number * _SPREAD >> _SPREAD_BITS & mask
        while found := slots[index]:
            if found == number:
                return False
            index = index + 1 & mask
        slots[index] = number
        self._free -= 1
        if not self._free:
            self._grow()
        return True

    def __contains__(self, number: int) -> bool:
        slots, mask = self._slots, self._mask
        index = number * _SPREAD >> _SPREAD_BITS & mask
        while found := slots[index]:
            if found == number:
                return True
            index = index + 1 & mask
        return False

    def __len__(self) -> int:
        return len(self._slots) // 2 - self._free

    def _grow(self) -> None:
        kept = self._slots
        slots = array("Q", bytes(16 * len(kept)))
        mask = len(slots) - 1
        for number in filter(None, kept):
            # As `add` does; but all are different, and a call for each is what most of the time goes on.
            index = number * _SPREAD >> _SPREAD_BITS & mask
            while slots[index]:
                index = index + 1 & mask
            slots[index] = number
        self._slots, self._mask = slots, mask
        self._free = len(kept) - len(kept) // 2
