"""The results still to be read of some launches, and the lists that have them."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.ledger.results.readings import ReadOutcome
from runner.service.model import PAGE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from runner.ledger.results.readings import DueLaunch
    from runner.service.model import Page, ResultRecord, Unreadable

SHOWN = 20
"""Unreadable records that are described."""
_BUCKETS = 2**16
_WORD = 2**64


class GuidSet:
    """A set of results met in a run, as 64-bit hashes.

    It takes about 25 bytes a result, against over 250 for a set of tuples. Two results with the same hash
    count as one: among 1,000,000 that happens once in 37 million runs, and then a list seems to lack a
    result, never to be full.
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
        """Return whether a result is in the set."""
        number = _number(launch_guid, guid)
        return number in self._buckets.get(number % _BUCKETS, ())


def takes_tag(launches: int, listed: int) -> bool:
    """Return whether some launches' results take fewer requests by the list of their tag, of that length."""
    return launches > listed // PAGE + 1


def _number(launch_guid: str, guid: str) -> int:
    return hash((launch_guid, guid)) % _WORD


@dataclass(slots=True)
class _Count:
    """The results of one launch: expected by the service's count, claimed by its list, and met.

    `starts` counts the times that it was read anew; `is_final`: the list has nothing else.
    """

    expected: int | None
    met: int
    is_whole: bool
    claimed: int | None = None
    lost: int = 0
    starts: int = 0
    is_final: bool = False

    @property
    def is_short(self) -> bool:
        wanted = [n for n in (self.expected, self.claimed) if n is not None]
        # Nothing is known of a launch without a count before its list has been read.
        return not wanted or self.met < max(wanted)

    @property
    def is_overfull(self) -> bool:
        return not self.is_whole and self.met > (self.expected or self.met)

    def start_over(self) -> None:
        self.starts += 1
        self.is_whole, self.is_final = True, False
        self.met = self.lost = 0
        self.claimed = None


@dataclass(slots=True)
class MissingResults:
    """Results met, compared with the service's count launch by launch.

    A launch is full when as many different results were met as the service counts. If it is read whole, only
    results of this run count; otherwise those that the ledger held at first count too, until its list turns
    out to shrink. A launch's own list overrides a lower or unknown count.

    Attributes:
        tag: the tag of all the launches.
        sources: the launches, by `project_launch_guid`.
        listed: the number of results that the service counts under the tag, of launches that are ours.
        unreadable: the first records that cannot be read.
        unreadable_count: the number of all of them.
    """

    tag: str
    sources: Mapping[str, DueLaunch]
    listed: int
    unreadable: list[Unreadable] = field(default_factory=list, init=False)
    unreadable_count: int = field(default=0, init=False)
    _counts: dict[str, _Count] = field(init=False)
    _short: set[str] = field(default_factory=set, init=False)
    _exceeds: bool = field(default=False, init=False)
    _seen: GuidSet = field(default_factory=GuidSet, init=False)
    _noted: GuidSet = field(default_factory=GuidSet, init=False)

    def __post_init__(self) -> None:
        """Start with the results that the ledger holds."""
        self._counts = {
            guid: _Count(one.num_results, 0 if one.is_whole else one.held, one.is_whole)
            for guid, one in self.sources.items()
        }
        self._sort(self._counts)

    def list_uneven(self) -> set[str]:
        """Return the launches that are not full, or of which more was met than the service counts.

        In a launch that is not read whole more have come since the count, or some of the ledger's are listed
        under other guids.
        """
        return self._short | {guid for guid, count in self._counts.items() if count.is_overfull}

    def expect(self, counted: Mapping[str, int | None]) -> None:
        """Use newer counts of the service; launches that are overfull by these, too, are read whole."""
        for guid, now in counted.items():
            count = self._counts[guid]
            before = count.expected
            if now is not None:
                count.expected = now
                if before is not None and now < before:
                    count.start_over()
                elif now != before:
                    count.is_final = False
        for count in self._counts.values():
            if count.is_overfull:
                count.start_over()
        self._sort(self._counts)

    def choose_lists(self, *, narrow: bool) -> list[dict[str, str]]:
        """Return the filters of the lists that have missing results, in order.

        Launches are read by tag where that takes fewer requests, and otherwise, or with `narrow`, one by one.
        """
        short = {guid for guid in self._short if not self._counts[guid].is_final}
        counted = self._list_counted(short)
        by_tag = not narrow and takes_tag(len(counted), self.listed)
        lists = [{"project_tag": self.tag}] if by_tag else []
        return lists + [
            {"project_launch_guid": guid} for guid in sorted(short - counted if by_tag else short)
        ]

    def lacks(self, filters: Mapping[str, str]) -> bool:
        """Return whether a list of `choose_lists` has missing results, as far as is known."""
        if "project_tag" in filters:
            # A tag's list never shows that a launch without a count is full.
            return self._exceeds or any(self._counts[guid].expected is not None for guid in self._short)
        return filters["project_launch_guid"] in self._short

    def count_missing(self, filters: Mapping[str, str]) -> int:
        """Return the number of missing results of a list, by the service's counts."""
        guid = filters.get("project_launch_guid")
        counts = [self._counts[one] for one in (self._short if guid is None else [guid])]
        return sum(max(0, (count.expected or 0) - count.met) for count in counts)

    def _list_counted(self, guids: Iterable[str]) -> set[str]:
        return {guid for guid in guids if self._counts[guid].expected is not None}

    def expect_listed(self, filters: Mapping[str, str], page: Page[ResultRecord]) -> None:
        """Use the length that a list claims, unless it includes other launches."""
        if page.total_count is None:
            return
        guid = filters.get("project_launch_guid")
        launches = {record.project_launch_guid for record in page.records}
        if guid is None:
            # Only the list itself tells the owners of results beyond the counts.
            self._exceeds = page.total_count > self.listed and launches <= self.sources.keys()
        elif launches <= {guid}:
            self._counts[guid].claimed = page.total_count
            self._sort([guid])

    def count(self, records: Iterable[ResultRecord], new: Collection[tuple[str, str]]) -> int:
        """Count a page of the launches' results, and return the number of those not met before.

        `new` has launch and `result_guid` of those that the ledger lacked, of launches that are not whole.
        """
        return self._add(
            one.project_launch_guid
            for one in records
            if (
                self._see(one.project_launch_guid, one.result_guid)
                if self._counts[one.project_launch_guid].is_whole
                else (one.project_launch_guid, one.result_guid) in new
            )
        )

    def count_unreadable(self, records: Iterable[Unreadable]) -> int:
        """Count unreadable records of the launches, and return the number of new ones.

        Each counts as met, since no other list has it in readable form.
        """
        launches = []
        for record in records:
            guid, name = record.project_launch_guid, record.guid or str(record.position)
            if (guid and guid not in self.sources) or not self._see(guid, name):
                continue
            if self._noted.add(guid, name):
                self.unreadable_count += 1
                self.unreadable += [record][: SHOWN - len(self.unreadable)]
            if guid:
                launches.append(guid)
                self._counts[guid].lost += 1
        return self._add(launches)

    def start_over(self, filters: Mapping[str, str]) -> None:
        """Forget the results met of a list that shrank while it was read.

        A deleted result was counted, and could hide one that moved to its place and was skipped.
        """
        guid = filters.get("project_launch_guid")
        for one in self._counts if guid is None else [guid]:
            self._counts[one].start_over()
        self._sort(self._counts)

    def compare(self, filters: Mapping[str, str], total_count: int) -> None:
        """Compare a list that was read to its end with its own length.

        A launch with as many results met as its list counts is not read again in this run, even if
        `num_results` is higher: the list has nothing else.
        """
        guid = filters.get("project_launch_guid")
        if guid is not None and self._counts[guid].met >= total_count:
            self._counts[guid].is_final = True

    def has_met(self, launch_guid: str, guid: str) -> bool:
        """Return whether a result was met, of a launch that was read whole."""
        return self._seen.has(launch_guid, self._name(launch_guid, guid))

    def conclude(self, even: Collection[int]) -> list[ReadOutcome]:
        """Return the outcome of each launch; `even` ones (the ledger's numbers) have all their results."""
        return [
            ReadOutcome(
                one.launch_id,
                guid in self._short and (count.is_whole or one.launch_id not in even),
                count.met - count.lost if count.is_whole else None,
                count.claimed if count.met < (count.claimed or 0) else None,
                count.lost,
            )
            for guid, one in self.sources.items()
            for count in [self._counts[guid]]
        ]

    def _add(self, launches: Iterable[str]) -> int:
        counts = Counter(launches)
        for guid, more in counts.items():
            self._counts[guid].met += more
        self._sort(counts)
        return counts.total()

    def _see(self, launch_guid: str, guid: str) -> bool:
        return self._seen.add(launch_guid, self._name(launch_guid, guid))

    def _name(self, launch_guid: str, guid: str) -> str:
        # Of records without a launch the first reading counts.
        return f"{self._counts[launch_guid].starts if launch_guid else 0} {guid}"

    def _sort(self, guids: Iterable[str]) -> None:
        for guid in guids:
            if self._counts[guid].is_short:
                self._short.add(guid)
            else:
                self._short.discard(guid)
