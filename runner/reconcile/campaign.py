"""Brings the service's counts and results of a campaign's launches into the ledger.

Incremental: the counts are read for every launch, results only of launches whose counts say that
the ledger lacks some, and of these only until it has them (see `reading`). While the service deletes no
result, counts that add up mean that nothing is missing. What they cannot tell, a result that was edited or
one that was deleted while another came, is found by reading in full.

A result in the ledger has no phone. So launches with replies that came before opt-outs were kept, or before
the rules found them, are read once more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.ledger.model import LaunchStats, OpenLaunch
from runner.ledger.reconciled import iterate_accepted_launches, store_starts, store_stats
from runner.ledger.screening import count_forgotten_results, is_screened, iterate_answers, list_waiting
from runner.optout.reply import classify
from runner.reconcile.backlog import Backlog
from runner.reconcile.intake import Intake
from runner.reconcile.reading import Reading
from runner.reconcile.source import Source
from runner.reconcile.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.target_key import KeySource
    from runner.service.client import ServiceClient
    from runner.service.model import StatRecord
    from runner.service.paging import Unreadable


@dataclass(frozen=True, slots=True)
class ReconcileSummary:
    """What reconciling one campaign found.

    Attributes:
        launches: launches that the service still knows.
        missing_launches: `project_launch_guid`s that are recorded as sent and that the service doesn't list.
        sessions: by state.
        results: results in the ledger now.
        new_results: of these, those that were not there before.
        expected_results: what the service's own counts say, the last that were read.
        forgotten_results: of these, those that are not kept: their participants were forgotten.
        opted_out: replies that opt out and were not known to.
        doubtful: replies on the target, to any campaign, that wait for a person's decision.
        short_launches: `project_launch_guid`s of which fewer results are listed than the service counts.
        unlisted_results: results in the ledger that the service doesn't list any more, as far as was looked:
            the ledger keeps them.
        unreadable_results: results that are listed and cannot be read.
        unreadable: the first of these, and every launch that cannot be read.
    """

    launches: int
    missing_launches: list[str]
    sessions: dict[str, int]
    results: int
    new_results: int
    expected_results: int
    forgotten_results: int
    opted_out: int
    doubtful: int
    short_launches: list[str]
    unlisted_results: int
    unreadable_results: int
    unreadable: list[Unreadable]

    @property
    def is_complete(self) -> bool:
        """Whether the ledger holds what the service counts, but for what it is not to hold."""
        is_even = self.results + self.forgotten_results == self.expected_results
        return is_even and not self.short_launches and not self.unreadable


@dataclass(frozen=True, slots=True)
class _Held:
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
        is_part = 0 < launch.results < stat.num_results and launch.id not in self.forgotten
        return Source(launch, stat, is_whole=full or not is_part)


def reconcile_campaign(
    ledger: Ledger,
    client: ServiceClient,
    *,
    campaign_id: int,
    campaign: str,
    key: FingerprintKey,
    people: KeySource,
    now: Callable[[], str],
    observe_progress: Callable[[int], None],
    full: bool = False,
) -> ReconcileSummary:
    """Bring one campaign's counts, results and opt-outs up to date.

    Args:
        ledger: where they go.
        client: the service.
        campaign_id: the ledger's number of the campaign.
        campaign: its name.
        key: turns the results' phone numbers into fingerprints.
        people: does so for opt-outs, which hold for every campaign on the target.
        now: returns UTC, ISO 8601.
        observe_progress: is called with the number of launches or results read since the last call.
        full: read every result again: finds those that were edited, and those that the counts hide.

    Raises:
        ServiceError: the service cannot be asked; what was read before is kept.
        LedgerError: the ledger cannot be written, or the target's key is not at hand.
    """
    held = _read_held(ledger, campaign_id, people.target)
    survey = Survey(client, held.launches, observe_progress)
    read_at, stats = now(), survey.read_stats(set(held.launches))
    unscreened = _find_unscreened(ledger, campaign_id, held)
    sources = _choose_sources(held, stats, unscreened, full=full)
    intake = Intake(ledger, sources, campaign_id, campaign, key, people)
    _store_starts(ledger, held, stats)
    intake.store_stopped(stats.values(), now())
    backlog = Backlog(sources, _count_listed(held, stats))
    stats |= Reading(
        client,
        backlog,
        intake,
        read_stats=lambda guids: survey.read_stats(guids).values(),
        now=now,
        observe_progress=observe_progress,
    ).read()
    short = backlog.list_short()
    intake.close(held.forgotten, short, is_screened=sources.keys() - short >= unscreened)
    # Last, and as of the start: that a launch is reconciled says that whoever has answered is known. So one
    # of whose results some are missing stays what it was before.
    _store_stats(ledger, held, {guid: stat for guid, stat in stats.items() if guid not in short}, read_at)
    after = _read_held(ledger, campaign_id, people.target)
    return _summarise(held, after, stats, survey, intake, backlog)


def _read_held(ledger: Ledger, campaign_id: int, target: str) -> _Held:
    with ledger.reading() as connection:
        launches = iterate_accepted_launches(connection, campaign_id)
        return _Held(
            {launch.project_launch_guid: launch for launch in launches},
            count_forgotten_results(connection, campaign_id),
            len(list_waiting(connection, target)),
        )


def _store_starts(ledger: Ledger, held: _Held, stats: Mapping[str, StatRecord]) -> None:
    with ledger.writing() as connection:
        store_starts(
            connection, {held.launches[guid].id: stat.project_launch_start for guid, stat in stats.items()}
        )


def _store_stats(ledger: Ledger, held: _Held, stats: Mapping[str, StatRecord], read_at: str) -> None:
    known = [_stats_of(held.launches[guid], stat) for guid, stat in stats.items()]
    with ledger.writing() as connection:
        store_stats(connection, known, read_at)


def _find_unscreened(ledger: Ledger, campaign_id: int, held: _Held) -> set[str]:
    """Return the launches with replies in the ledger that may opt out and were never looked at for that."""
    guids = {launch.id: guid for guid, launch in held.launches.items()}
    with ledger.reading() as connection:
        if is_screened(connection, campaign_id):
            return set()
        # What was offered is not asked here: to read a launch once in vain does no harm.
        return {
            guids[answer.launch_id]
            for answer in iterate_answers(connection, campaign_id)
            if answer.launch_id in guids and classify(answer.response).kind != "none"
        }


def _choose_sources(
    held: _Held, stats: Mapping[str, StatRecord], unscreened: set[str], *, full: bool
) -> dict[str, Source]:
    """Return the launches whose results are to be read, and how."""
    return {
        guid: held.find_source(stat, full=full or guid in unscreened)
        for guid, stat in sorted(stats.items())
        if full or guid in unscreened or stat.num_results != held.account_for(guid)
    }


def _count_listed(held: _Held, stats: Mapping[str, StatRecord]) -> Counter[str]:
    """Return how many results the service counts under each tag."""
    listed = Counter[str]()
    for guid, stat in stats.items():
        listed[held.launches[guid].tag] += stat.num_results
    return listed


def _summarise(
    before: _Held,
    after: _Held,
    stats: Mapping[str, StatRecord],
    survey: Survey,
    intake: Intake,
    backlog: Backlog,
) -> ReconcileSummary:
    return ReconcileSummary(
        launches=len(stats),
        missing_launches=sorted(before.launches.keys() - stats.keys() - survey.unreadable.keys()),
        sessions={
            "queued": sum(stat.num_queued_sessions for stat in stats.values()),
            "active": sum(stat.num_active_sessions for stat in stats.values()),
            "complete": sum(stat.num_complete_sessions for stat in stats.values()),
        },
        results=after.results,
        new_results=after.results - before.results,
        expected_results=sum(stat.num_results for stat in stats.values()),
        forgotten_results=sum(after.forgotten.values()),
        opted_out=intake.opted_out,
        doubtful=after.doubtful,
        short_launches=sorted(backlog.list_short()),
        unlisted_results=sum(
            backlog.count_surplus(guid, after.account_for(guid)) for guid in backlog.sources
        ),
        unreadable_results=backlog.unreadable_count,
        unreadable=[*survey.unreadable.values(), *backlog.unreadable],
    )


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
