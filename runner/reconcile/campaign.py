"""Reconciliation: the service's counts and results of a campaign's launches, brought into the ledger.

It is incremental: counts are read for every launch, results only of launches that lack some by their counts
(see `parts`). Counts that agree mean that nothing is missing as long as the service deletes no result. A full
reading also finds edited results, and deletions made up for by new results.
Results in the ledger have no phone. So launches with replies from before opt-outs were kept, or before the
present rules, are read once more.
A small campaign is read in one piece. Of a large one, long lists are read by ranges, also a tag's results
where that takes fewer requests; results hidden by a shifting list are then read by launch. Launches are
compared some thousands at a time, so memory does not grow with them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from runner.ledger.people.replies import count_replied, mark_screened
from runner.ledger.results.reconciled import list_spans, list_tags
from runner.ledger.results.result_feed import FeedSpan
from runner.reconcile.context import (
    choose_sources,
    count_listed,
    find_unscreened,
    keep_readings,
    keep_starts,
)
from runner.reconcile.ingest import ResultIngest
from runner.reconcile.missing_results import SHOWN, MissingResults, ReadLaunches, takes_tag
from runner.reconcile.parts import (
    LaunchGroup,
    Range,
    SessionLog,
    StatsReader,
    read_group,
    strip_stat,
    survey_range,
    sweep_range,
)
from runner.reconcile.spill import Spill
from runner.reconcile.summary import ReconcileSummary, find_differences, summarise
from runner.service.model import PAGE, StatRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from runner.reconcile.context import Held, ReconcileContext
    from runner.reconcile.missing_results import Source
    from runner.service.model import Unreadable


@dataclass(frozen=True, slots=True)
class Portions:
    """Amounts that are read at a time: list records, single launches, result pages.

    Launches are some hundreds at most. `span` is the number of launches that are compared at a time.
    """

    records: int = 20 * PAGE
    launches: int = 200
    pages: int = 50
    span: int = 10_000


MANY_RECIPIENTS = 100_000
"""Recipients of a campaign that is read in portions: in one piece, its launches and results take memory for
each."""


def reconcile_campaign(
    context: ReconcileContext, portions: Portions | None = None, *, accept: bool = False
) -> ReconcileSummary:
    """Bring one campaign's counts, results and opt-outs up to date.

    `portions` are used whatever the campaign's size; without them, large campaigns get the usual ones. With
    `accept`, the service's lists are taken as complete, whatever it counts.

    Raises:
        ServiceError: the service cannot be asked; results read before are kept.
        LedgerError: the ledger cannot be written, or the target's key is not at hand.
        RunnerError: the disk is full.
    """
    usual = portions or Portions()
    with context.ledger.reading() as connection:
        sizes = list_spans(connection, context.order.campaign_id, usual.span)
    spans = [size.span for size in sizes]
    if len(spans) > 1 or sum(size.recipients for size in sizes) >= MANY_RECIPIENTS:
        portions = usual
    find = context.find_scratch
    with Spill[StatRecord](find) as stats, Spill[ReadLaunches](find, most=2) as outcomes:
        return _Reconciliation(context, portions, spans or [FeedSpan(0, 0)], stats, outcomes).run(
            accept=accept
        )


@dataclass(slots=True)
class _Reconciliation:
    """The reconciliation of one campaign, by portions, or in one piece without them.

    Launches are compared one span after the other. What the service counts of them, and what was read of
    their results, waits in `stats` and `outcomes`, by the place of the span.
    """

    context: ReconcileContext
    portions: Portions | None
    spans: Sequence[FeedSpan]
    stats: Spill[StatRecord]
    outcomes: Spill[ReadLaunches]
    _unreadable: dict[str, Unreadable] = field(default_factory=dict, init=False)
    _unscreened: dict[int, set[str]] = field(default_factory=dict, init=False)
    _listed: Counter[str] = field(default_factory=Counter, init=False)
    _results: list[int] = field(default_factory=list, init=False)

    def run(self, *, accept: bool) -> ReconcileSummary:
        order, ledger = self.context.order, self.context.ledger
        replied = self._count_replied()
        self._survey()
        self._search()
        self._compare()
        unreadable: list[Unreadable] = []
        is_screened, nameless = True, 0
        for place in range(len(self.spans)):
            sources, read = self._read(place)
            self.outcomes.add(place, read)
            is_screened &= sources - read.short >= self._unscreened.get(place, set())
            unreadable += read.unreadable
            nameless += read.unreadable_count - sum(read.unreadable_of.values())
        if is_screened:
            with ledger.writing() as connection:
                mark_screened(connection, order.campaign_id, order.opt_out_words)
        # Last, and as of the start: a reconciled launch has all its answers known.
        parts = (
            self._conclude(place, accept=accept, is_anybodys=nameless > 0) for place in range(len(self.spans))
        )
        return reduce(ReconcileSummary.add, parts).replace(
            opted_out=self._count_replied() - replied,
            unreadable=[*self._unreadable.values(), *unreadable[:SHOWN]],
        )

    def _count_replied(self) -> int:
        with self.context.ledger.reading() as connection:
            return count_replied(connection, self.context.people.target)

    def _survey(self) -> None:
        """Read the counts of launches from long lists, in portions."""
        portions = self.portions
        if portions is None:
            return
        with self.context.ledger.reading() as connection:
            tags = list_tags(connection, self.context.order.campaign_id)
        # A list without a count is read in one piece.
        counts = {tag: self.context.client.count_launches(tag) or 0 for tag in tags}
        size = portions.records
        ranges = [part for tag in tags if counts[tag] > size for part in _cut(tag, counts[tag], size)]
        for surveyed in (survey_range(self.context, part) for part in ranges):
            for number, stat in zip(surveyed.numbers, surveyed.stats, strict=True):
                self.stats.add(self._find_place(number), stat)
            self._unreadable |= {one.project_launch_guid: one for one in surveyed.unreadable}
            self.context.observe_progress(len(surveyed.stats))

    def _search(self) -> None:
        """Read the counts of the launches that are still lacking."""
        context, missing = self.context, set[str]()
        for place in range(len(self.spans)):
            held, stats = self._read_span(place)
            self._results.append(held.results)
            missing |= held.launches.keys() - stats.keys() - self._unreadable.keys()
        if len(self.spans) > 1:
            held = context.read_held(missing)
        ingest = ResultIngest(context, {})
        log = SessionLog(ingest, held.launches)
        survey = StatsReader(context.client, held.launches, context.observe_progress, log.observe)
        found = survey.read_stats(missing)
        self._unreadable |= survey.unreadable
        keep_starts(context.ledger, held, found)
        ingest.store_stopped(found.values())
        log.keep()
        for guid, stat in found.items():
            launch = held.launches[guid]
            stripped = replace(strip_stat(stat, launch.tag), project_definition=stat.project_definition)
            self.stats.add(self._find_place(launch.id), stripped)

    def _compare(self) -> None:
        """Find the launches to be read; have tags' results read by ranges where that takes fewer requests."""
        context, order, portions = self.context, self.context.order, self.portions
        short = Counter[str]()
        for place, span in enumerate(self.spans):
            held, stats = self._read_span(place)
            self._listed += count_listed(held, stats)
            unscreened = find_unscreened(context.ledger, order.campaign_id, held, order.opt_out_words, span)
            if unscreened:
                self._unscreened[place] = unscreened
            sources = choose_sources(held, stats, unscreened, full=False)
            short += MissingResults(sources, {}).count_short()
        if portions is None or order.full:
            return
        tags = sorted(tag for tag, count in short.items() if takes_tag(count, self._listed[tag]))
        ranges = [part for tag in tags for part in _cut(tag, self._listed[tag], portions.records)]
        for part in ranges:
            context.observe_progress(sweep_range(context, part))

    def _read(self, place: int) -> tuple[AbstractSet[str], ReadLaunches]:
        """Read the results of launches of a span; return these launches, and the outcome."""
        unscreened, portions = self._unscreened.get(place, set()), self.portions
        held, stats = self._read_span(place)
        sources = choose_sources(held, stats, unscreened, full=self.context.order.full)
        groups = [
            LaunchGroup(
                {guid: source.stat for guid, source in group.items()},
                frozenset(unscreened & group.keys()),
                {source.launch.tag: self._listed[source.launch.tag] for source in group.values()},
            )
            for group in _group(sources, portions)
        ]
        read = ReadLaunches()
        for found in (read_group(self.context, group) for group in groups):
            read = read.add(found.read)
            for stat in found.newer.values():
                self.stats.add(place, stat)
            self._unreadable |= found.unreadable
            if portions is not None:
                self.context.observe_progress(found.seen)
        return sources.keys(), read

    def _conclude(self, place: int, *, accept: bool, is_anybodys: bool) -> ReconcileSummary:
        """Record what the service counts of a span's launches, and return what was found."""
        context, order, span = self.context, self.context.order, self.spans[place]
        after, stats = self._read_span(place)
        (read,) = self.outcomes.read(place)
        unread = self._unreadable.keys() & after.launches.keys()
        findings = find_differences(after, stats, unread, read, is_anybodys=is_anybodys)
        differences = keep_readings(
            context.ledger, order.campaign_id, after, stats, findings, order.at, accept=accept, span=span
        )
        return summarise(self._results[place], after, stats, unread, read, differences)

    def _read_span(self, place: int) -> tuple[Held, dict[str, StatRecord]]:
        """Return the ledger's data of a span's launches, and the newest counts of them."""
        held = self.context.read_held(span=self.spans[place])
        # Those of launches that were sent meanwhile are left to the next run.
        stats = {
            stat.project_launch_guid: stat
            for stat in self.stats.read(place)
            if stat.project_launch_guid in held.launches
        }
        return held, stats

    def _find_place(self, number: int) -> int:
        """Return the place of the span with a launch."""
        return bisect_right(self.spans, number, key=lambda span: span.first) - 1


def _cut(tag: str, count: int, size: int) -> list[Range]:
    return [Range(tag, first, min(size, count - first)) for first in range(0, count, size)]


def _group(sources: Mapping[str, Source], portions: Portions | None) -> Iterator[dict[str, Source]]:
    """Yield launches in groups of like tags, each about as long to read; all in one without portions."""
    group: dict[str, Source] = {}
    pages = 0
    for guid, source in sorted(sources.items(), key=lambda item: (item[1].launch.tag, item[0])):
        more = (source.stat.num_results or 0) // PAGE + 1
        is_full = portions is not None and (len(group) >= portions.launches or pages + more > portions.pages)
        if group and is_full:
            yield group
            group, pages = {}, 0
        group[guid] = source
        pages += more
    if group:
        yield group
