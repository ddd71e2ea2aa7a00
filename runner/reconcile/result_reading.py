"""Reading of results into the ledger, until none is missing by the counts.

Results are keyed by launch and `result_guid`, opt-outs by the reply: storing one twice has no effect. Where
many launches of a tag lack results, the tag's list is read first; then each launch that still lacks some, by
the ledger, is read by its own list.
The order of a list is not promised, and lists shift while they are paged: one pass may not show every
result, and only the counts tell. A pass continues at the end of the list that has something new, and ends
when nothing is missing; otherwise count and list are read again. Pages are stored as they come, some at a
time: a killed run reads the last of them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from runner.ledger.database import exclude_others
from runner.ledger.people.forgotten import note_forgotten_results
from runner.ledger.results.readings import ReadOutcome
from runner.ledger.results.reconciled import Removed, remove_unlisted
from runner.reconcile.ingest import ResultIngest
from runner.service.model import PAGE
from runner.service.paging import ListWalk
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.ledger.results.readings import DueLaunch, DueResults
    from runner.reconcile.ingest import Stored
    from runner.reconcile.launches import LaunchReader, ReconcileContext
    from runner.service.model import Page, ResultRecord, Unreadable


ROUNDS = 40
"""The most readings of a list. If each page is drawn at random, a pass shows 1 - 1/e of the missing results:
the last of 1,000,000 is found after about 30."""
FRUITLESS_ROUNDS = 3
PAGES_AT_ONCE = 16
"""The most pages whose results are stored in one transaction."""
SHOWN = 20
"""Unreadable records that are described."""
_SWEEPS = 3
_LAUNCHES = 1_000
"""Launches looked up at a time."""


@dataclass(slots=True)
class _TagList:
    """A pass over a tag's list, for `missing` results; its launches have `listed` ones by their counts."""

    missing: int
    listed: int
    is_whole: bool = field(default=True, init=False)
    has_shrunk: bool = field(default=False, init=False)
    _exceeds: bool = field(default=False, init=False)
    _length: int = field(default=0, init=False)

    @property
    def is_full(self) -> bool:
        # Only the list itself tells the owners of results beyond the counts.
        return self.missing <= 0 and not self._exceeds

    def take(self, pages: Sequence[Page[ResultRecord]], stored: Stored) -> int:
        """Count pages, and return the number of results that the ledger lacked."""
        for page in pages:
            length = page.total_count or self._length
            self.has_shrunk = self.has_shrunk or length < self._length
            self._exceeds = length > self.listed and not stored.has_others
            self._length = length
        self.missing -= stored.changed
        return stored.changed

    def end(self) -> None:
        """Do nothing at the end of the list: the ledger tells what is missing."""


@dataclass(slots=True)
class _LaunchList:
    """The results of one launch: expected by the service's count, claimed by its own list, and met.

    If it `is_whole`, only results of this reading count; otherwise those that the ledger held at first count
    too. The list overrides a lower or unknown count.
    """

    due: DueLaunch
    expected: int | None
    is_whole: bool
    claimed: int | None = field(default=None, init=False)
    lost: dict[str, Unreadable] = field(default_factory=dict, init=False)
    forgotten: set[str] = field(default_factory=set, init=False)
    has_shrunk: bool = field(default=False, init=False)
    _seen: set[str] = field(default_factory=set, init=False)
    _length: int = field(default=0, init=False)
    _has_ended: bool = field(default=False, init=False)

    @property
    def met(self) -> int:
        known = 0 if self.is_whole else self.due.held
        return known + len(self._seen) + len(self.forgotten) + len(self.lost)

    @property
    def missing(self) -> int:
        return max(0, (self.expected or 0) - self.met)

    @property
    def is_full(self) -> bool:
        wanted = [count for count in (self.expected, self.claimed) if count is not None]
        # Nothing is known of a launch without a count before its list has been read.
        return bool(wanted) and self.met >= max(wanted)

    @property
    def is_overfull(self) -> bool:
        """True if more have come since the count, or some of the ledger's are listed under other guids."""
        return not self.is_whole and self.met > (self.expected or self.met)

    @property
    def is_over(self) -> bool:
        """True if nothing is missing, or the list has nothing else, even if the service counts more."""
        return (self.is_full or self._has_ended) and not self.is_overfull

    def take(self, pages: Sequence[Page[ResultRecord]], stored: Stored) -> int:
        """Count pages, and return the number of results not met before."""
        before, guid = self.met, self.due.project_launch_guid
        # Each counts as met, since no other list has it in readable form.
        self.lost |= {one.guid or str(one.position): one for one in stored.unreadable}
        self.forgotten |= {name for launch, name in stored.forgotten if launch == guid}
        met = stored.names if self.is_whole else stored.new
        self._seen |= {name for launch, name in met if launch == guid} - self.forgotten
        found = self.met - before
        is_own_list = not stored.has_others and {launch for launch, _ in stored.names} <= {guid}
        for page in pages:
            if page.total_count is None:
                continue
            if page.total_count < self._length:
                # A deleted result was counted, and could hide one that moved to its place and was skipped.
                self.start_over()
                self.has_shrunk = True
                return found
            self._length = page.total_count
            if is_own_list:
                self.claimed = page.total_count
        return found

    def end(self) -> None:
        """Compare a list that was read to its end with its own length."""
        self._has_ended = 0 < self._length <= self.met

    def start_over(self) -> None:
        """Forget what was met, and count only what is met from now on."""
        self.is_whole, self.claimed, self._length, self._has_ended = True, None, 0, False
        for names in (self._seen, self.forgotten, self.lost):
            names.clear()

    def expect(self, counted: int | None) -> None:
        """Use a newer count of the service."""
        before = self.expected
        if counted is not None:
            self.expected = counted
            if before is not None and counted < before:
                self.start_over()
            elif counted != before:
                self._has_ended = False
        if self.is_overfull:
            self.start_over()

    def conclude(self) -> ReadOutcome:
        return ReadOutcome(
            self.due.launch_id,
            not self.is_full,
            self.met - len(self.lost) if self.is_whole else None,
            self.claimed if self.met < (self.claimed or 0) else None,
            len(self.lost),
        )

    def has_met(self, guid: str) -> bool:
        """Return whether a result of a launch that was read whole is listed."""
        return guid in self._seen or guid in self.lost


@dataclass(slots=True)
class ResultReading:
    """Reading of the results that a campaign's launches lack; their counts are read again by `launches`.

    Attributes:
        removed: results that were removed, since they are listed under other guids, or not at all.
        unreadable: the first records that cannot be read; `lost` is the number of all.
    """

    context: ReconcileContext
    launches: LaunchReader
    removed: Removed = field(default_factory=Removed, init=False)
    unreadable: list[Unreadable] = field(default_factory=list, init=False)
    lost: int = field(default=0, init=False)
    _ingest: ResultIngest = field(init=False)
    _nameless: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        """Prepare storing."""
        self._ingest = ResultIngest(self.context, reading=self.launches.reading)

    def read_all(self) -> None:
        """Read all launches that lack results, and record the outcomes.

        Raises:
            ServiceError: the service cannot be asked; results read before are kept.
            LedgerError: the ledger cannot be written, or the target's key is not at hand.
        """
        for tag in self._count_due():
            full = self.context.full or self._sweep(tag)
            after = 0
            while due := self._list_due(tag, after, full=full):
                for launch in due:
                    self._read_launch(launch)
                after = due[-1].launch_id

    def _count_due(self) -> dict[str, DueResults]:
        with self.context.ledger.reading() as connection:
            return self.launches.reading.count_due(connection, full=self.context.full)

    def _list_due(self, tag: str, after: int, *, full: bool) -> list[DueLaunch]:
        with self.context.ledger.reading() as connection:
            return self.launches.reading.list_due(connection, tag, after, _LAUNCHES, full=full)

    def _sweep(self, tag: str) -> bool:
        """Read the list of a tag where that takes fewer requests than those of its launches.

        Returns whether the list shrank: a deleted result may hide another one of any launch.
        """
        for _ in range(_SWEEPS):
            due = self._count_due().get(tag)
            if due is None or due.launches <= due.listed // PAGE + 1:
                break
            part = _TagList(due.lacking, due.listed)
            found = self._read_list({"project_tag": tag}, part)
            if part.has_shrunk:
                return True
            with self.context.ledger.reading() as connection:
                uneven = self.launches.reading.list_uncertain(connection, tag)
            self.launches.read(tag, uneven)
            if not found:
                break
        return False

    def _read_launch(self, due: DueLaunch) -> None:
        part = _LaunchList(due, due.num_results, due.is_whole)
        filters = {"project_launch_guid": due.project_launch_guid}
        fruitless = 0
        for _ in range(ROUNDS):
            found = self._read_list(filters, part)
            fruitless = 0 if found else fruitless + 1
            if not part.is_full or part.is_overfull:
                part.expect(self.launches.read_again(due))
            if part.is_over or fruitless == FRUITLESS_ROUNDS:
                break
            if not found and not part.is_whole:
                # Another process may have stored what was missing.
                part.start_over()
        self._conclude(part)

    def _conclude(self, part: _LaunchList) -> None:
        outcome, reading, context = part.conclude(), self.launches.reading, self.context
        self.lost += len(part.lost)
        self._show(part.lost.values())
        with context.ledger.writing() as connection:
            exclude_others(connection)
            if not outcome.is_short and len(part.forgotten) != part.due.forgotten:
                note_forgotten_results(connection, {outcome.launch_id: len(part.forgotten)})
            reading.note_outcome(connection, outcome)
            if reading.has_surplus(connection, outcome.launch_id):
                removed = remove_unlisted(connection, outcome.launch_id, part.has_met, drops=context.drops)
                self.removed = self.removed.add(removed)

    def _show(self, records: Iterable[Unreadable]) -> None:
        self.unreadable += [*records][: max(0, SHOWN - len(self.unreadable))]

    def _read_list(self, filters: dict[str, str], part: _TagList | _LaunchList) -> int:
        """Read a list until nothing is missing, or to its end, and return the number of new results."""
        total, most, wanted = 0, 1, part.missing
        walk = ListWalk(partial(self.context.client.read_results, filters))
        pages = walk.read_pages(most)
        part.has_shrunk = False
        while pages:
            # Where much is new, fewer transactions, and the next pages are read meanwhile; a single page
            # shows that nothing is.
            most = min(2 * most, PAGES_AT_ONCE, -(-(wanted - total) // PAGE) - len(pages))
            ahead = walk.read_ahead(most) if total and most > 0 else None
            found = part.take(pages, self._store(filters.get("project_launch_guid", ""), pages, part))
            total += found
            following = [] if ahead is None else ahead()
            if part.has_shrunk:
                return total
            if not found:
                most = 1
                walk.turn()
            if not following and not part.is_full:
                following = walk.read_pages(max(1, most))
            pages = following
        if walk.is_over:
            part.end()
        return total

    def _store(self, guid: str, pages: Sequence[Page[ResultRecord]], part: _TagList | _LaunchList) -> Stored:
        """Store the results of some pages, of a launch's list or a tag's."""
        stored = self._ingest.store(
            [one for page in pages for one in page.records],
            [one for page in pages for one in page.partial],
            finds_new=not part.is_whole,
        )
        self.context.observe_progress(len(stored.names))
        unreadable = [*(one for page in pages for one in page.unreadable), *stored.unreadable]
        for one in unreadable:
            # Those that name no launch may be of any.
            if not one.project_launch_guid and (name := one.guid or str(one.position)) not in self._nameless:
                self._nameless.add(name)
                self.lost += 1
                self._show([one])
        wanted = normalize_guid(guid)
        theirs = [one for one in unreadable if wanted and normalize_guid(one.project_launch_guid) == wanted]
        return replace(stored, unreadable=theirs)
