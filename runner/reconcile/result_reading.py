"""Reading of results into the ledger, until none is missing by the counts.

Results are keyed by launch and `result_guid`, opt-outs by the reply: storing one twice has no effect. Where
many launches of a tag lack results, the tag's list is read first; then each launch that still lacks some, by
the ledger, is read by its own list. The first pages of several launches are stored together, and for most
launches that is all.
The order of a list is not promised, and lists shift while they are paged: one pass may not show every
result, and only the counts tell. A pass continues at the end of the list that has something new, and ends
when nothing is missing; otherwise count and list are read again. The next pages are read while some are
stored: a killed run reads those again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from runner.errors import ServiceError
from runner.ledger.database import exclude_others
from runner.ledger.people.forgotten import note_forgotten_results
from runner.ledger.results.readings import ReadOutcome
from runner.ledger.results.reconciled import Removed, remove_unlisted
from runner.reconcile.ingest import ResultIngest
from runner.service.model import PAGE
from runner.service.paging import ListWalk, start
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

    filters: dict[str, str]
    missing: int
    listed: int
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

    If it is read whole, only results of this reading count; otherwise those that the ledger held at first
    count too. The list overrides a lower or unknown count.
    """

    due: DueLaunch
    claimed: int | None = field(default=None, init=False)
    lost: dict[str, Unreadable] = field(default_factory=dict, init=False)
    forgotten: set[str] = field(default_factory=set, init=False)
    has_shrunk: bool = field(default=False, init=False)
    _seen: set[str] = field(default_factory=set, init=False)
    _length: int = field(default=0, init=False)
    _has_ended: bool = field(default=False, init=False)

    @property
    def filters(self) -> dict[str, str]:
        return {"project_launch_guid": self.due.project_launch_guid}

    @property
    def met(self) -> int:
        known = 0 if self.due.is_whole else self.due.held
        return known + len(self._seen) + len(self.forgotten) + len(self.lost)

    @property
    def missing(self) -> int:
        return max(0, (self.due.num_results or 0) - self.met)

    @property
    def is_full(self) -> bool:
        wanted = [count for count in (self.due.num_results, self.claimed) if count is not None]
        # Nothing is known of a launch without a count before its list has been read.
        return bool(wanted) and self.met >= max(wanted)

    @property
    def is_overfull(self) -> bool:
        """True if more have come since the count, or some of the ledger's are listed under other guids."""
        return not self.due.is_whole and self.met > (self.due.num_results or self.met)

    @property
    def is_over(self) -> bool:
        """True if nothing is missing, or the list has nothing else, even if the service counts more."""
        return (self.is_full or self._has_ended) and not self.is_overfull

    def take(self, pages: Sequence[Page[ResultRecord]], stored: Stored) -> int:
        """Count pages, and return the number of results not met before."""
        before, guid = self.met, normalize_guid(self.due.project_launch_guid)
        # Each unreadable one counts as met, since no other list has it in readable form.
        unreadable = [*(one for page in pages for one in page.unreadable), *stored.unreadable]
        self.lost |= {
            one.guid or str(one.position): one
            for one in unreadable
            if normalize_guid(one.project_launch_guid) == guid
        }
        for name, fate in stored.met.get(self.due.project_launch_guid, {}).items():
            if fate == "forgotten":
                self.forgotten.add(name)
            elif self.due.is_whole or fate == "new":
                self._seen.add(name)
        found = self.met - before
        for page in pages:
            if page.total_count is None:
                continue
            if page.total_count < self._length:
                # A deleted result was counted, and could hide one that moved to its place and was skipped.
                self.start_over()
                self.has_shrunk = True
                return found
            self._length = page.total_count
            if {normalize_guid(one.project_launch_guid) for one in page.records} <= {guid}:
                self.claimed = page.total_count
        return found

    def end(self) -> None:
        """Compare a list that was read to its end with its own length."""
        self._has_ended = 0 < self._length <= self.met

    def start_over(self) -> None:
        """Forget what was met, and count only what is met from now on."""
        self.due.is_whole, self.claimed, self._length, self._has_ended = True, None, 0, False
        for names in (self._seen, self.forgotten, self.lost):
            names.clear()

    def expect(self, counted: int | None) -> None:
        """Use a newer count of the service."""
        before = self.due.num_results
        if counted is not None:
            self.due.num_results = counted
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
            self.met - len(self.lost) if self.due.is_whole else None,
            self.claimed if self.met < (self.claimed or 0) else None,
            len(self.lost),
        )

    def has_met(self, guid: str) -> bool:
        """Return whether a result of a launch that was read whole is listed."""
        return guid in self._seen or guid in self.lost


class _Opened(NamedTuple):
    """A launch's list whose first page has been read."""

    part: _LaunchList
    walk: ListWalk[ResultRecord]
    pages: list[Page[ResultRecord]]


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
        """Read all launches that lack results, and record the outcomes."""
        for tag in self._count_due():
            full = self.context.full or self._sweep(tag)
            after = 0
            while due := self._list_due(tag, after, full=full):
                self._read_launches(list(map(_LaunchList, due)))
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
            part = _TagList({"project_tag": tag}, due.lacking, due.listed)
            found = self._read_list(part, self._open_list(part))
            if part.has_shrunk:
                return True
            with self.context.ledger.reading() as connection:
                uneven = self.launches.reading.list_uncertain(connection, tag)
            self.launches.read(tag, uneven)
            if not found:
                break
        return False

    def _open_list(self, part: _TagList | _LaunchList) -> ListWalk[ResultRecord]:
        return ListWalk(partial(self.context.client.read_results, part.filters))

    def _read_launches(self, parts: list[_LaunchList]) -> None:
        """Read launches by their own lists, the first pages of some while those of others are stored."""
        opened = self._open_some(parts)
        while opened:
            parts = parts[len(opened) :]
            ahead = start(partial(self._open_some, parts))
            stored = self._store([page for one in opened for page in one.pages], [one.part for one in opened])
            done, others = list[_LaunchList](), list[tuple[_Opened, int]]()
            for one in opened:
                found = one.part.take(one.pages, stored)
                if one.part.is_full and not one.part.is_overfull and not one.part.has_shrunk:
                    done.append(one.part)
                else:
                    others.append((one, found))
            self._conclude(done)
            for one, found in others:
                self._read_launch(one, found)
            opened = ahead()

    def _open_some(self, parts: Sequence[_LaunchList]) -> list[_Opened]:
        """Read the first pages of some launches; an error is raised once nothing was read before it."""
        opened: list[_Opened] = []
        try:
            for part in parts[:PAGES_AT_ONCE]:
                walk = self._open_list(part)
                opened.append(_Opened(part, walk, walk.read_pages(1)))
        except ServiceError:
            if not opened:
                raise
        return opened

    def _read_launch(self, opened: _Opened, found: int) -> None:
        """Read a launch on after its first page, which had so many results not met before."""
        part, fruitless = opened.part, 0
        found = self._read_list(part, opened.walk, opened.pages, found)
        for _ in range(ROUNDS):
            fruitless = 0 if found else fruitless + 1
            if not part.is_full or part.is_overfull:
                part.expect(self.launches.read_again(part.due))
            if part.is_over or fruitless == FRUITLESS_ROUNDS:
                break
            if not found and not part.due.is_whole:
                # Another process may have stored what was missing.
                part.start_over()
            found = self._read_list(part, self._open_list(part))
        self._conclude([part])

    def _conclude(self, parts: Sequence[_LaunchList]) -> None:
        """Record the outcomes of launches that have been read."""
        if not parts:
            return
        reading, outcomes = self.launches.reading, [part.conclude() for part in parts]
        for part in parts:
            self.lost += len(part.lost)
            self._show(part.lost.values())
        with self.context.ledger.writing() as connection:
            exclude_others(connection)
            changed = {
                part.due.launch_id: len(part.forgotten)
                for part in parts
                if part.is_full and len(part.forgotten) != part.due.forgotten
            }
            note_forgotten_results(connection, changed)
            reading.note_outcomes(connection, outcomes)
            surplus = reading.find_surplus(connection, [one.launch_id for one in outcomes])
            for part in parts:
                number = part.due.launch_id
                if number in surplus:
                    removed = remove_unlisted(connection, number, part.has_met, drops=self.context.drops)
                    self.removed = self.removed.add(removed)

    def _show(self, records: Iterable[Unreadable]) -> None:
        self.unreadable += [*records][: max(0, SHOWN - len(self.unreadable))]

    def _read_list(
        self,
        part: _TagList | _LaunchList,
        walk: ListWalk[ResultRecord],
        pages: Sequence[Page[ResultRecord]] = (),
        found: int | None = None,
    ) -> int:
        """Read a list until nothing is missing, or to its end, and return the number of new results.

        `pages` have been stored already, with `found` new results.
        """
        total, most, wanted = 0, 1, part.missing + (found or 0)
        part.has_shrunk = part.has_shrunk and found is not None
        pages = pages or walk.read_pages(most)
        while pages:
            # Where much is new, fewer transactions, and the next pages are read meanwhile; a single page
            # shows that nothing is.
            most = min(2 * most, PAGES_AT_ONCE, -(-(wanted - total) // PAGE) - len(pages))
            ahead = start(partial(walk.read_pages, most)) if total and most > 0 else None
            if found is None:
                launches = [part] if isinstance(part, _LaunchList) else []
                found = part.take(pages, self._store(pages, launches))
            total += found
            following = [] if ahead is None else ahead()
            if part.has_shrunk:
                return total
            if not found:
                most = 1
                walk.turn()
            if not following and not part.is_full:
                following = walk.read_pages(max(1, most))
            pages, found = following, None
        if walk.is_over:
            part.end()
        return total

    def _store(self, pages: Sequence[Page[ResultRecord]], parts: Sequence[_LaunchList]) -> Stored:
        """Store the results of some pages, of some launches' lists or a tag's."""
        stored = self._ingest.store(
            [one for page in pages for one in page.records],
            [one for page in pages for one in page.partial],
            partly_held={part.due.launch_id for part in parts if not part.due.is_whole},
        )
        self.context.observe_progress(sum(map(len, stored.met.values())))
        for one in (*(one for page in pages for one in page.unreadable), *stored.unreadable):
            # Those that name no launch may be of any.
            if not one.project_launch_guid and (name := one.guid or str(one.position)) not in self._nameless:
                self._nameless.add(name)
                self.lost += 1
                self._show([one])
        return stored
