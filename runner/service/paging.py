"""Lists that are read a page at a time, from both their ends (reference, 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = 100
"""Records asked for at a time; no maximum is shown (reference, 8), so a page may come back smaller."""

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that cannot be read.

    Attributes:
        guid: of a result, its `result_guid`; empty if that cannot be read either.
        project_launch_guid: its launch, or the launch that it is; empty likewise.
        position: where in the list it stood, from 0: without a guid it has no other name.
        problem: what it lacks, in words and without its values.
    """

    guid: str
    project_launch_guid: str
    position: int
    problem: str


@dataclass(frozen=True, slots=True)
class Page(Generic[Record]):
    """One page of a list.

    Attributes:
        records: those that can be read, in the service's order.
        unreadable: the others.
        total_count: how many records the list had when it gave this page.
    """

    records: tuple[Record, ...]
    unreadable: tuple[Unreadable, ...]
    total_count: int

    @property
    def size(self) -> int:
        """How many records the service gave."""
        return len(self.records) + len(self.unreadable)


class ListWalk(Generic[Record]):
    """One pass over a list in whatever order: from its start, from its end, or in turns until both meet.

    In a list that grows in order of time, whichever way round, what is new stands at one of the ends. Who
    turns as soon as a page has nothing new finds that in one page too many, and never needs the order: what a
    shifting list has hidden from one pass is for its reader to count, and to find in the next.

    It always ends: each page moves one of the ends, or shows that pages are smaller than was thought.

    Args:
        read: gives at most `PAGE` records from an offset on.
    """

    def __init__(self, read: Callable[[int], Page[Record]]) -> None:
        self._read = read
        # What is not read yet: from `low` to `high`. The first page tells where the list ends.
        self._low, self._high = 0, 1
        self._size = PAGE
        self._is_forward = True
        self._has_turned = False

    @property
    def pages_left(self) -> int:
        """How many requests the rest takes."""
        return max(0, -(-(self._high - self._low) // self._size))

    @property
    def is_over(self) -> bool:
        """Whether there is no further page."""
        return self._low >= self._high

    def turn(self) -> None:
        """Go on from the other end, after a page has come."""
        self._is_forward = not self._is_forward
        self._has_turned = True

    def read_page(self) -> Page[Record] | None:
        """Return a page; None when there is no further one."""
        if self.is_over:
            return None
        return self._read_forward() if self._is_forward else self._read_backward()

    def _read_forward(self) -> Page[Record]:
        page = self._read(self._low)
        if not self._has_turned:
            self._high = page.total_count
        if self._low == 0 and 0 < page.size < page.total_count:
            self._size = page.size
        # A page with nothing on it is the end, whatever the list counts.
        self._low = self._low + page.size if page.size else self._high
        return page

    def _read_backward(self) -> Page[Record]:
        offset = max(self._low, self._high - self._size)
        page = self._read(offset)
        end = min(self._high, page.total_count)
        if 0 < page.size < end - offset:
            # There is a gap behind this page: the next ones are to be no longer than it.
            self._size, self._high = page.size, end
        else:
            self._high = offset
        return page
