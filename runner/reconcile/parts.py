"""Reading of parts of the service's lists into the ledger.

Results are keyed by launch and `result_guid`, opt-outs by the reply: storing one twice has no effect.
The order of a list is not promised, and lists shift while they are paged: one pass may not show every
result, and only the counts tell. A pass continues at the end of the list that has something new, and ends
when nothing is missing; otherwise counts and lists are read again. Each page is stored as it comes, so an
interrupted run loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from runner.ledger.people.replies import find_undefined
from runner.reconcile.context import SessionEnds, choose_sources, keep_starts, remove_unlisted_results
from runner.reconcile.ingest import ResultIngest
from runner.reconcile.missing_results import MissingResults, ReadLaunches, Source
from runner.service.model import StatRecord, Unreadable
from runner.service.paging import ListWalk, RecordedGuids, find_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from runner.ledger.model import OpenLaunch
    from runner.reconcile.context import Held, ReconcileContext
    from runner.service.client import ServiceClient
    from runner.service.model import Page, ResultRecord


ROUNDS = 40
"""The most readings of the lists. If each page is drawn at random, a pass shows 1 - 1/e of the missing
results: the last of 1,000,000 is found after about 30."""
FRUITLESS_ROUNDS = 3
_UNCERTAIN = (
    "a result of the service does not tell for certain whose answer it is, or which question it answers"
)


@dataclass(slots=True)
class ResultReading:
    """Reading of the results that a backlog lacks."""

    client: ServiceClient
    missing: MissingResults
    ingest: ResultIngest
    read_stats: Callable[[set[str]], Iterable[StatRecord]]
    observe_progress: Callable[[int], None]
    _recorded: RecordedGuids = field(init=False)

    def __post_init__(self) -> None:
        """Note the names of the launches on record."""
        self._recorded = RecordedGuids(self.missing.sources)

    def read(self) -> dict[str, StatRecord]:
        """Read until the backlog is empty or no longer changes; return newer counts of short launches.

        Raises:
            ServiceError: the service cannot be asked; results read before are kept.
            LedgerError: the ledger cannot be written, or the target's key is not at hand.
        """
        newer: dict[str, StatRecord] = {}
        fruitless = 0
        for _ in range(ROUNDS):
            lists = self.missing.choose_lists(narrow=fruitless > 0)
            if not lists or fruitless == FRUITLESS_ROUNDS:
                break
            found = sum(self._read_list(filters) for filters in lists)
            fruitless = 0 if found else fruitless + 1
            if uneven := self.missing.list_short() | self.missing.list_overfull():
                newer |= {stat.project_launch_guid: stat for stat in self.read_stats(uneven)}
                self.missing.expect(newer[guid] for guid in uneven & newer.keys())
                self.missing.restart_overfull()
        return newer

    def _read_list(self, filters: dict[str, str]) -> int:
        """Read a list until its launches are full, or to its end, and return the number of new results."""
        total = length = 0
        walk = ListWalk(partial(self._read_page, filters))
        while self.missing.lacks(filters) and (page := walk.read_page()):
            found = self._store(page)
            total += found
            counted = page.total_count
            if counted is not None and counted < length:
                self.missing.start_over(filters)
                break
            self.missing.expect_listed(filters, page)
            length = counted or length
            if not found:
                walk.turn()
            if walk.is_over and counted is not None:
                self.missing.compare(filters, counted)
        return total

    def _read_page(self, filters: dict[str, str], offset: int) -> Page[ResultRecord]:
        return self._recorded.spell_page(self.client.read_results(filters, offset))

    def _store(self, page: Page[ResultRecord]) -> int:
        ours = {
            (record.project_launch_guid, record.result_guid): record
            for record in page.records
            if record.project_launch_guid in self.missing.sources
        }
        records = list(ours.values())
        partial = [one for one in page.partial if one.project_launch_guid in self.missing.sources]
        self.observe_progress(len(records))
        if not records and not partial:
            return self.missing.count_unreadable(page.unreadable)
        new, unplaced = self.ingest.store(records, partial)
        lost = [Unreadable(one.result_guid, one.project_launch_guid, 0, _UNCERTAIN) for one in unplaced]
        for record in unplaced:
            del ours[record.project_launch_guid, record.result_guid]
        found = self.missing.count(ours.values(), new)
        return found + self.missing.count_unreadable([*page.unreadable, *lost])


_AT_ONCE = 5_000
"""Sessions stored together."""


@dataclass(slots=True)
class StatsReader:
    """Reader of the counts of a campaign's launches (by `project_launch_guid`).

    `observe_record` gets each launch as it is read, with its recipients, perhaps repeatedly.
    """

    client: ServiceClient
    launches: Mapping[str, OpenLaunch]
    observe_progress: Callable[[int], None]
    observe_record: Callable[[StatRecord], None] = lambda _record: None
    unreadable: dict[str, Unreadable] = field(default_factory=dict, init=False)

    def read_stats(self, guids: set[str]) -> dict[str, StatRecord]:
        """Return the counts of some launches of the campaign, as far as the service knows them."""
        by_tag: dict[str, set[str]] = {}
        for guid in guids:
            by_tag.setdefault(self.launches[guid].tag, set()).add(guid)
        found: dict[str, StatRecord] = {}
        for tag, sought in sorted(by_tag.items()):
            found |= find_launches(
                self.client,
                tag,
                sought,
                observe_progress=self.observe_progress,
                observe_unreadable=self._note,
                observe_record=self.observe_record,
            )
        return found

    def _note(self, record: Unreadable) -> None:
        if record.project_launch_guid in self.launches:
            self.unreadable[record.project_launch_guid] = record


@dataclass(slots=True)
class SessionLog:
    """Record of the state of launches' sessions, and of launches without open ones."""

    ingest: ResultIngest
    launches: Mapping[str, OpenLaunch]
    _ends: SessionEnds = field(init=False)
    _waiting: list[StatRecord] = field(default_factory=list, init=False)
    _sessions: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Start with an empty log."""
        context = self.ingest.context
        self._ends = SessionEnds(context.ledger, context.key, self.launches)

    def observe(self, stat: StatRecord) -> None:
        """Note the sessions of a launch of the campaign.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        self._ends.observe(stat)
        self._waiting.append(stat)
        self._sessions += 1 + len(stat.recipients)
        if self._sessions >= _AT_ONCE:
            self._keep_sessions()

    def keep(self) -> None:
        """Record the notes since the last call.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        self._keep_sessions()
        self._ends.keep()

    def _keep_sessions(self) -> None:
        self.ingest.store_sessions(self.launches, self._waiting)
        self._waiting, self._sessions = [], 0


_PAGES = 5
"""Pages whose results are stored together: some hundreds of results."""
_Record = TypeVar("_Record", "StatRecord", "ResultRecord")


@dataclass(frozen=True, slots=True)
class Range:
    """A part of the list under a project tag: `count` records from the index `first`, which starts at 0."""

    tag: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class LaunchGroup:
    """Launches whose results are read together.

    Attributes:
        stats: their counts, without phones, by `project_launch_guid`.
        unscreened: launches to read in full, as their replies were never checked for opt-outs.
        listed: the number of results that the service counts under each of their tags.
    """

    stats: Mapping[str, StatRecord]
    unscreened: frozenset[str]
    listed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The campaign's launches in a range of the list, without phones; with texts that the ledger lacks.

    `numbers` are those of the launches in the ledger, in the order of `stats`.
    """

    stats: Sequence[StatRecord] = ()
    unreadable: Sequence[Unreadable] = ()
    numbers: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """The outcome of reading a group, with newer counts of launches for which the first were not enough."""

    read: ReadLaunches
    newer: Mapping[str, StatRecord]
    unreadable: Mapping[str, Unreadable]
    seen: int


def strip_stat(stat: StatRecord, tag: str) -> StatRecord:
    """Return a launch's counts without phones and texts, which would take memory for each."""
    return replace(
        stat, project_tag=tag, project_definition={}, recipients=(), stopped=(), blocked=(), statuses=()
    )


def survey_range(context: ReconcileContext, part: Range) -> Surveyed:
    """Read a range of a list of launches, and store their starts, sessions and opt-outs."""
    stats: list[StatRecord] = []
    unreadable: list[Unreadable] = []
    numbers: list[int] = []
    for page in _read_pages(lambda offset: context.client.read_stats(part.tag, offset), part):
        listed = {stat.project_launch_guid for stat in page.records}
        listed |= {one.project_launch_guid for one in page.unreadable}
        held = context.read_held(listed)
        ours = {
            stat.project_launch_guid: stat
            for stat in page.records
            if stat.project_launch_guid in held.launches
        }
        # In a common order, so that runs that write the same rows wait without deadlock.
        by_number = sorted(ours, key=lambda guid: held.launches[guid].id)
        keep_starts(context.ledger, held, {guid: ours[guid] for guid in by_number})
        ingest = ResultIngest(context, {})
        ingest.store_stopped(ours.values())
        log = SessionLog(ingest, held.launches)
        for stat in ours.values():
            log.observe(stat)
        log.keep()
        lacked = _list_undefined(context, held, ours)
        for guid, stat in ours.items():
            stripped = strip_stat(stat, part.tag)
            texts = stat.project_definition if guid in lacked else {}
            stats.append(replace(stripped, project_definition=texts))
            numbers.append(held.launches[guid].id)
        unreadable += (one for one in page.unreadable if one.project_launch_guid in held.launches)
    return Surveyed(stats, unreadable, numbers)


def _list_undefined(context: ReconcileContext, held: Held, guids: Iterable[str]) -> set[str]:
    """Return those of a page's launches whose texts the ledger lacks."""
    numbers = {held.launches[guid].id: guid for guid in guids}
    with context.ledger.reading() as connection:
        return {numbers[number] for number in find_undefined(connection, numbers.keys())}


def sweep_range(context: ReconcileContext, part: Range) -> int:
    """Read a range of a list of results, store those of the campaign, and return their number.

    Results that a shifting list has hidden are found later, by the counts.
    """
    filters = {"project_tag": part.tag}
    pages = iter(_read_pages(lambda offset: context.client.read_results(filters, offset), part))
    seen = 0
    # Writers of results wait for each other: fewer and larger writes are better.
    while some := list(islice(pages, _PAGES)):
        records = [record for page in some for record in page.records]
        seen += store_page(context, part.tag, records, [one for page in some for one in page.partial])
    return seen


def store_page(
    context: ReconcileContext, tag: str, records: Sequence[ResultRecord], partial: Sequence[ResultRecord]
) -> int:
    """Store results of the campaign's launches; return their number."""
    held = context.read_held({record.project_launch_guid for record in (*records, *partial)})
    found = {(record.project_launch_guid, record.result_guid): record for record in records}
    ours = [record for record in found.values() if record.project_launch_guid in held.launches]
    sources = {
        guid: Source(launch, _blank_stat(guid, tag), is_whole=True) for guid, launch in held.launches.items()
    }
    theirs = [record for record in partial if record.project_launch_guid in held.launches]
    if ours or theirs:
        ResultIngest(context, _define(context, sources)).store(ours, theirs)
    return len(ours)


@dataclass(slots=True)
class _Progress:
    """A counter of what was read, which passes the numbers on."""

    context: ReconcileContext
    seen: int = field(default=0)

    def add(self, more: int) -> None:
        self.seen += more
        self.context.observe_progress(more)


def read_group(context: ReconcileContext, group: LaunchGroup) -> ReadGroup:
    """Read the results of a group of launches until nothing is missing."""
    order, progress = context.order, _Progress(context)
    held = context.read_held(group.stats)
    sources = choose_sources(held, group.stats, group.unscreened, full=order.full)
    ingest, missing = ResultIngest(context, sources), MissingResults(sources, group.listed)
    log = SessionLog(ingest, held.launches)
    survey = StatsReader(context.client, held.launches, lambda _steps: None, log.observe)
    reading = ResultReading(
        context.client,
        missing,
        ingest,
        read_stats=lambda guids: survey.read_stats(guids).values(),
        observe_progress=progress.add,
    )
    newer = reading.read()
    log.keep()
    short = _leave_out_even(context, sources, missing.list_short(), {**group.stats, **newer})
    ingest.close(held.forgotten, short)
    removed = remove_unlisted_results(
        context.ledger, context.read_held(group.stats), missing, drops=order.drops
    )
    return ReadGroup(
        replace(ReadLaunches.of(missing, removed), short=short),
        {guid: strip_stat(stat, held.launches[guid].tag) for guid, stat in newer.items()},
        survey.unreadable,
        progress.seen,
    )


def _leave_out_even(
    context: ReconcileContext, sources: Mapping[str, Source], short: set[str], stats: Mapping[str, StatRecord]
) -> frozenset[str]:
    """Return the launches of which the ledger lacks results."""
    parts = {guid for guid in short if not sources[guid].is_whole}
    held = context.read_held(parts)
    return frozenset(short - {guid for guid in parts if held.account_for(guid) == stats[guid].num_results})


def _define(context: ReconcileContext, sources: Mapping[str, Source]) -> dict[str, Source]:
    """Return launches with the texts sent, for those of which the ledger does not have them."""
    with context.ledger.reading() as connection:
        undefined = find_undefined(connection, {source.launch.id for source in sources.values()})
    defined = dict(sources)
    for guid, source in sources.items():
        if source.launch.id in undefined:
            stat = context.client.read_stat(guid)
            if isinstance(stat, StatRecord):
                counts = replace(source.stat, project_definition=stat.project_definition)
                defined[guid] = replace(source, stat=counts)
    return defined


def _read_pages(read: Callable[[int], Page[_Record]], part: Range) -> Iterable[Page[_Record]]:
    """Yield the pages of a range; the last may extend beyond it."""
    offset, end = part.first, part.first + part.count
    while offset < end:
        page = read(offset)
        if not page.size:
            return
        yield page
        offset += page.size


def _blank_stat(guid: str, tag: str) -> StatRecord:
    return StatRecord(guid, "", None, None, None, None, None, None, None, tag, {}, ())
