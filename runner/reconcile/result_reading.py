"""Reading of results into the ledger, until none is missing by the counts.

Results are keyed by launch and `result_guid`, opt-outs by the reply: storing one twice has no effect.
The order of a list is not promised, and lists shift while they are paged: one pass may not show every
result, and only the counts tell. A pass continues at the end of the list that has something new, and ends
when nothing is missing; otherwise counts and lists are read again. Pages are stored as they come, some at a
time: a killed run reads the last of them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from runner.ledger.database import exclude_others
from runner.ledger.results.reconciled import Removed, remove_unlisted
from runner.reconcile.ingest import ResultIngest
from runner.service.model import PAGE, Unreadable
from runner.service.paging import ListWalk, RecordedGuids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.reconcile.launches import LaunchReader, ReconcileContext
    from runner.reconcile.missing_results import MissingResults
    from runner.service.model import Page, ResultRecord


ROUNDS = 40
"""The most readings of the lists. If each page is drawn at random, a pass shows 1 - 1/e of the missing
results: the last of 1,000,000 is found after about 30."""
FRUITLESS_ROUNDS = 3
PAGES_AT_ONCE = 16
"""The most pages whose results are stored in one transaction."""
_UNCERTAIN = (
    "a result of the service does not tell for certain whose answer it is, or which question it answers"
)


@dataclass(slots=True)
class ResultReading:
    """Reading of the results that some launches lack; their counts are read again by `launches`."""

    context: ReconcileContext
    launches: LaunchReader
    missing: MissingResults
    _ingest: ResultIngest = field(init=False)
    _recorded: RecordedGuids = field(init=False)

    def __post_init__(self) -> None:
        """Note the launches' guids."""
        self._ingest = ResultIngest(self.context, self.launches.reading, dict(self.missing.sources))
        self._recorded = RecordedGuids(self.missing.sources.keys())

    def read(self) -> Removed:
        """Read until nothing is missing or nothing changes any more, and record the outcome.

        Returns the results that were removed, since they are listed under other guids, or not at all.

        Raises:
            ServiceError: the service cannot be asked; results read before are kept.
            LedgerError: the ledger cannot be written, or the target's key is not at hand.
        """
        fruitless = 0
        for _ in range(ROUNDS):
            lists = self.missing.choose_lists(narrow=fruitless > 0)
            if not lists or fruitless == FRUITLESS_ROUNDS:
                break
            found = sum(self._read_list(filters) for filters in lists)
            fruitless = 0 if found else fruitless + 1
            if uneven := self.missing.list_uneven():
                newer = self.launches.read(self.missing.tag, uneven)
                self.missing.expect({guid: newer[guid].num_results for guid in uneven & newer.keys()})
        return self._conclude()

    def _conclude(self) -> Removed:
        sources, reading, ledger = self.missing.sources, self.launches.reading, self.context.ledger
        with ledger.reading() as connection:
            uneven = [sources[guid].launch_id for guid in self.missing.list_uneven()]
            even = reading.list_even(connection, uneven)
        outcomes = self.missing.conclude(even)
        self._ingest.close({one.launch_id for one in outcomes if one.is_short})
        with ledger.writing() as connection:
            reading.note_outcomes(connection, outcomes)
            surplus = reading.find_surplus(connection, [one.launch_id for one in outcomes])
        removed = Removed()
        for guid, launch_id in surplus.items():
            removed = removed.add(self._remove_unlisted(guid, launch_id))
        return removed

    def _remove_unlisted(self, guid: str, launch_id: int) -> Removed:
        with self.context.ledger.writing() as connection:
            exclude_others(connection)
            is_listed = partial(self.missing.has_met, guid)
            return remove_unlisted(connection, launch_id, is_listed, drops=self.context.drops)

    def _read_list(self, filters: dict[str, str]) -> int:
        """Read a list until its launches are full, or to its end, and return the number of new results."""
        total, length, most = 0, 0, 1
        wanted = self.missing.count_missing(filters)
        walk = ListWalk(partial(self._read_page, filters))
        pages = walk.read_pages(most) if self.missing.lacks(filters) else []
        while pages:
            # Where much is new, fewer transactions, and the next pages are read meanwhile; a single page
            # shows that nothing is.
            most = min(2 * most, PAGES_AT_ONCE, -(-(wanted - total) // PAGE) - len(pages))
            ahead = walk.read_ahead(most) if total and most > 0 else None
            found = self._store(pages)
            total += found
            following = [] if ahead is None else ahead()
            for page in pages:
                counted = page.total_count
                if counted is not None and counted < length:
                    self.missing.start_over(filters)
                    return total
                self.missing.expect_listed(filters, page)
                length = counted or length
            if not found:
                most = 1
                walk.turn()
            if walk.is_over and not following and counted is not None:
                self.missing.compare(filters, counted)
            if not following and self.missing.lacks(filters):
                following = walk.read_pages(max(1, most))
            pages = following
        return total

    def _read_page(self, filters: dict[str, str], offset: int) -> Page[ResultRecord]:
        return self._recorded.spell_page(self.context.client.read_results(filters, offset))

    def _store(self, pages: Sequence[Page[ResultRecord]]) -> int:
        """Store and count the results of some pages; return the number of new ones."""
        sources = self.missing.sources
        ours = {
            (record.project_launch_guid, record.result_guid): record
            for page in pages
            for record in page.records
            if record.project_launch_guid in sources
        }
        others = [one for page in pages for one in page.partial if one.project_launch_guid in sources]
        unreadable = [one for page in pages for one in page.unreadable]
        self.context.observe_progress(len(ours))
        if not ours and not others:
            return self.missing.count_unreadable(unreadable)
        new, unplaced = self._ingest.store(list(ours.values()), others)
        for record in unplaced:
            unreadable.append(Unreadable(record.result_guid, record.project_launch_guid, 0, _UNCERTAIN))
            del ours[record.project_launch_guid, record.result_guid]
        return self.missing.count(ours.values(), new) + self.missing.count_unreadable(unreadable)


def sweep_results(context: ReconcileContext, tag: str) -> None:
    """Read the list of a tag's results from end to end, and store those of the campaign.

    Results that a shifting list has hidden are found later, by the counts.
    """
    ingest = ResultIngest(context)
    walk = ListWalk(partial(context.client.read_results, {"project_tag": tag}))
    while pages := walk.read_pages(PAGES_AT_ONCE):
        records = [one for page in pages for one in page.records]
        partly = [one for page in pages for one in page.partial]
        context.observe_progress(ingest.store_all(records, partly))
