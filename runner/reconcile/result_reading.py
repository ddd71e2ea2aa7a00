"""Reading of results into the ledger, until none is missing by the counts.

Results are keyed by launch and `result_guid`, opt-outs by the reply: storing one twice has no effect. Where
many launches of a tag lack results, the tag's list is read first; then each launch that still lacks some, by
the ledger, is read by its own list. The first pages of several launches are stored together, and for most
launches that is all.
The order of a list is not promised, and lists shift while they are paged: one pass may not show every
result, and only the counts tell. A pass continues at the end of the list that has something new, and ends
when nothing is missing; otherwise count and list are read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from runner.errors import ServiceError
from runner.ledger.bulk import divide
from runner.ledger.database import exclude_others
from runner.ledger.people.forgotten import note_forgotten_results
from runner.ledger.results.reconciled import Removed, list_held, remove_unlisted
from runner.reconcile.ingest import Owner, Owners, ResultIngest
from runner.service.model import PAGE
from runner.service.paging import ListWalk
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.reconcile.ingest import Stored
    from runner.reconcile.launches import LaunchReader, ReadLaunch, ReconcileContext
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

    If it is read whole, only results of this reading count; otherwise those that the ledger `held` at first
    count as met. The list overrides a lower or unknown count.
    """

    launch: ReadLaunch
    is_whole: bool
    held: set[str]
    claimed: int | None = field(default=None, init=False)
    lost: dict[str, Unreadable] = field(default_factory=dict, init=False)
    forgotten: set[str] = field(default_factory=set, init=False)
    has_shrunk: bool = field(default=False, init=False)
    _length: int = field(default=0, init=False)
    _has_ended: bool = field(default=False, init=False)

    @property
    def filters(self) -> dict[str, str]:
        return {"project_launch_guid": self.launch.project_launch_guid}

    @property
    def met(self) -> int:
        return len(self.held) + len(self.forgotten) + len(self.lost)

    @property
    def missing(self) -> int:
        return max(0, (self.launch.num_results or 0) - self.met)

    @property
    def is_full(self) -> bool:
        wanted = [count for count in (self.launch.num_results, self.claimed) if count is not None]
        # Nothing is known of a launch without a count before its list has been read.
        return bool(wanted) and self.met >= max(wanted)

    @property
    def is_overfull(self) -> bool:
        """True if more have come since the count, or some of the ledger's are listed under other guids."""
        return not self.is_whole and self.met > (self.launch.num_results or self.met)

    @property
    def is_done(self) -> bool:
        return self.is_full and not self.is_overfull and not self.has_shrunk

    @property
    def is_over(self) -> bool:
        """True if nothing is missing, or the list has nothing else, even if the service counts more."""
        return (self.is_full or self._has_ended) and not self.is_overfull

    def take(self, pages: Sequence[Page[ResultRecord]], stored: Stored) -> int:
        """Count pages, and return the number of results not met before."""
        before, guid = self.met, self.launch.project_launch_guid
        name = normalize_guid(guid)
        # Each unreadable one counts as met, since no other list has it in readable form.
        for one in (*(one for page in pages for one in page.unreadable), *stored.unreadable):
            if normalize_guid(one.project_launch_guid) == name:
                self.lost[one.guid or str(one.position)] = one
        self.held |= stored.met.get(guid, set())
        self.forgotten |= stored.forgotten.get(guid, set())
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
            if {normalize_guid(one.project_launch_guid) for one in page.records} <= {name}:
                self.claimed = page.total_count
        return found

    def end(self) -> None:
        """Compare a list that was read to its end with its own length."""
        self._has_ended = 0 < self._length <= self.met

    def start_over(self) -> None:
        """Forget what was met, and count only what is met from now on."""
        self.is_whole, self.claimed, self._length, self._has_ended = True, None, 0, False
        for names in (self.held, self.forgotten, self.lost):
            names.clear()

    def expect(self, before: int | None, counted: int | None) -> None:
        """Use a newer count of the service."""
        if counted is not None and before is not None and counted < before:
            self.start_over()
        elif counted is not None and counted != before:
            self._has_ended = False
        if self.is_overfull:
            self.start_over()

    def conclude(self) -> None:
        """Note what was listed of the launch."""
        launch, lost = self.launch, len(self.lost)
        launch.is_short = not self.is_full
        launch.shown = self.met - lost if self.is_whole else None
        launch.claimed = self.claimed if self.met < (self.claimed or 0) else None
        launch.lost = lost

    def has_met(self, guid: str) -> bool:
        """Return whether a result of a launch that was read whole is listed."""
        return guid in self.held or guid in self.lost


class _Opened(NamedTuple):
    """A launch's list whose first page has been read."""

    part: _LaunchList
    walk: ListWalk[ResultRecord]
    pages: list[Page[ResultRecord]]


@dataclass(slots=True)
class ResultReading:
    """Reading of the results that a campaign's launches lack; their counts are read again by `reader`.

    Attributes:
        removed: results that were removed, since they are listed under other guids, or not at all.
        unreadable: the first records that cannot be read; `lost` is the number of all.
    """

    context: ReconcileContext
    reader: LaunchReader
    removed: Removed = field(default_factory=Removed, init=False)
    unreadable: list[Unreadable] = field(default_factory=list, init=False)
    lost: int = field(default=0, init=False)
    _ingest: ResultIngest = field(init=False)
    _nameless: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        """Prepare storing."""
        context, launches = self.context, self.reader.launches.values()
        ours = (Owner(one.project_launch_guid, context.campaign_id, one.launch_id) for one in launches)
        self._ingest = ResultIngest(context, Owners(context.ledger, context.key.target, ours))

    def read_all(self) -> None:
        """Read all launches that lack results, and record the outcomes."""
        for tag in self.reader.tags:
            full = self.context.full or self._sweep(tag)
            due = [one for one in self.reader.list_under(tag) if full or one.is_uneven]
            for group in divide(due, PAGES_AT_ONCE):
                self._read_launches(self._list_parts(group, full=full))

    def _sweep(self, tag: str) -> bool:
        """Read the list of a tag where that takes fewer requests than those of its launches.

        Returns whether the list shrank: a deleted result may hide another one of any launch.
        """
        for _ in range(_SWEEPS):
            with self.context.ledger.reading() as connection:
                self.reader.count_held(connection)
            launches = [one for one in self.reader.list_under(tag) if one.num_results is not None]
            listed = sum(one.num_results or 0 for one in launches)
            if sum(one.is_uneven for one in launches) <= listed // PAGE + 1:
                break
            lacking = sum(max(0, (one.num_results or 0) - one.accounted) for one in launches)
            part = _TagList({"project_tag": tag}, lacking, listed)
            found = self._read_list(part)
            if part.has_shrunk:
                return True
            with self.context.ledger.reading() as connection:
                self.reader.count_held(connection)
            self.reader.read(tag, {one.project_launch_guid for one in launches if one.is_uneven})
            if not found:
                break
        return False

    def _list_parts(self, launches: Sequence[ReadLaunch], *, full: bool) -> list[_LaunchList]:
        """Return the lists of launches.

        A launch is read whole if the ledger has more than the service counts, as only the list tells which;
        and if the ledger has none yet.
        """
        parts = []
        with self.context.ledger.reading() as connection:
            for one in launches:
                is_whole = full or not 0 < one.held < (one.num_results or 0)
                held = set[str]() if is_whole else list_held(connection, one.launch_id)
                parts.append(_LaunchList(one, is_whole, held))
        return parts

    def _open_list(self, part: _TagList | _LaunchList) -> ListWalk[ResultRecord]:
        return ListWalk(partial(self.context.client.read_results, part.filters))

    def _read_launches(self, parts: Sequence[_LaunchList]) -> None:
        """Read launches by their own lists, whose first pages are stored together."""
        while opened := self._open_some(parts):
            parts = parts[len(opened) :]
            stored = self._store([page for one in opened for page in one.pages])
            found = [(one, one.part.take(one.pages, stored)) for one in opened]
            self._conclude([one.part for one in opened if one.part.is_done])
            for one, count in found:
                if not one.part.is_done:
                    self._read_launch(one, count)

    def _open_some(self, parts: Sequence[_LaunchList]) -> list[_Opened]:
        """Read the first pages of some launches; an error is raised once nothing was read before it."""
        opened: list[_Opened] = []
        try:
            for part in parts:
                walk = self._open_list(part)
                opened.append(_Opened(part, walk, walk.read_pages(1)))
        except ServiceError:
            if not opened:
                raise
        return opened

    def _read_launch(self, opened: _Opened, found: int) -> None:
        """Read a launch on after its first page, which had so many results not met before."""
        part, fruitless = opened.part, 0
        found = self._read_on(part, opened.walk, found)
        for _ in range(ROUNDS):
            fruitless = 0 if found else fruitless + 1
            if not part.is_full or part.is_overfull:
                part.expect(part.launch.num_results, self.reader.read_again(part.launch))
            if part.is_over or fruitless == FRUITLESS_ROUNDS:
                break
            if not found and not part.is_whole:
                # Another process may have stored what was missing.
                part.start_over()
            found = self._read_list(part)
        self._conclude([part])

    def _conclude(self, parts: Sequence[_LaunchList]) -> None:
        """Record the outcomes of launches that have been read."""
        if not parts:
            return
        for part in parts:
            part.conclude()
            self.lost += len(part.lost)
            self._show(part.lost.values())
        with self.context.ledger.writing() as connection:
            exclude_others(connection)
            changed = {
                part.launch.launch_id: len(part.forgotten)
                for part in parts
                if part.is_full and len(part.forgotten) != part.launch.forgotten
            }
            note_forgotten_results(connection, changed)
            self.reader.count_held(connection, [part.launch for part in parts])
            for part in parts:
                if part.launch.surplus:
                    number, drops = part.launch.launch_id, self.context.drops
                    removed = remove_unlisted(connection, number, part.has_met, drops=drops)
                    self.removed = self.removed.add(removed)

    def _show(self, records: Iterable[Unreadable]) -> None:
        self.unreadable += [*records][: max(0, SHOWN - len(self.unreadable))]

    def _read_list(self, part: _TagList | _LaunchList) -> int:
        """Read a list until nothing is missing, or to its end, and return the number of new results."""
        part.has_shrunk, walk = False, self._open_list(part)
        pages = walk.read_pages(1)
        return self._read_on(part, walk, part.take(pages, self._store(pages)))

    def _read_on(self, part: _TagList | _LaunchList, walk: ListWalk[ResultRecord], found: int) -> int:
        """Read a list on whose first page had so many new results; return their number in all."""
        total, most = found, 1
        while not part.has_shrunk and not part.is_full:
            # Where much is new, fewer transactions; a single page shows that nothing is.
            most = max(1, min(2 * most, PAGES_AT_ONCE, -(-part.missing // PAGE))) if found else 1
            if not found:
                walk.turn()
            if not (pages := walk.read_pages(most)):
                break
            found = part.take(pages, self._store(pages))
            total += found
        if walk.is_over and not part.has_shrunk:
            part.end()
        return total

    def _store(self, pages: Sequence[Page[ResultRecord]]) -> Stored:
        """Store the results of some pages, of some launches' lists or a tag's."""
        stored = self._ingest.store(
            [one for page in pages for one in page.records], [one for page in pages for one in page.partial]
        )
        self.context.observe_progress(stored.count)
        for one in (*(one for page in pages for one in page.unreadable), *stored.unreadable):
            # Those that name no launch may be of any.
            if not one.project_launch_guid and (name := one.guid or str(one.position)) not in self._nameless:
                self._nameless.add(name)
                self.lost += 1
                self._show([one])
        return stored
