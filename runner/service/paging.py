"""Lists that are read a page at a time, from both their ends (reference, 2.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from runner.errors import UnusableListError
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from runner.service.model import ResultRecord, StatRecord

PAGE = 100
"""Records asked for at a time; no maximum is shown (reference, 8), so a page may come back smaller."""

MOST_RECORDS = 100_000_000
"""What a list may claim to have, or be found to have."""
_GROWTH = 10 * PAGE
"""By how much more than twofold a list may grow in one pass; the next one reads the rest."""
_MOST_REPEATS = 3
"""How often in a row the same page may come: once or twice, a list that grows may have moved by just that."""

Record = TypeVar("Record")
_LaunchRecord = TypeVar("_LaunchRecord", "StatRecord", "ResultRecord")


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
        total_count: how many records the list had when it gave this page; None if it doesn't say.
    """

    records: tuple[Record, ...]
    unreadable: tuple[Unreadable, ...]
    total_count: int | None

    @property
    def size(self) -> int:
        """How many records the service gave."""
        return len(self.records) + len(self.unreadable)

    def repeats(self, other: Page[Record] | None) -> bool:
        """Return whether it has what another page had: the list has not moved on."""
        return other is not None and bool(self.records) and self.records == other.records


class RecordedGuids:
    """The guids of some launches as they are on record; the service may list them in another case.

    Args:
        guids: the launches' `project_launch_guid`s.
    """

    def __init__(self, guids: Collection[str]) -> None:
        self._guids = guids
        self._mixed = {folded: guid for guid in guids if (folded := fold_guid(guid)) != guid}

    def spell(self, guid: str) -> str:
        """Return a guid as it is on record; as it is, if it isn't."""
        if guid in self._guids:
            return guid
        folded = fold_guid(guid)
        return self._mixed.get(folded, folded if folded in self._guids else guid)

    def spell_page(self, page: Page[_LaunchRecord]) -> Page[_LaunchRecord]:
        """Return a page whose launches are named as they are on record."""
        if all(one.project_launch_guid in self._guids for one in page.records) and not page.unreadable:
            return page
        return replace(
            page,
            records=tuple(self._spell_record(one) for one in page.records),
            unreadable=tuple(self._spell_record(one) for one in page.unreadable),
        )

    def _spell_record(self, record: Any) -> Any:
        return replace(record, project_launch_guid=self.spell(record.project_launch_guid))


class ListWalk(Generic[Record]):
    """One pass over a list in whatever order: from its start, from its end, or in turns until both meet.

    In a list that grows in order of time, whichever way round, what is new stands at one of the ends. Who
    turns as soon as a page has nothing new finds that in one page too many, and never needs the order: what a
    shifting list has hidden from one pass is for its reader to count, and to find in the next.

    A list that doesn't say how long it is is read from its start, until a page is empty.

    It always ends: each page moves one of the ends, or shows that pages are smaller than was thought. The
    same page again and again ends it as well. However a list grows, one pass reads about twice of it: what
    comes meanwhile is for the next one.

    Args:
        read: gives at most `PAGE` records from an offset on.
        most: how many records are read; a list that claims or gives more is refused.
    """

    def __init__(self, read: Callable[[int], Page[Record]], *, most: int = MOST_RECORDS) -> None:
        self._read = read
        self._most = most
        # What is not read yet: from `low` to `high`. The first page tells where the list ends.
        self._low, self._high = 0, 1
        self._longest: int | None = None
        self._last: Page[Record] | None = None
        self._repeats = 0
        self._size = PAGE
        self._is_counted = True
        self._is_forward = True
        self._has_turned = False

    @property
    def pages_left(self) -> int:
        """How many requests the rest takes; 1 more, as far as is known, of a list that doesn't say."""
        return max(0, -(-(self._high - self._low) // self._size))

    @property
    def is_over(self) -> bool:
        """Whether there is no further page."""
        return self._low >= self._high

    def turn(self) -> None:
        """Go on from the other end, after a page has come, if it is known where that is."""
        if self._is_counted:
            self._is_forward = not self._is_forward
            self._has_turned = True

    def read_page(self) -> Page[Record] | None:
        """Return a page; None when there is no further one.

        Raises:
            ServiceError: the list is longer than is read; or the service cannot be asked.
        """
        if self.is_over:
            return None
        page = self._read_forward() if self._is_forward else self._read_backward()
        self._repeats = self._repeats + 1 if page.repeats(self._last) else 0
        if self._repeats == _MOST_REPEATS:
            self._low = self._high
        self._last = page
        return page

    def _read_forward(self) -> Page[Record]:
        page = self._read(self._low)
        total = self._measure(page)
        if not self._has_turned:
            self._high = total
        if self._low == 0 and 0 < page.size < total:
            self._size = page.size
        # A page with nothing on it is the end, whatever the list counts.
        self._low = self._low + page.size if page.size else self._high
        return page

    def _read_backward(self) -> Page[Record]:
        offset = max(self._low, self._high - self._size)
        page = self._read(offset)
        end = min(self._high, self._measure(page))
        if 0 < page.size < end - offset:
            # There is a gap behind this page: the next ones are to be no longer than it.
            self._size, self._high = page.size, end
        else:
            self._high = offset
        return page

    def _measure(self, page: Page[Record]) -> int:
        """Return how long the list is, as far as one pass reads it."""
        end = self._low + page.size
        # Of one that doesn't say nothing is known but that an empty page is its end.
        total = end + (page.size > 0) if page.total_count is None else page.total_count
        if total > self._most:
            verb = "has" if page.total_count is None else "claims to have"
            raise UnusableListError(
                f"a list of the service {verb} {total:,} records: no more than {self._most:,} are read"
            )
        if page.total_count is None:
            self._is_counted = False
            return total
        if self._longest is None:
            self._longest = 2 * total + _GROWTH
        return min(total, self._longest)
