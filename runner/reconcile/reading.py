"""Reads the lists of results again and again, until nothing is missing or nothing new is found.

The order of a list is not promised, and lists shift while they are paged (reference, 4.2; wire facts): one
pass may not show every result, and a page alone says nothing of what it has left out. The counts do. A
pass goes on at whichever end has something new and ends as soon as nothing is missing; while something is,
the counts are read again, and then the lists that lack it. Every page is stored when it has come, so a
run that is cut short has lost nothing, and the next one soon stands where it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from runner.service.paging import ListWalk, RecordedGuids, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.reconcile.backlog import Backlog
    from runner.reconcile.intake import Intake
    from runner.service.client import ServiceClient
    from runner.service.model import ResultRecord, StatRecord
    from runner.service.paging import Page

ROUNDS = 40
"""How often lists are read. Where each page is drawn at random, a pass shows 1 - 1/e of what is missing: the
last of 1,000,000 results is found after about 30."""
FRUITLESS_ROUNDS = 3
_NO_QUESTION = "a result of the service does not tell for certain which question it answers"


@dataclass(slots=True)
class Reading:
    """Reads what a backlog lacks.

    Attributes:
        client: the service.
        backlog: says what is missing.
        intake: takes what is read.
        read_stats: returns the service's counts of some launches as they are now.
        now: returns UTC, ISO 8601.
        observe_progress: is called with the number of results read since the last call.
    """

    client: ServiceClient
    backlog: Backlog
    intake: Intake
    read_stats: Callable[[set[str]], Iterable[StatRecord]]
    now: Callable[[], str]
    observe_progress: Callable[[int], None]
    _recorded: RecordedGuids = field(init=False)

    def __post_init__(self) -> None:
        """Take note of how the launches are named on record."""
        self._recorded = RecordedGuids(self.backlog.sources)

    def read(self) -> dict[str, StatRecord]:
        """Read until the backlog is empty, or stays as it is.

        Returns:
            Newer counts of the launches for which the first were not enough, by `project_launch_guid`.

        Raises:
            ServiceError: the service cannot be asked; what was read before is kept.
            LedgerError: the ledger cannot be written, or the target's key is not at hand.
        """
        newer: dict[str, StatRecord] = {}
        fruitless = 0
        for _ in range(ROUNDS):
            lists = self.backlog.choose_lists(narrow=fruitless > 0)
            if not lists or fruitless == FRUITLESS_ROUNDS:
                break
            found = sum(self._read_list(filters) for filters in lists)
            fruitless = 0 if found else fruitless + 1
            if uneven := self.backlog.list_short() | self.backlog.list_overfull():
                newer |= {stat.project_launch_guid: stat for stat in self.read_stats(uneven)}
                self.backlog.expect(newer[guid] for guid in uneven & newer.keys())
                self.backlog.restart_overfull()
        return newer

    def _read_list(self, filters: dict[str, str]) -> int:
        """Read a list until its launches are full, or to its end, and return how much new it had."""
        total = length = 0
        walk = ListWalk(partial(self._read_page, filters))
        while self.backlog.lacks(filters) and (page := walk.read_page()):
            found = self._store(page)
            total += found
            counted = page.total_count
            if counted is not None and counted < length:
                self.backlog.start_over(filters)
                break
            self.backlog.expect_listed(filters, page)
            length = counted or length
            if not found:
                walk.turn()
            if walk.is_over and counted is not None:
                self.backlog.compare(filters, counted)
        return total

    def _read_page(self, filters: dict[str, str], offset: int) -> Page[ResultRecord]:
        return self._recorded.spell_page(self.client.read_results(filters, offset))

    def _store(self, page: Page[ResultRecord]) -> int:
        ours = {
            (record.project_launch_guid, record.result_guid): record
            for record in page.records
            if record.project_launch_guid in self.backlog.sources
        }
        records = list(ours.values())
        self.observe_progress(len(records))
        if not records:
            return self.backlog.count_unreadable(page.unreadable)
        new, unplaced = self.intake.store(records, self.now())
        lost = [
            Unreadable(record.result_guid, record.project_launch_guid, 0, _NO_QUESTION) for record in unplaced
        ]
        for record in unplaced:
            del ours[record.project_launch_guid, record.result_guid]
        found = self.backlog.count(ours.values(), new)
        return found + self.backlog.count_unreadable([*page.unreadable, *lost])
