"""What the ledger holds of a campaign, and what of the service's lists it lacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from runner.ledger.database import exclude_others
from runner.ledger.differences import accept_silence, list_differences, read_agreed, store_differences
from runner.ledger.model import LaunchStats, OpenLaunch
from runner.ledger.open_launches import close_launches, end_sessions, open_launches
from runner.ledger.reconciled import iterate_accepted_launches, store_starts, store_stats
from runner.ledger.report_model import LaunchDifference
from runner.ledger.screening import count_forgotten_results, is_screened, iterate_answers, list_waiting
from runner.ledger.unlisted import Removed, remove_unlisted
from runner.optout.reply import classify
from runner.reconcile.source import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.report_model import Problem
    from runner.reconcile.backlog import Backlog
    from runner.service.model import StatRecord


_LAUNCHES = 500
"""Launches whose ends are recorded together."""
_COMPLETE = "COMPLETE"
"""The one `status` that the reference shows (2.3): that of a session that has ended."""
_UNDER_WAY = frozenset({"ACTIVE", "QUEUED"})
"""What contradicts counts that say that all have ended: the reference's names of the other states (3). What
another word means is not known, and counts without any open session decide."""


@dataclass(frozen=True, slots=True)
class Held:
    """What the ledger holds of a campaign.

    Attributes:
        launches: those that the service accepted, by `project_launch_guid`.
        forgotten: results that are not kept, by the ledger's number of the launch.
        doubtful: replies on the target that wait for a decision.
    """

    launches: dict[str, OpenLaunch]
    forgotten: dict[int, int]
    doubtful: int

    @property
    def results(self) -> int:
        """How many results are kept."""
        return sum(launch.results for launch in self.launches.values())

    def account_for(self, guid: str) -> int:
        """Return how many results of a launch were read: those that are kept, and those that are not."""
        launch = self.launches[guid]
        return launch.results + self.forgotten.get(launch.id, 0)

    def find_source(self, stat: StatRecord, *, full: bool) -> Source:
        """Return how a launch is to be read.

        What is not kept cannot be told from what is new, and what the ledger has beyond the counts is known
        only by what is listed: such a launch is read whole, and so is one of which there is nothing yet.
        """
        launch = self.launches[stat.project_launch_guid]
        is_part = 0 < launch.results < (stat.num_results or 0) and launch.id not in self.forgotten
        return Source(launch, stat, is_whole=full or not is_part)


def read_held(ledger: Ledger, campaign_id: int, target: str, guids: Collection[str] | None = None) -> Held:
    """Return what the ledger holds of a campaign on a target.

    Args:
        ledger: open.
        campaign_id: the ledger's number of the campaign.
        target: the target's name.
        guids: the launches that are wanted, some hundreds at most; None for all.
    """
    with ledger.reading() as connection:
        launches = iterate_accepted_launches(connection, campaign_id, guids)
        return Held(
            {launch.project_launch_guid: launch for launch in launches},
            count_forgotten_results(connection, campaign_id),
            len(list_waiting(connection, target)),
        )


def keep_starts(ledger: Ledger, held: Held, stats: Mapping[str, StatRecord]) -> None:
    """Keep when launches began, by what the service says of them."""
    with ledger.writing() as connection:
        store_starts(
            connection, {held.launches[guid].id: stat.project_launch_start for guid, stat in stats.items()}
        )


@dataclass(slots=True)
class SessionEnds:
    """Keeps which sessions have ended: who has none open can be sent to without waiting in a queue.

    Attributes:
        ledger: open for writing.
        campaign: the campaign's name.
        key: makes the fingerprints of its participants.
        launches: those of the campaign, by `project_launch_guid`.
    """

    ledger: Ledger
    campaign: str
    key: FingerprintKey
    launches: Mapping[str, OpenLaunch]
    _opened: set[int] = field(default_factory=set, init=False)
    _closed: set[int] = field(default_factory=set, init=False)
    _ended: dict[int, list[str]] = field(default_factory=dict, init=False)

    def observe(self, stat: StatRecord) -> None:
        """Take note of what the service says of a launch of the campaign.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        launch = self.launches[stat.project_launch_guid]
        if not launch.is_open:
            # Of what only a lockfile told of, it may not have been known that it asks something.
            if stat.num_active_sessions or stat.num_queued_sessions:
                self._opened.add(launch.id)
            else:
                return
        sessions = list(zip(stat.recipients, stat.statuses, strict=False))
        under_way = {phone for phone, status in sessions if status != _COMPLETE}
        if _have_ended(stat, launch) and not any(status in _UNDER_WAY for _, status in sessions):
            self._closed.add(launch.id)
        elif people := {phone for phone, _ in sessions} - under_way:
            self._ended[launch.id] = sorted(self.key.fingerprint(self.campaign, phone) for phone in people)
        if len(self._opened) + len(self._closed) + len(self._ended) >= _LAUNCHES:
            self.keep()

    def keep(self) -> None:
        """Record what was noted since the last time.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        if self._opened or self._closed or self._ended:
            with self.ledger.writing() as connection:
                # In an order that all tasks have: those that write the same rows only wait for each other.
                open_launches(connection, sorted(self._opened))
                close_launches(connection, sorted(self._closed))
                for launch_id, people in sorted(self._ended.items()):
                    end_sessions(connection, launch_id, people)
            self._opened, self._closed, self._ended = set(), set(), {}


def _have_ended(stat: StatRecord, launch: OpenLaunch) -> bool:
    """Return whether all sessions of a launch have ended, by the service's counts."""
    is_idle = stat.num_active_sessions == stat.num_queued_sessions == 0
    return is_idle and (stat.num_complete_sessions or 0) >= launch.recipients


@dataclass(frozen=True, slots=True)
class Finding:
    """How the service contradicts itself about a launch; see `LaunchDifference`."""

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
) -> list[LaunchDifference]:
    """Keep the service's counts of launches, and what they do not agree with.

    That everybody who has answered is known is as of the reading only where nothing contradicts it, or where
    a person has accepted just that contradiction.

    Args:
        ledger: open for writing.
        campaign_id: the ledger's number of the campaign.
        held: the campaign's launches.
        stats: the counts, by `project_launch_guid`.
        findings: the contradictions, likewise.
        read_at: when the counts were read; UTC, ISO 8601.
        accept: whether a person accepts every contradiction.

    Returns:
        The differences that there are now.
    """
    known = [_stats_of(held.launches[guid], stat) for guid, stat in stats.items()]
    with ledger.writing() as connection:
        before = {one.launch_id: one for one in list_differences(connection, campaign_id)}
        agreed = read_agreed(connection, campaign_id) if findings else {}
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
    """Return what was found, with what is known of it from before: another one is accepted anew."""
    is_known = before is not None and before.is_like(found)
    accepted_at = before.accepted_at if before is not None and is_known else None
    if accepted_at is None and accept:
        accepted_at = found.since
    if before is not None and (before.accepted_at is None or is_known):
        found = replace(found, since=before.since)
    return replace(found, accepted_at=accepted_at)


def remove_unlisted_results(ledger: Ledger, held: Held, backlog: Backlog, *, drops: bool) -> Removed:
    """Remove results that the service lists under another guid now, of launches that were read in full.

    Args:
        ledger: open for writing.
        held: what it holds after reading.
        backlog: that was read.
        drops: remove those, too, that are not listed at all any more.

    Raises:
        LedgerError: it cannot be written.
    """
    renamed = dropped = 0
    for guid, count in backlog.count_listed().items():
        if held.account_for(guid) > count:
            with ledger.writing() as connection:
                exclude_others(connection)
                removed = remove_unlisted(
                    connection, held.launches[guid].id, partial(backlog.has_met, guid), drops=drops
                )
            renamed, dropped = renamed + removed.renamed, dropped + removed.dropped
    return Removed(renamed, dropped)


def find_unscreened(ledger: Ledger, campaign_id: int, held: Held, words: tuple[str, ...] = ()) -> set[str]:
    """Return the launches with replies in the ledger that may opt out and were never looked at for that.

    Args:
        ledger: open.
        campaign_id: the ledger's number of the campaign.
        held: the campaign's launches.
        words: those that opt out besides, as the campaign has it.
    """
    guids = {launch.id: guid for guid, launch in held.launches.items()}
    with ledger.reading() as connection:
        if is_screened(connection, campaign_id, words):
            return set()
        # What was offered is not asked here: to read a launch once in vain does no harm.
        return {
            guids[answer.launch_id]
            for answer in iterate_answers(connection, campaign_id)
            if answer.launch_id in guids and classify(answer.response, words=words).kind != "answer"
        }


def choose_sources(
    held: Held, stats: Mapping[str, StatRecord], unscreened: set[str], *, full: bool
) -> dict[str, Source]:
    """Return the launches whose results are to be read, and how."""
    return {
        guid: held.find_source(stat, full=full or guid in unscreened)
        for guid, stat in sorted(stats.items())
        if full or guid in unscreened or stat.num_results != held.account_for(guid)
    }


def count_listed(held: Held, stats: Mapping[str, StatRecord]) -> Counter[str]:
    """Return how many results the service counts under each tag, of launches whose count is known."""
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
