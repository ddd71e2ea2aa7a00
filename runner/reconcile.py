"""Brings the service's counts and results of a campaign's launches into the ledger.

Incremental: the counts are read for every launch, results only of launches whose counts say that
the ledger lacks some. Results are known by `result_guid`, so a list that grows while it is paged
does no harm, and what was stored is checked against the service's own `num_results`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.ledger.model import LaunchStats, OpenLaunch, StoredResult
from runner.ledger.reconciled import iterate_accepted_launches, store_results, store_stats
from runner.service.client import PAGE, ServiceClient
from runner.service.listing import list_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
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
    """

    launches: int
    missing_launches: list[str]
    sessions: dict[str, int]
    results: int
    new_results: int
    expected_results: int


def reconcile_campaign(
    ledger: Ledger,
    client: ServiceClient,
    *,
    campaign_id: int,
    campaign: str,
    key: FingerprintKey,
    now: Callable[[], str],
    observe_progress: Callable[[int], None],
) -> ReconcileSummary:
    """Bring one campaign's counts and results up to date.

    Args:
        ledger: where they go.
        client: the service.
        campaign_id: the ledger's number of the campaign.
        campaign: its name.
        key: turns the results' phone numbers into fingerprints.
        now: returns UTC, ISO 8601.
        observe_progress: is called with the number of launches or results read since the last call.

    Raises:
        ServiceError: the service cannot be asked; what was read before is kept.
        LedgerError: the ledger cannot be written.
    """
    launches = _read_launches(ledger, campaign_id)
    stats = _read_stats(client, launches, observe_progress)
    with ledger.writing() as connection:
        store_stats(connection, [_stats_of(launches[s.project_launch_guid], s) for s in stats], now())
    behind = {
        stat.project_launch_guid: launches[stat.project_launch_guid]
        for stat in stats
        if stat.num_results != launches[stat.project_launch_guid].results
    }
    records = _read_results(client, behind, expected=sum(stat.num_results for stat in stats))
    for page in _in_pages(records):
        observe_progress(len(page))
        with ledger.writing() as connection:
            store_results(connection, [_result_of(behind, record, campaign, key) for record in page])
    return _summarise(launches, stats, held=_read_launches(ledger, campaign_id))


def _read_launches(ledger: Ledger, campaign_id: int) -> dict[str, OpenLaunch]:
    with ledger.reading() as connection:
        found = iterate_accepted_launches(connection, campaign_id)
        return {launch.project_launch_guid: launch for launch in found}


def _read_stats(
    client: ServiceClient, launches: dict[str, OpenLaunch], observe_progress: Callable[[int], None]
) -> list[StatRecord]:
    found: dict[str, StatRecord] = {}
    guids: dict[str, set[str]] = {}
    for launch in launches.values():
        guids.setdefault(launch.tag, set()).add(launch.project_launch_guid)
    for tag, sought in sorted(guids.items()):
        for stat in list_launches(client, tag, sought=sought, observe_progress=observe_progress):
            if stat.project_launch_guid in launches:
                found[stat.project_launch_guid] = stat
    return list(found.values())


def _summarise(
    launches: dict[str, OpenLaunch], stats: list[StatRecord], held: dict[str, OpenLaunch]
) -> ReconcileSummary:
    results = sum(launch.results for launch in held.values())
    return ReconcileSummary(
        launches=len(stats),
        missing_launches=sorted(launches.keys() - {stat.project_launch_guid for stat in stats}),
        sessions={
            "queued": sum(stat.num_queued_sessions for stat in stats),
            "active": sum(stat.num_active_sessions for stat in stats),
            "complete": sum(stat.num_complete_sessions for stat in stats),
        },
        results=results,
        new_results=results - sum(launch.results for launch in launches.values()),
        expected_results=sum(stat.num_results for stat in stats),
    )


def _read_results(
    client: ServiceClient, behind: dict[str, OpenLaunch], expected: int
) -> Iterator[ResultRecord]:
    """Read by launch when few have something new, by tag when that takes fewer requests."""
    if len(behind) <= expected // PAGE + 1:
        lists = [client.iterate_results(project_launch_guid=guid) for guid in sorted(behind)]
    else:
        tags = sorted({launch.tag for launch in behind.values()})
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


def _result_of(
    launches: dict[str, OpenLaunch], record: ResultRecord, campaign: str, key: FingerprintKey
) -> StoredResult:
    return StoredResult(
        launch_id=launches[record.project_launch_guid].id,
        result_guid=record.result_guid,
        participant=key.fingerprint(campaign, record.participant_phone_number),
        question_guid=record.question_guid,
        question_tag=record.question_tag,
        question_text=record.question_text,
        question_display_order=record.question_display_order,
        result_answer=record.result_answer,
        result_response=record.result_response,
        created=record.created,
        updated=record.updated,
    )
