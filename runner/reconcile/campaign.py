"""Reconciliation: the service's counts and results of a campaign's launches, brought into the ledger.

It is incremental: counts are read for every launch, results only of launches that lack some by their counts.
Counts that agree mean that nothing is missing as long as the service deletes no result. A full reading also
finds edited results, and deletions made up for by new results.
Results in the ledger have no phone. So with new rules or opt-out words, all results are read once more.
What the service says waits in the ledger (`readings`), so memory does not grow with the launches.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.errors import LedgerError
from runner.ledger.people.replies import (
    count_replied,
    is_screened,
    list_waiting,
    mark_screened,
)
from runner.ledger.results.differences import accept_silence, list_differences, read_agreed, store_differences
from runner.ledger.results.readings import Reading
from runner.ledger.results.result_feed import read_version
from runner.reconcile.ingest import leave_out_strangers
from runner.reconcile.launches import LaunchReader
from runner.reconcile.result_reading import ResultReading
from runner.reconcile.summary import find_difference, summarise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.ledger.report_model import LaunchDifference
    from runner.ledger.results.readings import UnevenLaunch
    from runner.ledger.target_key import LedgerConnection
    from runner.reconcile.launches import ReconcileContext
    from runner.reconcile.summary import ReconcileSummary


def reconcile_campaign(context: ReconcileContext, *, accept: bool = False) -> ReconcileSummary:
    """Bring one campaign's counts, results and opt-outs up to date.

    With `accept`, the service's lists are taken as complete, whatever it counts.

    Raises:
        ServiceError: the service cannot be asked; results read before are kept.
        LedgerError: the ledger cannot be written, or the target's key is not at hand.
    """
    with context.ledger.writing() as connection:
        reading = Reading.begin(connection, context.campaign_id, context.at)
        replied = count_replied(connection, context.key.target)
        revision = read_version(connection).revision
        campaign, words = context.campaign_id, context.opt_out_words
        is_unscreened = reading.has_results(connection) and not is_screened(connection, campaign, words)
        if not is_unscreened:
            mark_screened(connection, campaign, words)
    context = replace(context, full=context.full or is_unscreened)
    try:
        return _Reconciliation(context, reading, replied, revision, is_unscreened).run(accept=accept)
    finally:
        with suppress(LedgerError), context.ledger.writing() as connection:
            reading.end(connection)


@dataclass(slots=True)
class _Reconciliation:
    """The reconciliation of one campaign.

    `replied` is the number of opt-outs by reply before it, `revision` that of the results. If some
    `is_unscreened`, results in the ledger were never read with the present rules and opt-out words.
    """

    context: ReconcileContext
    reading: Reading
    replied: int
    revision: int
    is_unscreened: bool
    _launches: LaunchReader = field(init=False)
    _results: ResultReading = field(init=False)

    def __post_init__(self) -> None:
        self._launches = LaunchReader(self.context, self.reading)
        self._results = ResultReading(self.context, self._launches)

    def run(self, *, accept: bool) -> ReconcileSummary:
        self._launches.read_all()
        self._results.read_all()
        leave_out_strangers(self.context, self.revision)
        # Last, and as of the start: a reconciled launch has all its answers known.
        return self._conclude(accept=accept)

    def _conclude(self, *, accept: bool) -> ReconcileSummary:
        """Record what the service counts, and return what was found."""
        context, reading = self.context, self.reading
        with context.ledger.writing() as connection:
            uneven = reading.list_uneven(connection)
            differences = self._keep_differences(connection, uneven, accept=accept)
            sums = reading.sum_up(connection)
            if self.is_unscreened and reading.is_read_whole(connection):
                mark_screened(connection, context.campaign_id, context.opt_out_words)
            opted_out = count_replied(connection, context.key.target) - self.replied
            doubtful = len(list_waiting(connection, context.key.target))
        return summarise(sums, uneven, differences, self._results.removed).replace(
            opted_out=opted_out,
            doubtful=doubtful,
            unreadable_results=self._results.lost,
            unreadable=[*self._launches.unreadable.values(), *self._results.unreadable],
        )

    def _keep_differences(
        self, connection: LedgerConnection, uneven: Sequence[UnevenLaunch], *, accept: bool
    ) -> list[LaunchDifference]:
        """Record the service's counts of launches and their contradictions; return the present differences.

        A launch counts as fully read only if nothing contradicts it, or if a person has accepted just that
        contradiction; `accept` accepts all.
        """
        at = self.context.at
        before = {one.launch_id: one for one in list_differences(connection, self.context.campaign_id)}
        # Unreadable results that name no launch may be of any.
        is_anybodys = self._results.lost > sum(row.lost for row in uneven)
        found = [one for row in uneven if (one := find_difference(row, at, is_anybodys=is_anybodys))]
        agreed = read_agreed(connection, [one.launch_id for one in found])
        differences = [
            _follow_up(
                before.get(one.launch_id), replace(one, agreed_at=agreed.get(one.launch_id)), accept=accept
            )
            for one in found
        ]
        self.reading.keep_counts(connection, at)
        store_differences(connection, before.keys(), differences)
        listed = {row.launch_id for row in uneven if row.is_listed}
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
        found = replace(found, since=before.since)
    return replace(found, accepted_at=accepted_at)
