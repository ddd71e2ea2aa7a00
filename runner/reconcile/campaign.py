"""Reconciliation: the service's counts and results of a campaign's launches, brought into the ledger.

It is incremental: counts are read for every launch, results only of launches that lack some by their counts.
Counts that agree mean that nothing is missing as long as the service deletes no result. A full reading also
finds edited results, and deletions made up for by new results.
Results in the ledger have no phone. So with new rules or opt-out words, all results are read once more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runner.document import Count, Part
from runner.ledger.people.replies import count_replied, is_screened, list_waiting, mark_screened
from runner.ledger.report_model import LaunchDifference
from runner.ledger.results.differences import accept_silence, list_differences, read_agreed, store_differences
from runner.ledger.results.reconciled import store_counts
from runner.ledger.results.result_feed import read_version
from runner.reconcile.ingest import leave_out_strangers
from runner.reconcile.launches import LaunchReader
from runner.reconcile.result_reading import ResultReading
from runner.service.model import Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.ledger.report_model import Problem
    from runner.ledger.results.reconciled import Removed
    from runner.ledger.target_key import LedgerConnection
    from runner.reconcile.launches import ReadLaunch, ReconcileContext


class ReconcileCounts(Part, frozen=True, kw_only=True):
    """The findings about a campaign. Launches are `project_launch_guid`s.

    Attributes:
        recorded_launches: launches on record.
        launches: of these, those that the service lists.
        whole_launches: of these, those of which the service says every count.
        missing_launches: launches on record that the service doesn't list.
        unread_launches: launches of which a count, the whole record or some result could not be read, or that
            are not listed and were never read: the exit code is 3, or 1 if no launch could be read.
        sessions: by state; each is null unless it is known of every launch on record.
        results: results in the ledger now.
        new_results: of these, those that came with this run.
        expected_results: what the service's own counts say; None unless known of every launch on record.
        forgotten_results: expected results that the ledger does not keep: their participants were forgotten.
        opted_out: opt-outs that this run has found.
        doubtful: replies on the target, to any campaign, that may opt out and wait for a decision: see
            `runner optouts`.
        short_launches: launches of which the service lists fewer results than it counts.
        unlisted_results: results in the ledger that the service does not list any more, as far as was looked.
            The ledger keeps them until `runner reconcile --drop-unlisted`.
        unlisted_launches: the launches that have such results.
        renamed_results: results that the service lists under another guid now: same launch, participant,
            question, time and words. The ledger has them once, under the new one.
        dropped_results: results that `--drop-unlisted` removed from the ledger.
        unreadable_results: results that the service lists and that cannot be read.
        unreadable: the first of these, and every launch that cannot be read.
    """

    recorded_launches: Count
    launches: Count
    whole_launches: Count
    missing_launches: list[str]
    unread_launches: list[str]
    sessions: dict[str, Count | None]
    results: Count
    new_results: int
    expected_results: Count | None
    forgotten_results: Count
    opted_out: Count
    doubtful: Count
    short_launches: list[str]
    unlisted_results: Count
    unlisted_launches: list[str]
    renamed_results: Count
    dropped_results: Count
    unreadable_results: Count
    unreadable: list[Unreadable]


class ReconcileSummary(ReconcileCounts, frozen=True, kw_only=True):
    """The findings of reconciling one campaign.

    Attributes:
        differences: launches about whose answers the service contradicts itself, or tells nothing.
    """

    differences: list[LaunchDifference]

    @property
    def is_complete(self) -> bool:
        """True if the ledger holds all that the service counts, without forgotten results."""
        is_even = self.results + self.forgotten_results == self.expected_results
        return is_even and not self.short_launches and not self.unreadable


def _find_difference(row: ReadLaunch, at: str, *, is_anybodys: bool) -> LaunchDifference | None:
    """Return the service's contradiction about a launch, if there is one.

    `is_anybodys`: some unreadable results name no launch, so any launch may lack these.
    """
    found: tuple[Problem, int | None, int | None]
    if row.counts is None:
        found = "unreadable" if row.is_unreadable else "unlisted", None, None
    elif row.most > row.listed and (row.lost or is_anybodys):
        found = "unreadable_results", row.most, row.listed
    elif row.num_results is None:
        found = "uncounted", None, row.listed
    elif row.most > row.listed:
        found = "more_counted", row.most, row.listed
    else:
        return None
    problem, counted, listed = found
    return LaunchDifference(row.project_launch_guid, problem, counted, listed, at, None, row.launch_id)


def _sum_up(launches: Sequence[ReadLaunch], name: str) -> int | None:
    """Return the sum of a count over launches; None unless it is known of each."""
    counts = [None if one.counts is None else one.counts[name] for one in launches]
    known = [one for one in counts if one is not None]
    return sum(known) if len(known) == len(counts) else None


def _summarise(
    launches: Sequence[ReadLaunch], differences: Sequence[LaunchDifference], removed: Removed, **others: Any
) -> ReconcileSummary:
    """Return the summary of a reading.

    `others` belong to no launch, or to none for certain: opt-outs and unreadable results.
    """
    listed = [one for one in launches if one.counts is not None]
    missing = {one.project_launch_guid for one in launches if one.counts is None and not one.is_unreadable}
    unread = {one.project_launch_guid for one in launches if one.is_unreadable}
    unread |= {one.project_launch_guid for one in listed if one.lacks_count}
    unread |= {one.project_launch_guid for one in differences if one.agreed_at is None} & missing
    unread |= {one.project_launch_guid for one in differences if one.hides_answers}
    held = sum(one.held for one in launches)
    return ReconcileSummary(
        recorded_launches=len(launches),
        launches=len(listed),
        whole_launches=sum(not one.lacks_count for one in listed),
        missing_launches=sorted(missing),
        unread_launches=sorted(unread),
        sessions={
            state: _sum_up(launches, f"num_{state}_sessions") for state in ("queued", "active", "complete")
        },
        results=held,
        new_results=held - sum(one.before for one in launches) + removed.dropped,
        expected_results=_sum_up(launches, "num_results"),
        forgotten_results=sum(one.forgotten for one in launches),
        short_launches=[one.project_launch_guid for one in launches if one.is_short],
        differences=list(differences),
        unlisted_results=sum(one.surplus for one in launches),
        unlisted_launches=[one.project_launch_guid for one in launches if one.surplus],
        renamed_results=removed.renamed,
        dropped_results=removed.dropped,
        **others,
    )


def reconcile_campaign(context: ReconcileContext, *, accept: bool = False) -> ReconcileSummary:
    """Bring one campaign's counts, results and opt-outs up to date.

    With `accept`, the service's lists are taken as complete, whatever it counts.
    """
    campaign, words = context.campaign_id, context.opt_out_words
    with context.ledger.writing() as connection:
        reader = LaunchReader.begin(context, connection)
        replied = count_replied(connection, context.key.target)
        revision = read_version(connection).revision
        has_results = any(one.held for one in reader.launches.values())
        is_unscreened = has_results and not is_screened(connection, campaign, words)
        if not is_unscreened:
            mark_screened(connection, campaign, words)
    context = replace(context, full=context.full or is_unscreened)
    results = ResultReading(context, reader)
    reader.read_all()
    results.read_all()
    leave_out_strangers(context, revision)
    # Last, and as of the start: a reconciled launch has all its answers known.
    with context.ledger.writing() as connection:
        reader.count_held(connection)
        launches = sorted(reader.launches.values(), key=lambda one: one.project_launch_guid)
        differences = _keep_differences(context, connection, launches, results.lost, accept=accept)
        if is_unscreened and all(one.is_short is False for one in launches if one.before):
            mark_screened(connection, campaign, words)
        opted_out = count_replied(connection, context.key.target) - replied
        doubtful = len(list_waiting(connection, context.key.target))
    return _summarise(
        launches,
        differences,
        results.removed,
        opted_out=opted_out,
        doubtful=doubtful,
        unreadable_results=results.lost,
        unreadable=[*reader.unreadable.values(), *results.unreadable],
    )


def _keep_differences(
    context: ReconcileContext,
    connection: LedgerConnection,
    launches: Sequence[ReadLaunch],
    lost: int,
    *,
    accept: bool,
) -> list[LaunchDifference]:
    """Record the service's counts of launches and their contradictions; return the present differences.

    A launch counts as fully read only if nothing contradicts it, or if a person has accepted just that
    contradiction; `accept` accepts all. `lost` is the number of unreadable results.
    """
    at = context.at
    before = {one.launch_id: one for one in list_differences(connection, context.campaign_id)}
    # Unreadable results that name no launch may be of any.
    is_anybodys = lost > sum(one.lost for one in launches)
    found = [one for row in launches if (one := _find_difference(row, at, is_anybodys=is_anybodys))]
    agreed = read_agreed(connection, [one.launch_id for one in found])
    differences = [
        _follow_up(before.get(one.launch_id), one.replace(agreed_at=agreed.get(one.launch_id)), accept=accept)
        for one in found
    ]
    store_counts(connection, {one.launch_id: one.counts for one in launches if one.counts is not None}, at)
    store_differences(connection, before.keys(), differences)
    listed = {one.launch_id for one in launches if one.counts is not None}
    silent = [one.launch_id for one in differences if one.accepted_at and one.launch_id not in listed]
    accept_silence(connection, silent, at)
    return differences


def _follow_up(before: LaunchDifference | None, found: LaunchDifference, *, accept: bool) -> LaunchDifference:
    """Return a difference with its earlier acceptance, unless it has changed."""
    is_known = before is not None and before.is_like(found)
    accepted_at = before.accepted_at if before is not None and is_known else None
    if accepted_at is None and accept:
        accepted_at = found.since
    if before is not None and (before.accepted_at is None or is_known):
        found = found.replace(since=before.since)
    return found.replace(accepted_at=accepted_at)
