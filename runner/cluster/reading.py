"""Brings what the service has of a campaign's launches into the ledger: what workers do for `reconcile`.

Results are keyed by launch and `result_guid`, opt-outs by the reply: what a task has stored before its worker
was lost, or what another attempt stores at the same time, is there once. So a task goes by what the ledger
holds when it begins, and looks again at its end.
"""

from __future__ import annotations

import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from runner.cluster.reading_order import ReadGroup, Surveyed, strip_stat
from runner.cluster.worker_access import (
    open_campaign_key,
    open_worker_ledger,
    open_worker_service,
)
from runner.ledger.screening import find_undefined
from runner.ledger.target_key import KeySource
from runner.reconcile.backlog import Backlog
from runner.reconcile.held import choose_sources, keep_starts, read_held, remove_unlisted_results
from runner.reconcile.intake import Intake
from runner.reconcile.reading import Reading
from runner.reconcile.sessions import SessionLog
from runner.reconcile.source import Source
from runner.reconcile.summary import ReadLaunches
from runner.reconcile.survey import Survey
from runner.service.model import StatRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from runner.cluster.reading_order import LaunchGroup, Range, ReadingOrder
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.service.client import ServiceClient
    from runner.service.model import ResultRecord
    from runner.service.paging import Page, Unreadable

_PAGES = 5
"""Pages whose results are stored together: some hundreds of results."""
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class _Desk:
    """What the items of one task have at hand."""

    order: ReadingOrder
    ledger: Ledger
    client: ServiceClient
    key: FingerprintKey
    people: KeySource

    def take_in(self, sources: Mapping[str, Source]) -> Intake:
        return Intake(
            self.ledger,
            sources,
            self.order.campaign_id,
            self.order.campaign,
            self.key,
            self.people,
            self.order.opt_out_words,
        )


def survey_ranges(order: ReadingOrder, ranges: Sequence[Range]) -> list[Surveyed]:
    """Read ranges of lists of launches, and keep their starts, and who has opted out of them.

    Raises:
        ServiceError: the service cannot be asked.
        LedgerError: the ledger cannot be written, or the target's key is not at hand.
    """
    return _do_all(order, _survey_range, ranges)


def sweep_ranges(order: ReadingOrder, ranges: Sequence[Range]) -> list[int]:
    """Read ranges of lists of results, and store those of the campaign; return how many there were.

    Nothing is said of what a list that shifts meanwhile has hidden: the counts tell.

    Raises:
        ServiceError: the service cannot be asked.
        LedgerError: the ledger cannot be written, or the target's key is not at hand.
    """
    return _do_all(order, _sweep_range, ranges)


def read_groups(order: ReadingOrder, groups: Sequence[LaunchGroup]) -> list[ReadGroup]:
    """Read the results of groups of launches until nothing is missing, as one process does of all.

    Raises:
        ServiceError: the service cannot be asked.
        LedgerError: the ledger cannot be written, or the target's key is not at hand.
    """
    return _do_all(order, _read_group, groups)


def _do_all(
    order: ReadingOrder, work: Callable[[_Desk, _Item], _Found], items: Sequence[_Item]
) -> list[_Found]:
    with _open_desk(order) as desk, ThreadPoolExecutor(order.threads) as threads:
        return list(threads.map(lambda item: work(desk, item), items))


@contextmanager
def _open_desk(order: ReadingOrder) -> Iterator[_Desk]:
    environment = os.environ
    with (
        open_worker_ledger(environment) as ledger,
        open_worker_service(order.target, order.threads, environment) as client,
    ):
        key = open_campaign_key(ledger, order.campaign_id, order.target, environment)
        state_key = order.target.read_state_key(environment)
        people = KeySource(order.target.target.name, state_key, secrets.token_hex(16))
        yield _Desk(order, ledger, client, key, people)


def _survey_range(desk: _Desk, part: Range) -> Surveyed:
    stats: list[StatRecord] = []
    unreadable: list[Unreadable] = []
    for page in _read_pages(lambda offset: desk.client.read_stats(part.tag, offset), part):
        listed = {stat.project_launch_guid for stat in page.records}
        listed |= {one.project_launch_guid for one in page.unreadable}
        held = read_held(desk.ledger, desk.order.campaign_id, desk.order.target.target.name, listed)
        ours = {
            stat.project_launch_guid: stat
            for stat in page.records
            if stat.project_launch_guid in held.launches
        }
        # In an order that all tasks have: those that write the same rows wait for each other, and no more.
        by_number = sorted(ours, key=lambda guid: held.launches[guid].id)
        keep_starts(desk.ledger, held, {guid: ours[guid] for guid in by_number})
        intake = desk.take_in({})
        intake.store_stopped(ours.values(), desk.order.at)
        log = SessionLog(intake, held.launches)
        for stat in ours.values():
            log.observe(stat)
        log.keep()
        stats += (strip_stat(stat, part.tag) for stat in ours.values())
        unreadable += (one for one in page.unreadable if one.project_launch_guid in held.launches)
    return Surveyed(stats, unreadable)


def _sweep_range(desk: _Desk, part: Range) -> int:
    filters = {"project_tag": part.tag}
    pages = iter(_read_pages(lambda offset: desk.client.read_results(filters, offset), part))
    seen = 0
    # Those who store results wait for each other: better seldom, and with more at a time.
    while some := list(islice(pages, _PAGES)):
        seen += _store(desk, part.tag, [record for page in some for record in page.records])
    return seen


def _store(desk: _Desk, tag: str, records: Sequence[ResultRecord]) -> int:
    """Store those of some results that are of the campaign's launches; return how many that are."""
    listed = {record.project_launch_guid for record in records}
    held = read_held(desk.ledger, desk.order.campaign_id, desk.order.target.target.name, listed)
    found = {(record.project_launch_guid, record.result_guid): record for record in records}
    ours = [record for record in found.values() if record.project_launch_guid in held.launches]
    sources = {
        guid: Source(launch, _blank_stat(guid, tag), is_whole=True) for guid, launch in held.launches.items()
    }
    if ours:
        desk.take_in(_define(desk, sources)).store(ours, desk.order.at)
    return len(ours)


@dataclass(slots=True)
class _Counter:
    seen: int = field(default=0)

    def add(self, more: int) -> None:
        self.seen += more


def _read_group(desk: _Desk, group: LaunchGroup) -> ReadGroup:
    order, counter = desk.order, _Counter()
    held = read_held(desk.ledger, order.campaign_id, order.target.target.name, set(group.stats))
    sources = _define(desk, choose_sources(held, group.stats, set(group.unscreened), full=order.full))
    intake, backlog = desk.take_in(sources), Backlog(sources, group.listed)
    log = SessionLog(intake, held.launches)
    survey = Survey(desk.client, held.launches, lambda _steps: None, log.observe)
    newer = Reading(
        desk.client,
        backlog,
        intake,
        read_stats=lambda guids: survey.read_stats(guids).values(),
        now=lambda: order.at,
        observe_progress=counter.add,
    ).read()
    log.keep()
    now = read_held(desk.ledger, order.campaign_id, order.target.target.name, set(group.stats))
    removed = remove_unlisted_results(desk.ledger, now, backlog, drops=order.drops)
    read = ReadLaunches.of(backlog, removed)
    counts = {**group.stats, **newer}
    short = _leave_out_even(desk, sources, read.short, counts)
    intake.close(held.forgotten, short, is_screened=False)
    stripped = {guid: strip_stat(stat, held.launches[guid].tag) for guid, stat in newer.items()}
    return ReadGroup(replace(read, short=short), stripped, counter.seen)


def _leave_out_even(
    desk: _Desk, sources: Mapping[str, Source], short: frozenset[str], stats: Mapping[str, StatRecord]
) -> frozenset[str]:
    """Return the launches of which the ledger lacks something, whoever has stored what it has."""
    parts = {guid for guid in short if not sources[guid].is_whole}
    if not parts:
        return short
    held = read_held(desk.ledger, desk.order.campaign_id, desk.order.target.target.name, parts)
    return short - {guid for guid in parts if held.account_for(guid) == stats[guid].num_results}


def _define(desk: _Desk, sources: Mapping[str, Source]) -> dict[str, Source]:
    """Return launches with what was sent, of those of which the ledger does not have it."""
    with desk.ledger.reading() as connection:
        undefined = find_undefined(connection, {source.launch.id for source in sources.values()})
    defined = dict(sources)
    for guid, source in sources.items():
        if source.launch.id in undefined:
            stat = desk.client.read_stat(guid)
            if isinstance(stat, StatRecord):
                counts = replace(source.stat, project_definition=stat.project_definition)
                defined[guid] = replace(source, stat=counts)
    return defined


_Record = TypeVar("_Record", "StatRecord", "ResultRecord")


def _read_pages(read: Callable[[int], Page[_Record]], part: Range) -> Iterable[Page[_Record]]:
    """Yield the pages of a range; the last may go beyond it."""
    offset, end = part.first, part.first + part.count
    while offset < end:
        page = read(offset)
        if not page.size:
            return
        yield page
        offset += page.size


def _blank_stat(guid: str, tag: str) -> StatRecord:
    return StatRecord(guid, "", None, None, None, None, None, None, None, tag, {}, ())
