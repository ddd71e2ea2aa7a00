"""Reconciles a campaign on a cluster: workers read parts of lists, the client adds up what comes of it.

What is missing is found as one process finds it, launch by launch, by the service's counts. A tag's results
are read by ranges first where that takes fewer requests; what a list that shifted has hidden is then read
with its launch. As many requests are in flight at most as the target allows one process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from runner.cluster.reading import read_groups, survey_ranges, sweep_ranges
from runner.cluster.reading_order import LaunchGroup, Range, strip_stat
from runner.ledger.screening import count_replied, mark_screened
from runner.reconcile.backlog import Backlog
from runner.reconcile.held import (
    choose_sources,
    count_listed,
    find_unscreened,
    keep_readings,
    keep_starts,
    read_held,
)
from runner.reconcile.intake import Intake
from runner.reconcile.sessions import SessionLog
from runner.reconcile.summary import ReadLaunches, find_differences, summarise
from runner.reconcile.survey import Survey
from runner.service.model import StatRecord
from runner.service.paging import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.cluster.engine import Cluster
    from runner.cluster.reading_order import ReadingOrder
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.target_key import KeySource
    from runner.reconcile.held import Held
    from runner.reconcile.source import Source
    from runner.reconcile.summary import ReconcileSummary
    from runner.service.client import ServiceClient
    from runner.service.paging import Unreadable

_MOST_THREADS = 8
_SHOWN = 20
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Portions:
    """How much one thread of a worker reads at a time.

    Attributes:
        records: of a list.
        launches: one by one; some hundreds at most.
        pages: of their results.
    """

    records: int = 20 * PAGE
    launches: int = 200
    pages: int = 50


def share_requests(slots: int, concurrency: int) -> int:
    """Return how many requests a task may have in flight, so that all tasks together stay within a limit.

    Args:
        slots: how many tasks run at once.
        concurrency: the limit.
    """
    return min(_MOST_THREADS, max(1, concurrency // slots))


@dataclass(slots=True)
class ClusterReconciliation:
    """Reconciles one campaign.

    Attributes:
        cluster: connected.
        order: what workers are told.
        ledger: open for writing.
        client: the service.
        key: makes the fingerprints of the campaign's participants.
        people: makes those of the target's people.
        observe_progress: is called with the number of launches or results read since the last call.
        portions: how much is read at a time.
        accept: take what the service lists for all there is, whatever it counts.
    """

    cluster: Cluster
    order: ReadingOrder
    ledger: Ledger
    client: ServiceClient
    key: FingerprintKey
    people: KeySource
    observe_progress: Callable[[int], None]
    portions: Portions = Portions()
    accept: bool = False
    _unreadable: dict[str, Unreadable] = field(default_factory=dict, init=False)

    def run(self) -> ReconcileSummary:
        """Bring counts, results and opt-outs up to date.

        Raises:
            ServiceError: the service cannot be asked; what was read before is kept.
            LedgerError: the ledger cannot be written, or the target's key is not at hand.
            RunnerError: the cluster is lost.
        """
        before, replied = self._read_held(), self._count_replied()
        stats = self._survey(before)
        unscreened = find_unscreened(self.ledger, self.order.campaign_id, before, self.order.opt_out_words)
        if not self.order.full:
            self._sweep(choose_sources(before, stats, unscreened, full=False), before, stats)
        held = self._read_held()
        sources = choose_sources(held, stats, unscreened, full=self.order.full)
        read, newer = self._read(sources, unscreened, count_listed(held, stats))
        stats |= newer
        if sources.keys() - read.short >= unscreened:
            with self.ledger.writing() as connection:
                mark_screened(connection, self.order.campaign_id, self.order.opt_out_words)
        after = self._read_held()
        findings = find_differences(after, stats, self._unreadable.keys(), read)
        # Last, as one process does.
        differences = keep_readings(
            self.ledger, self.order.campaign_id, after, stats, findings, self.order.at, accept=self.accept
        )
        opted_out = self._count_replied() - replied
        return summarise(before, after, stats, self._unreadable, read, differences, opted_out)

    def _read_held(self) -> Held:
        return read_held(self.ledger, self.order.campaign_id, self.people.target)

    def _count_replied(self) -> int:
        with self.ledger.reading() as connection:
            return count_replied(connection, self.people.target)

    def _survey(self, held: Held) -> dict[str, StatRecord]:
        """Return the counts of all launches: long lists are read by workers, and what they lack here."""
        stats: dict[str, StatRecord] = {}
        tags = sorted({launch.tag for launch in held.launches.values()})
        # A list that isn't counted is read here, in one piece.
        counts = {tag: self.client.count_launches(tag) or 0 for tag in tags}
        # One portion is read here as quickly.
        long = [tag for tag in tags if counts[tag] > self.portions.records]
        ranges = [part for tag in long for part in self._cut(tag, counts[tag])]
        for surveyed in self._deal(survey_ranges, ranges):
            stats |= {stat.project_launch_guid: stat for stat in surveyed.stats}
            self._unreadable |= {one.project_launch_guid: one for one in surveyed.unreadable}
            self.observe_progress(len(surveyed.stats))
        intake = Intake(self.ledger, {}, self.order.campaign_id, self.order.campaign, self.key, self.people)
        log = SessionLog(intake, held.launches)
        survey = Survey(self.client, held.launches, self.observe_progress, log.observe)
        found = survey.read_stats(held.launches.keys() - stats.keys() - self._unreadable.keys())
        self._unreadable |= survey.unreadable
        keep_starts(self.ledger, held, found)
        intake.store_stopped(found.values(), self.order.at)
        log.keep()
        # What goes to workers on their way has no phones in it.
        return stats | {guid: strip_stat(stat, held.launches[guid].tag) for guid, stat in found.items()}

    def _sweep(self, sources: Mapping[str, Source], held: Held, stats: Mapping[str, StatRecord]) -> None:
        """Have the results of tags read by ranges whose launches, one by one, take more requests."""
        listed = count_listed(held, stats)
        lists = Backlog(sources, listed).choose_lists(narrow=False)
        tags = [filters["project_tag"] for filters in lists if "project_tag" in filters]
        ranges = [part for tag in tags for part in self._cut(tag, listed[tag])]
        for seen in self._deal(sweep_ranges, ranges):
            self.observe_progress(seen)

    def _read(
        self, sources: Mapping[str, Source], unscreened: set[str], listed: Mapping[str, int]
    ) -> tuple[ReadLaunches, dict[str, StatRecord]]:
        groups = [
            LaunchGroup(
                {guid: source.stat for guid, source in group.items()},
                frozenset(unscreened & group.keys()),
                {source.launch.tag: listed[source.launch.tag] for source in group.values()},
            )
            for group in self._group(sources)
        ]
        read, newer = ReadLaunches(), dict[str, StatRecord]()
        for found in self._deal(read_groups, groups):
            read = read.add(found.read)
            newer |= found.newer
            self.observe_progress(found.seen)
        return read, newer

    def _group(self, sources: Mapping[str, Source]) -> Iterator[dict[str, Source]]:
        """Yield launches in groups of like tags, each about as long to read."""
        group: dict[str, Source] = {}
        pages = 0
        for guid, source in sorted(sources.items(), key=lambda item: (item[1].launch.tag, item[0])):
            more = (source.stat.num_results or 0) // PAGE + 1
            if group and (len(group) >= self.portions.launches or pages + more > self.portions.pages):
                yield group
                group, pages = {}, 0
            group[guid] = source
            pages += more
        if group:
            yield group

    def _cut(self, tag: str, count: int) -> list[Range]:
        size = self.portions.records
        return [Range(tag, first, min(size, count - first)) for first in range(0, count, size)]

    def _deal(
        self,
        task: Callable[[ReadingOrder, Sequence[_Item]], list[_Found]],
        items: Sequence[_Item],
    ) -> Iterator[_Found]:
        """Have items worked on: as many at a time as requests may be in flight."""
        # With more slots than requests there are as many tasks as requests.
        most = self.order.target.target.concurrency
        hands = most if self.cluster.slots > most else -(-len(items) // self.order.threads)
        dealt = [items[number::hands] for number in range(min(hands, len(items)))]
        for _, found in self.cluster.run(task, ((self.order, hand) for hand in dealt)):
            yield from found
