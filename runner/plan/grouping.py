"""How many recipients share a launch, in a number or two a launch: there may be a million."""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from runner.campaign.number_table import NumberTable

if TYPE_CHECKING:
    from datetime import datetime

    from runner.campaign.payload import Payload

_DIGITS = 15
"""Of a digest: 60 bits. A collision would only let two launches wait for each other."""
_SPREAD = (1 << 60) - 1


class LaunchSizes:
    """Counts recipients by what they get: eight bytes each, and sorted only when they are all there."""

    def __init__(self) -> None:
        self._groups = array("Q")
        self.add = self._groups.append
        """Count one more recipient of a group."""

    def count_launches(self, per_send: int) -> int:
        """Return the launches that the groups take.

        Args:
            per_send: the most recipients of one.
        """
        repeated = self._find_repeated()
        several = sum(-(-(1 + more) // per_send) for more in repeated.values())
        return len(self._groups) - repeated.total() - len(repeated) + several

    def start_taking(self) -> Remaining:
        """Return a tally of what is left, from which recipients are taken one by one."""
        seen = NumberTable()
        for group in self._groups:
            seen.add(group)
        return Remaining(seen, self._find_repeated())

    def _find_repeated(self) -> Counter[int]:
        """Return the recipients beyond the first one of each group that has several."""
        return Counter(group for before, group in pairwise(sorted(self._groups)) if before == group)


class Remaining:
    """The recipients that a second pass has not met yet.

    Args:
        counted: every group of the first pass.
        repeated: the recipients beyond the first one of each group.
    """

    def __init__(self, counted: NumberTable, repeated: Counter[int]) -> None:
        self._counted = counted
        self._repeated = repeated
        self._left = len(counted) + repeated.total()
        self._begun = NumberTable()

    def take(self, group: int) -> int | None:
        """Take one recipient of a group, and return how many it has left; None if it had none.

        Args:
            group: as it was added.
        """
        if group not in self._counted:
            return None
        if not self._begun.add(group):
            if not self._repeated[group]:
                return None
            self._repeated[group] -= 1
        self._left -= 1
        return self._repeated[group]

    def is_empty(self) -> bool:
        """Return whether everyone was taken."""
        return not self._left


def group_of(payload: Payload, arm: str | None, until: datetime | None) -> int:
    """Return the number of those who can share a launch: from 1, below 2⁶⁴.

    Args:
        payload: what they get.
        arm: their arm: reports tell arms apart, even where the texts are the same.
        until: when it is no longer the time to text them.
    """
    number = int(payload.digest[:_DIGITS], 16)
    if arm is not None or until is not None:
        number ^= hash((arm, until)) & _SPREAD
    return number + 1
