"""The results still to be read of a campaign's launches, and the lists that have them."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.ledger.results.reconciled import Removed
from runner.service.model import PAGE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from runner.ledger.model import OpenLaunch
    from runner.service.model import Page, ResultRecord, StatRecord, Unreadable

SHOWN = 20
"""Unreadable records that are described."""
_BUCKETS = 2**16
_WORD = 2**64


@dataclass(frozen=True, slots=True)
class Source:
    """A launch whose results are read; whole, or only those that the ledger lacks."""

    launch: OpenLaunch
    stat: StatRecord
    is_whole: bool


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
class MissingResults:
    """Results met, compared with the service's count launch by launch.

    A launch is full when as many different results were met as the service counts. If its source is whole,
    only results of this run count; otherwise those that the ledger held at first count too, until its list
    turns out to shrink. A launch's own list overrides a lower or unknown count.

    Attributes:
        sources: the launches, by `project_launch_guid`.
        listed: the number of results that the service counts under each tag, of launches that are ours.
        unreadable: the first records that cannot be read.
        unreadable_count: the number of all of them.
    """

    sources: Mapping[str, Source]
    listed: Mapping[str, int]
    unreadable: list[Unreadable] = field(default_factory=list, init=False)
    unreadable_count: int = field(default=0, init=False)
    _expected: dict[str, int | None] = field(init=False)
    _claimed: dict[str, int] = field(default_factory=dict, init=False)
    _exceeds: bool = field(default=False, init=False)
    _met: Counter[str] = field(init=False)
    _unreadable: Counter[str] = field(default_factory=Counter, init=False)
    _seen: GuidSet = field(default_factory=GuidSet, init=False)
    _told: GuidSet = field(default_factory=GuidSet, init=False)
    _short: dict[str, set[str]] = field(default_factory=dict, init=False)
    _given_up: set[str] = field(default_factory=set, init=False)
    _starts: Counter[str] = field(default_factory=Counter, init=False)

    def __post_init__(self) -> None:
        """Start with the results that the ledger holds."""
        self._expected = {guid: source.stat.num_results for guid, source in self.sources.items()}
        self._met = Counter(
            {guid: 0 if source.is_whole else source.launch.results for guid, source in self.sources.items()}
        )
        for guid in self.sources:
            self._sort(guid)

    def list_short(self) -> set[str]:
        """Return the launches that are not full."""
        return set().union(*self._short.values())

    def count_short(self) -> Counter[str]:
        """Return the number of launches with a count that are not full, by tag."""
        return Counter(
            {
                tag: sum(self._expected[guid] is not None for guid in short)
                for tag, short in self._short.items()
            }
        )

    def list_overfull(self) -> set[str]:
        """Return the launches, not read whole, with more results met than the service counts.

        Either more have come since the count, or some of the ledger's are listed under other guids.
        """
        return {
            guid
            for guid in self.sources
            if not self._is_whole(guid) and self._met[guid] > (self._expected[guid] or self._met[guid])
        }

    def restart_overfull(self) -> None:
        """Have launches read whole that are overfull by the newest counts, too."""
        for guid in self.list_overfull():
            self._start_over(guid)

    def lacks(self, filters: Mapping[str, str]) -> bool:
        """Return whether a list of `choose_lists` has missing results, as far as is known."""
        if "project_tag" in filters:
            # A tag's list never shows that a launch without a count is full.
            counted = (self._expected[guid] is not None for guid in self._short[filters["project_tag"]])
            return self._exceeds or any(counted)
        return self._is_short(filters["project_launch_guid"])

    def expect(self, stats: Iterable[StatRecord]) -> None:
        """Use newer counts of the service."""
        for stat in stats:
            guid, now = stat.project_launch_guid, stat.num_results
            before = self._expected[guid]
            if now is None:
                continue
            self._expected[guid] = now
            if before is not None and now < before:
                self._start_over(guid)
            elif now != before:
                self._given_up.discard(guid)
            self._sort(guid)

    def expect_listed(self, filters: Mapping[str, str], page: Page[ResultRecord]) -> None:
        """Use the length that a list claims, unless it includes other launches."""
        if page.total_count is None:
            return
        guid, tag = filters.get("project_launch_guid"), filters.get("project_tag")
        launches = {record.project_launch_guid for record in page.records}
        if guid is not None and launches <= {guid}:
            self._claimed[guid] = page.total_count
            self._sort(guid)
        elif tag is not None:
            # Only the list itself tells the owners of results beyond the counts.
            self._exceeds = page.total_count > self.listed[tag] and launches <= self.sources.keys()

    def count(self, records: Iterable[ResultRecord], new: Collection[tuple[str, str]]) -> int:
        """Count a page of the backlog's launches, and return the number of results not met before.

        `new` has launch and `result_guid` of those that the ledger lacked, of sources that are not whole.
        """
        fresh = [
            record.project_launch_guid
            for record in records
            if (
                self._see(record.project_launch_guid, record.result_guid)
                if self._is_whole(record.project_launch_guid)
                else (record.project_launch_guid, record.result_guid) in new
            )
        ]
        return self._add(fresh)

    def count_unreadable(self, records: Iterable[Unreadable]) -> int:
        """Count unreadable records of the backlog's launches, and return the number of new ones.

        Each counts as met, since no other list has it in readable form.
        """
        fresh = [
            record
            for record in records
            if record.project_launch_guid in {"", *self.sources}
            and self._see(record.project_launch_guid, record.guid or str(record.position))
        ]
        untold = [
            record
            for record in fresh
            if self._told.add(record.project_launch_guid, record.guid or str(record.position))
        ]
        self.unreadable_count += len(untold)
        self.unreadable += untold[: SHOWN - len(self.unreadable)]
        launches = [record.project_launch_guid for record in fresh if record.project_launch_guid]
        self._unreadable.update(launches)
        return self._add(launches)

    def choose_lists(self, *, narrow: bool) -> list[dict[str, str]]:
        """Return the filters of the lists that have missing results, in order.

        Launches are read by tag where that takes fewer requests, and otherwise, or with `narrow`, one by one.
        """
        return [filters for tag in sorted(self._short) for filters in self._choose_of(tag, narrow=narrow)]

    def start_over(self, filters: Mapping[str, str]) -> None:
        """Forget the results met of a list that shrank while it was read.

        A deleted result was counted, and could hide one that moved to its place and was skipped.
        """
        for guid, source in self.sources.items():
            if filters.get("project_tag") == source.launch.tag or filters.get("project_launch_guid") == guid:
                self._start_over(guid)

    def compare(self, filters: Mapping[str, str], total_count: int) -> None:
        """Compare a list that was read to its end with its own length.

        A launch with as many results met as its list counts is not read again in this run, even if
        `num_results` is higher: the list has nothing else.
        """
        guid = filters.get("project_launch_guid")
        if guid is not None and self._met[guid] >= total_count:
            self._given_up.add(guid)

    def count_listed(self) -> dict[str, int]:
        """Return the number of listed results of each launch that was read whole and in full.

        Further results in the ledger are not listed any more; for other launches that is not known.
        """
        return {guid: count for guid, count in self.count_shown().items() if not self._is_short(guid)}

    def has_met(self, launch_guid: str, guid: str) -> bool:
        """Return whether a result was met, of a launch that was read whole."""
        return self._seen.has(launch_guid, self._name(launch_guid, guid))

    def count_shown(self) -> dict[str, int]:
        """Return the number of readable results shown, of launches that were read whole."""
        return {
            guid: self._met[guid] - self._unreadable[guid] for guid in self.sources if self._is_whole(guid)
        }

    def count_unreadable_of(self) -> dict[str, int]:
        """Return the number of unreadable results shown, of launches that have any."""
        return {guid: count for guid, count in self._unreadable.items() if count}

    def find_claims(self) -> dict[str, int]:
        """Return the lengths that launches' lists claim, where the lists have shown fewer results."""
        return {guid: count for guid, count in self._claimed.items() if self._met[guid] < count}

    def _choose_of(self, tag: str, *, narrow: bool) -> list[dict[str, str]]:
        short = self._short[tag] - self._given_up
        counted = {guid for guid in short if self._expected[guid] is not None}
        if narrow or not takes_tag(len(counted), self.listed[tag]):
            return [{"project_launch_guid": guid} for guid in sorted(short)]
        return [{"project_tag": tag}, *({"project_launch_guid": guid} for guid in sorted(short - counted))]

    def _add(self, launches: Iterable[str]) -> int:
        counts = Counter(launches)
        self._met.update(counts)
        for guid in counts:
            self._sort(guid)
        return counts.total()

    def _start_over(self, guid: str) -> None:
        self._starts[guid] += 1
        self._met[guid] = self._unreadable[guid] = 0
        self._given_up.discard(guid)
        self._claimed.pop(guid, None)
        self._sort(guid)

    def _is_whole(self, guid: str) -> bool:
        return self.sources[guid].is_whole or self._starts[guid] > 0

    def _see(self, launch_guid: str, guid: str) -> bool:
        return self._seen.add(launch_guid, self._name(launch_guid, guid))

    def _name(self, launch_guid: str, guid: str) -> str:
        return f"{self._starts[launch_guid]} {guid}"

    def _is_short(self, guid: str) -> bool:
        wanted = [n for n in (self._expected[guid], self._claimed.get(guid)) if n is not None]
        # Nothing is known of a launch without a count before its list has been read.
        return not wanted or self._met[guid] < max(wanted)

    def _sort(self, guid: str) -> None:
        short = self._short.setdefault(self.sources[guid].launch.tag, set())
        if self._is_short(guid):
            short.add(guid)
        else:
            short.discard(guid)


@dataclass(frozen=True, slots=True)
class ReadLaunches:
    """The outcome of reading the results of some launches, in one process or several.

    Attributes:
        short: launches with fewer results listed than the service counts, or than the list claims.
        listed: numbers of readable listed results, of launches that were read whole and in full.
        shown: the same of all launches that were read whole.
        claims: lengths that launches' lists claim, where they have shown fewer.
        unreadable: the first records that cannot be read.
        unreadable_count: the number of all of them.
        unreadable_of: their number by launch, where they name one.
        removed: results that are not listed under the guids that the ledger had.
    """

    short: frozenset[str] = frozenset()
    listed: Mapping[str, int] = field(default_factory=dict)
    shown: Mapping[str, int] = field(default_factory=dict)
    claims: Mapping[str, int] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()
    unreadable_count: int = 0
    unreadable_of: Mapping[str, int] = field(default_factory=dict)
    removed: Removed = field(default_factory=Removed)

    @classmethod
    def of(cls, missing: MissingResults, removed: Removed) -> ReadLaunches:
        """Return the outcome of a backlog that was read."""
        return cls(
            frozenset(missing.list_short()),
            missing.count_listed(),
            missing.count_shown(),
            missing.find_claims(),
            tuple(missing.unreadable),
            missing.unreadable_count,
            missing.count_unreadable_of(),
            removed,
        )

    def add(self, other: ReadLaunches) -> ReadLaunches:
        """Return the sum of two outcomes."""
        return ReadLaunches(
            self.short | other.short,
            {**self.listed, **other.listed},
            {**self.shown, **other.shown},
            {**self.claims, **other.claims},
            (*self.unreadable, *other.unreadable)[:SHOWN],
            self.unreadable_count + other.unreadable_count,
            {**self.unreadable_of, **other.unreadable_of},
            Removed(*map(sum, zip(self.removed, other.removed, strict=True))),
        )
