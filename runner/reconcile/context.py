"""A campaign to reconcile: what its tasks work with, and the results that the ledger holds and lacks."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from runner.ledger.database import exclude_others
from runner.ledger.model import LaunchStats, OpenLaunch
from runner.ledger.people.replies import count_forgotten_results, is_screened, iterate_answers, list_waiting
from runner.ledger.record.open_launches import end_sessions, note_open
from runner.ledger.report_model import LaunchDifference
from runner.ledger.results.differences import accept_silence, list_differences, read_agreed, store_differences
from runner.ledger.results.reconciled import (
    Removed,
    iterate_accepted_launches,
    remove_unlisted,
    store_starts,
    store_stats,
)
from runner.optout.non_answer import find_non_answer
from runner.optout.reply import classify
from runner.reconcile.missing_results import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from collections.abc import Set as AbstractSet

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.people.replies import HeldAnswer
    from runner.ledger.report_model import Problem
    from runner.ledger.results.result_feed import FeedSpan
    from runner.reconcile.missing_results import MissingResults
    from runner.service.client import ServiceClient
    from runner.service.model import StatRecord


@dataclass(frozen=True, slots=True)
class ReadingOrder:
    """A campaign to reconcile, and the options; without secrets.

    Attributes:
        at: the start of the run; UTC, ISO 8601.
        full: read every result again, to find edited ones and those that the counts hide.
        drops: remove the results that the service does not list any more.
        opt_out_words: the campaign's own opt-out words.
    """

    campaign_id: int
    campaign: str
    at: str
    full: bool = False
    drops: bool = False
    opt_out_words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReconcileContext:
    """The ledger, client and keys of a reconciliation.

    `key` makes the fingerprints of people. `observe_progress` gets the number of launches or results read
    since the last call. `find_scratch` returns the folder for data of very many launches.
    """

    order: ReadingOrder
    ledger: Ledger
    client: ServiceClient
    key: TargetKey
    observe_progress: Callable[[int], None] = lambda _steps: None
    find_scratch: Callable[[], Path] = lambda: Path(tempfile.gettempdir())

    def read_held(self, guids: Collection[str] | None = None, span: FeedSpan | None = None) -> Held:
        """Return the ledger's data of some launches of the campaign; without `guids` and `span`, of all."""
        return read_held(self.ledger, self.order.campaign_id, self.key.target, guids, span)


_LAUNCHES = 500
"""Launches looked up together, or whose ends are recorded together."""
_COMPLETE = "COMPLETE"
"""The `status` of an ended session, the only status of services that is known."""
_UNDER_WAY = frozenset({"ACTIVE", "QUEUED"})
"""The reference's names of the other states (3), which contradict counts by which all sessions have ended.
Other words have no known meaning: then counts without open sessions decide."""


@dataclass(frozen=True, slots=True)
class Held:
    """The data of a campaign that the ledger holds.

    Launches are by `project_launch_guid`; `forgotten` counts results not kept, by the ledger's number of the
    launch; `doubtful` counts replies on the target that wait for a decision.
    """

    launches: dict[str, OpenLaunch]
    forgotten: dict[int, int]
    doubtful: int

    @property
    def results(self) -> int:
        """The number of results kept."""
        return sum(launch.results for launch in self.launches.values())

    def account_for(self, guid: str) -> int:
        """Return the number of results read of a launch, kept or not."""
        launch = self.launches[guid]
        return launch.results + self.forgotten.get(launch.id, 0)

    def find_source(self, stat: StatRecord, *, full: bool) -> Source:
        """Return a launch with the way to read it.

        A launch is read whole if some of its results are not kept, as these look new; if the ledger has more
        than the service counts, as only the list tells which; and if the ledger has none yet.
        """
        launch = self.launches[stat.project_launch_guid]
        is_part = 0 < launch.results < (stat.num_results or 0) and launch.id not in self.forgotten
        return Source(launch, stat, is_whole=full or not is_part)


def read_held(
    ledger: Ledger,
    campaign_id: int,
    target: str,
    guids: Collection[str] | None = None,
    span: FeedSpan | None = None,
) -> Held:
    """Return the ledger's data of a campaign on a target: of some launches, of a span, or of all."""
    with ledger.reading() as connection:
        if guids is None:
            launches = iterate_accepted_launches(connection, campaign_id, span=span)
        else:
            wanted = iter(guids)
            portions = iter(lambda: list(islice(wanted, _LAUNCHES)), [])
            launches = chain.from_iterable(
                iterate_accepted_launches(connection, campaign_id, portion) for portion in portions
            )
        return Held(
            {launch.project_launch_guid: launch for launch in launches},
            count_forgotten_results(connection, campaign_id, span),
            len(list_waiting(connection, target)),
        )


def keep_starts(ledger: Ledger, held: Held, stats: Mapping[str, StatRecord]) -> None:
    """Record the starts of launches that the service reports."""
    with ledger.writing() as connection:
        store_starts(
            connection, {held.launches[guid].id: stat.project_launch_start for guid, stat in stats.items()}
        )


@dataclass(slots=True)
class SessionEnds:
    """Record of ended sessions: people without an open one can be sent to without waiting in a queue.

    `key` makes the fingerprints of participants; launches are by `project_launch_guid`.
    """

    ledger: Ledger
    key: TargetKey
    launches: Mapping[str, OpenLaunch]
    _opened: set[int] = field(default_factory=set, init=False)
    _closed: set[int] = field(default_factory=set, init=False)
    _ended: dict[int, list[str]] = field(default_factory=dict, init=False)

    def observe(self, stat: StatRecord) -> None:
        """Note the sessions of a launch of the campaign.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        launch = self.launches[stat.project_launch_guid]
        if not launch.is_open:
            # A launch known only from a lockfile may not have been known to ask something.
            if stat.num_active_sessions or stat.num_queued_sessions:
                self._opened.add(launch.id)
            else:
                return
        sessions = list(zip(stat.recipients, stat.statuses, strict=False))
        under_way = {phone for phone, status in sessions if status != _COMPLETE}
        if _have_ended(stat, launch) and not any(status in _UNDER_WAY for _, status in sessions):
            self._closed.add(launch.id)
        elif people := {phone for phone, _ in sessions} - under_way:
            self._ended[launch.id] = sorted(self.key.fingerprint(phone) for phone in people)
        if len(self._opened) + len(self._closed) + len(self._ended) >= _LAUNCHES:
            self.keep()

    def keep(self) -> None:
        """Record the notes since the last call.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        if self._opened or self._closed or self._ended:
            with self.ledger.writing() as connection:
                # In a common order, so that runs that write the same rows wait without deadlock.
                note_open(connection, sorted(self._opened), is_open=True)
                note_open(connection, sorted(self._closed), is_open=False)
                for launch_id, people in sorted(self._ended.items()):
                    end_sessions(connection, launch_id, people)
            self._opened, self._closed, self._ended = set(), set(), {}


def _have_ended(stat: StatRecord, launch: OpenLaunch) -> bool:
    """Return whether all sessions of a launch have ended, by the service's counts."""
    is_idle = stat.num_active_sessions == stat.num_queued_sessions == 0
    return is_idle and (stat.num_complete_sessions or 0) >= launch.recipients


@dataclass(frozen=True, slots=True)
class Finding:
    """A contradiction in the service's data on a launch; see `LaunchDifference`."""

    problem: Problem
    counted: int | None = None
    listed: int | None = None


def keep_readings(
    ledger: Ledger,
    campaign_id: int,
    held: Held,
    stats: Mapping[str, StatRecord],
    findings: Mapping[str, Finding],
    read_at: str,
    *,
    accept: bool,
    span: FeedSpan | None = None,
) -> list[LaunchDifference]:
    """Record the service's counts of launches and their contradictions; return the present differences.

    A launch counts as fully read at `read_at` (UTC, ISO 8601) only if nothing contradicts it, or if a person
    has accepted just that contradiction; `accept` accepts all. Counts and findings are by
    `project_launch_guid`, of the launches in `span`, or of all.
    """
    known = [_stats_of(held.launches[guid], stat) for guid, stat in stats.items()]
    with ledger.writing() as connection:
        before = {one.launch_id: one for one in list_differences(connection, campaign_id, span)}
        agreed = read_agreed(connection, campaign_id, span) if findings else {}
        differences = []
        for guid, finding in sorted(findings.items()):
            number = held.launches[guid].id
            found = LaunchDifference(
                number, guid, finding.problem, finding.counted, finding.listed, read_at, agreed.get(number)
            )
            differences.append(_follow_up(before.get(number), found, accept=accept))
        store_stats(connection, known, read_at)
        store_differences(connection, before.keys(), differences)
        silent = [
            one.launch_id
            for one in differences
            if one.accepted_at is not None and one.project_launch_guid not in stats
        ]
        accept_silence(connection, silent, read_at)
    return differences


def _follow_up(before: LaunchDifference | None, found: LaunchDifference, *, accept: bool) -> LaunchDifference:
    """Return a difference with its earlier acceptance, unless it has changed."""
    is_known = before is not None and before.is_like(found)
    accepted_at = before.accepted_at if before is not None and is_known else None
    if accepted_at is None and accept:
        accepted_at = found.since
    if before is not None and (before.accepted_at is None or is_known):
        found = replace(found, since=before.since)
    return replace(found, accepted_at=accepted_at)


def remove_unlisted_results(ledger: Ledger, held: Held, missing: MissingResults, *, drops: bool) -> Removed:
    """Remove results that the service now lists under another guid, of launches that were read in full.

    With `drops`, also remove results that are not listed at all any more.

    Raises:
        LedgerError: it cannot be written.
    """
    renamed = dropped = 0
    for guid, count in missing.count_listed().items():
        if held.account_for(guid) > count:
            with ledger.writing() as connection:
                exclude_others(connection)
                removed = remove_unlisted(
                    connection, held.launches[guid].id, partial(missing.has_met, guid), drops=drops
                )
            renamed, dropped = renamed + removed.renamed, dropped + removed.dropped
    return Removed(renamed, dropped)


def find_unscreened(
    ledger: Ledger,
    campaign_id: int,
    held: Held,
    words: tuple[str, ...] = (),
    span: FeedSpan | None = None,
) -> set[str]:
    """Return the launches with replies in the ledger that were never checked for opt-outs, and may be some.

    `words` are the campaign's own opt-out words; `held` are the launches of `span`, or all.
    """
    guids = {launch.id: guid for guid, launch in held.launches.items()}
    with ledger.reading() as connection:
        if is_screened(connection, campaign_id, words):
            return set()
        # The offered responses are not checked: an unneeded reading of a launch does no harm.
        return {
            guids[answer.launch_id]
            for answer in iterate_answers(connection, campaign_id, span)
            if answer.launch_id in guids and _may_differ(answer, words)
        }


def _may_differ(answer: HeldAnswer, words: tuple[str, ...]) -> bool:
    """Return whether an answer may opt out, or answer nothing."""
    read = (classify(text, words=words).kind for text in answer.texts)
    return (
        any(kind != "answer" for kind in read)
        or find_non_answer(answer.texts[0], answer.texts[0]) is not None
    )


def choose_sources(
    held: Held, stats: Mapping[str, StatRecord], unscreened: AbstractSet[str], *, full: bool
) -> dict[str, Source]:
    """Return the launches whose results are to be read, with the way to read each."""
    return {
        guid: held.find_source(stat, full=full or guid in unscreened)
        for guid, stat in sorted(stats.items())
        if full or guid in unscreened or stat.num_results != held.account_for(guid)
    }


def count_listed(held: Held, stats: Mapping[str, StatRecord]) -> Counter[str]:
    """Return the number of results that the service counts under each tag, of launches with a count."""
    listed = Counter[str]()
    for guid, stat in stats.items():
        listed[held.launches[guid].tag] += stat.num_results or 0
    return listed


def _stats_of(launch: OpenLaunch, stat: StatRecord) -> LaunchStats:
    return LaunchStats(
        launch_id=launch.id,
        num_active_sessions=stat.num_active_sessions,
        num_complete_sessions=stat.num_complete_sessions,
        num_messages=stat.num_messages,
        num_questions=stat.num_questions,
        num_queued_sessions=stat.num_queued_sessions,
        num_renders=stat.num_renders,
        num_results=stat.num_results,
        project_launch_start=stat.project_launch_start,
    )
