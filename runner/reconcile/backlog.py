"""What is still to be read of a campaign's launches, and which lists have it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.reconcile.guid_set import GuidSet
from runner.service.paging import PAGE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from runner.reconcile.source import Source
    from runner.service.model import ResultRecord, StatRecord
    from runner.service.paging import Page, Unreadable

_SHOWN = 20


@dataclass(slots=True)
class Backlog:
    """Counts, launch by launch, what was met against what the service counts.

    A launch is full when as many different results of it were met as the service counts. Of one whose
    source is whole these are the results of this run alone; of any other what the ledger held at first counts
    too, so that only what the ledger lacks is looked for: until its list turns out to shrink. Where a
    launch's own list claims to have more than the service counts, or no count is known, its claim holds.

    Attributes:
        sources: the launches, by `project_launch_guid`.
        listed: how many results the service counts under each tag, of launches that are ours.
        unreadable: records that cannot be read, the first of them.
        unreadable_count: how many there are.
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
        """Begin with what the ledger holds."""
        self._expected = {guid: source.stat.num_results for guid, source in self.sources.items()}
        self._met = Counter(
            {guid: 0 if source.is_whole else source.launch.results for guid, source in self.sources.items()}
        )
        for guid in self.sources:
            self._sort(guid)

    def list_short(self) -> set[str]:
        """Return the launches that are not full."""
        return set().union(*self._short.values())

    def list_overfull(self) -> set[str]:
        """Return the launches, not read whole, of which more was met than the service counts.

        Either more has come since it was asked, or results that the ledger has are listed under other guids.
        """
        return {
            guid
            for guid in self.sources
            if not self._is_whole(guid) and self._met[guid] > (self._expected[guid] or self._met[guid])
        }

    def restart_overfull(self) -> None:
        """Have those read whole that are overfull by the newest counts, too."""
        for guid in self.list_overfull():
            self._start_over(guid)

    def lacks(self, filters: Mapping[str, str]) -> bool:
        """Return whether a list has something that is missing, as far as is known; one of `choose_lists`."""
        if "project_tag" in filters:
            # One without a count is never known to be full by its tag's list.
            counted = (self._expected[guid] is not None for guid in self._short[filters["project_tag"]])
            return self._exceeds or any(counted)
        return self._is_short(filters["project_launch_guid"])

    def expect(self, stats: Iterable[StatRecord]) -> None:
        """Go by newer counts of the service."""
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
        """Go by how many results a list claims to have, unless it has those of other launches, too."""
        if page.total_count is None:
            return
        guid, tag = filters.get("project_launch_guid"), filters.get("project_tag")
        launches = {record.project_launch_guid for record in page.records}
        if guid is not None and launches <= {guid}:
            self._claimed[guid] = page.total_count
            self._sort(guid)
        elif tag is not None:
            # Whose they are that go beyond the counts only the list itself can tell.
            self._exceeds = page.total_count > self.listed[tag] and launches <= self.sources.keys()

    def count(self, records: Iterable[ResultRecord], new: Collection[tuple[str, str]]) -> int:
        """Count what a page has brought, and return how much of it was not met before.

        Args:
            records: of the backlog's launches.
            new: launch and `result_guid` of those that were not in the ledger: of sources that are not whole.
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
        """Do the same with records that cannot be read; those of launches that are not ours are passed over.

        Each counts as met: nobody will find it elsewhere.
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
        self.unreadable += untold[: _SHOWN - len(self.unreadable)]
        launches = [record.project_launch_guid for record in fresh if record.project_launch_guid]
        self._unreadable.update(launches)
        return self._add(launches)

    def choose_lists(self, *, narrow: bool) -> list[dict[str, str]]:
        """Return the filters of the lists that have what is missing, in order.

        A tag's launches are read one by one where they are few, by tag where that takes fewer requests.

        Args:
            narrow: read them one by one anyway.
        """
        return [filters for tag in sorted(self._short) for filters in self._choose_of(tag, narrow=narrow)]

    def start_over(self, filters: Mapping[str, str]) -> None:
        """Forget what was met of a list from which something was deleted while it was read.

        What is gone was counted, and could stand in for what has moved to its place and was passed over.
        """
        for guid, source in self.sources.items():
            if filters.get("project_tag") == source.launch.tag or filters.get("project_launch_guid") == guid:
                self._start_over(guid)

    def compare(self, filters: Mapping[str, str], total_count: int) -> None:
        """Hold a list that was read to its end against its own length.

        A launch of which as many results were met as its list counts is not read again in this run, although
        `num_results` says that there are more: there is nothing else on the list.
        """
        guid = filters.get("project_launch_guid")
        if guid is not None and self._met[guid] >= total_count:
            self._given_up.add(guid)

    def count_listed(self) -> dict[str, int]:
        """Return how many results the service lists of launches that were read whole, and in full.

        What the ledger has beyond these is not listed any more; of other launches that is not known.
        """
        return {guid: count for guid, count in self.count_shown().items() if not self._is_short(guid)}

    def has_met(self, launch_guid: str, guid: str) -> bool:
        """Return whether a result was met, of a launch that was read whole."""
        return self._seen.has(launch_guid, self._name(launch_guid, guid))

    def count_shown(self) -> dict[str, int]:
        """Return how many results were shown that can be read, of launches that were read whole."""
        return {
            guid: self._met[guid] - self._unreadable[guid] for guid in self.sources if self._is_whole(guid)
        }

    def count_unreadable_of(self) -> dict[str, int]:
        """Return how many results that cannot be read were shown, of launches that have any."""
        return {guid: count for guid, count in self._unreadable.items() if count}

    def find_claims(self) -> dict[str, int]:
        """Return how many results lists of launches claim to have, of those that have shown fewer."""
        return {guid: count for guid, count in self._claimed.items() if self._met[guid] < count}

    def _choose_of(self, tag: str, *, narrow: bool) -> list[dict[str, str]]:
        short = self._short[tag] - self._given_up
        counted = {guid for guid in short if self._expected[guid] is not None}
        if narrow or len(counted) <= self.listed[tag] // PAGE + 1:
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
        # Of one without a count nothing is known before its list has been read.
        return not wanted or self._met[guid] < max(wanted)

    def _sort(self, guid: str) -> None:
        short = self._short.setdefault(self.sources[guid].launch.tag, set())
        if self._is_short(guid):
            short.add(guid)
        else:
            short.discard(guid)
