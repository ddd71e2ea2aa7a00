"""Brings the service's counts and results of a campaign's launches into the ledger.

Incremental: the counts are read for every launch, results only of launches whose counts say that
the ledger lacks some. Results are known by `result_guid`, so a list that grows while it is paged
does no harm, and what was stored is checked against the service's own `num_results`.

A result in the ledger has no phone. So launches with replies that came before opt-outs were kept, or before
the rules found them, are read once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.ledger.model import LaunchStats, OpenLaunch
from runner.ledger.reconciled import iterate_accepted_launches, store_stats
from runner.ledger.screening import count_forgotten_results, is_screened, iterate_answers, list_waiting
from runner.optout.reply import classify
from runner.reconcile.intake import Intake, Source
from runner.service.client import PAGE, ServiceClient
from runner.service.listing import list_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.target_key import KeySource
    from runner.service.model import ResultRecord, StatRecord


@dataclass(frozen=True, slots=True)
class ReconcileSummary:
    """What reconciling one campaign found.

    Attributes:
        launches: launches that the service still knows.
        missing_launches: `project_launch_guid`s that are recorded as sent and that the service doesn't list.
        sessions: by state.
        results: results in the ledger now.
        new_results: of these, those that were not there before.
        expected_results: what the service's own counts say.
        forgotten_results: of these, those that are not kept: their participants were forgotten.
        opted_out: replies that opt out and were not known to.
        doubtful: replies on the target, to any campaign, that wait for a person's decision.
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

    @property
    def is_complete(self) -> bool:
        """Whether the ledger holds what the service counts, but for what it is not to hold."""
        return self.results + self.forgotten_results == self.expected_results


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

    def lacks_results(self, stat: StatRecord) -> bool:
        """Return whether the service counts another number of results than were read."""
        launch = self.launches[stat.project_launch_guid]
        return stat.num_results != launch.results + self.forgotten.get(launch.id, 0)


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

    Raises:
        ServiceError: the service cannot be asked; what was read before is kept.
        LedgerError: the ledger cannot be written, or the target's key is not at hand.
    """
    held = _read_held(ledger, campaign_id, people.target)
    read_at, stats = now(), _read_stats(client, held.launches, observe_progress)
    unscreened = _find_unscreened(ledger, campaign_id, held)
    behind = [guid for guid, stat in stats.items() if held.lacks_results(stat) or guid in unscreened]
    sources = {guid: Source(held.launches[guid], stats[guid]) for guid in sorted(behind)}
    intake = Intake(ledger, sources, campaign_id, campaign, key, people)
    intake.store_stopped(stats.values(), now())
    records = _read_results(client, held, sources, expected=sum(s.num_results for s in stats.values()))
    for page in _in_pages(records):
        observe_progress(len(page))
        intake.store(page, now())
    intake.close(held.forgotten, is_screened=unscreened <= sources.keys())
    with ledger.writing() as connection:
        # Last, and as of the start: that a launch is reconciled says that whoever has answered is known.
        store_stats(connection, [_stats_of(held.launches[guid], s) for guid, s in stats.items()], read_at)
    found = _read_held(ledger, campaign_id, people.target)
    return _summarise(held, stats, found, opted_out=intake.opted_out)


def _read_held(ledger: Ledger, campaign_id: int, target: str) -> _Held:
    with ledger.reading() as connection:
        launches = iterate_accepted_launches(connection, campaign_id)
        return _Held(
            {launch.project_launch_guid: launch for launch in launches},
            count_forgotten_results(connection, campaign_id),
            len(list_waiting(connection, target)),
        )


def _read_stats(
    client: ServiceClient, launches: dict[str, OpenLaunch], observe_progress: Callable[[int], None]
) -> dict[str, StatRecord]:
    found: dict[str, StatRecord] = {}
    guids: dict[str, set[str]] = {}
    for launch in launches.values():
        guids.setdefault(launch.tag, set()).add(launch.project_launch_guid)
    for tag, sought in sorted(guids.items()):
        for stat in list_launches(client, tag, sought=sought, observe_progress=observe_progress):
            if stat.project_launch_guid in launches:
                found[stat.project_launch_guid] = stat
    return found


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


def _summarise(
    before: _Held, stats: dict[str, StatRecord], after: _Held, *, opted_out: int
) -> ReconcileSummary:
    return ReconcileSummary(
        launches=len(stats),
        missing_launches=sorted(before.launches.keys() - stats.keys()),
        sessions={
            "queued": sum(stat.num_queued_sessions for stat in stats.values()),
            "active": sum(stat.num_active_sessions for stat in stats.values()),
            "complete": sum(stat.num_complete_sessions for stat in stats.values()),
        },
        results=after.results,
        new_results=after.results - before.results,
        expected_results=sum(stat.num_results for stat in stats.values()),
        forgotten_results=sum(after.forgotten.values()),
        opted_out=opted_out,
        doubtful=after.doubtful,
    )


def _read_results(
    client: ServiceClient, held: _Held, behind: Collection[str], *, expected: int
) -> Iterator[ResultRecord]:
    """Read by launch when few have something new, by tag when that takes fewer requests."""
    if len(behind) <= expected // PAGE + 1:
        lists = [client.iterate_results(project_launch_guid=guid) for guid in behind]
    else:
        tags = sorted({held.launches[guid].tag for guid in behind})
        lists = [client.iterate_results(project_tag=tag) for tag in tags]
    for records in lists:
        yield from (record for record in records if record.project_launch_guid in behind)


def _in_pages(records: Iterable[ResultRecord]) -> Iterator[list[ResultRecord]]:
    page: dict[str, ResultRecord] = {}
    for record in records:
        page[record.result_guid] = record
        if len(page) == PAGE:
            yield list(page.values())
            page = {}
    if page:
        yield list(page.values())


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
