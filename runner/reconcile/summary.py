"""The findings of reconciling a campaign, launch by launch and summed up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.document import Count, Part
from runner.ledger.report_model import LaunchDifference
from runner.service.model import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.ledger.report_model import Problem
    from runner.ledger.results.readings import UnevenLaunch
    from runner.ledger.results.reconciled import Removed


_SUMMED = {
    "queued": "num_queued_sessions",
    "active": "num_active_sessions",
    "complete": "num_complete_sessions",
    "expected_results": "num_results",
}


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


def find_difference(row: UnevenLaunch, at: str, *, is_anybodys: bool) -> LaunchDifference | None:
    """Return the service's contradiction about an uneven launch of a reading, if there is one.

    `is_anybodys`: some unreadable results name no launch, so any launch may lack these.
    """
    found: tuple[Problem, int | None, int | None]
    if not row.is_listed:
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
    return LaunchDifference(row.launch_id, row.project_launch_guid, problem, counted, listed, at)


def summarise(
    sums: Mapping[str, int],
    uneven: Sequence[UnevenLaunch],
    differences: Sequence[LaunchDifference],
    removed: Removed,
) -> ReconcileSummary:
    """Return the summary of a reading.

    What belongs to no launch, or to none for certain, is left to the caller: opt-outs and unreadable results.
    """
    launches = sums["recorded_launches"]
    whole = {
        name: sums[count] if sums[f"of_{count}"] == launches else None for name, count in _SUMMED.items()
    }
    missing = {row.project_launch_guid for row in uneven if not row.is_listed and not row.is_unreadable}
    unread = {
        row.project_launch_guid for row in uneven if row.is_unreadable or (row.is_listed and row.lacks_count)
    }
    unread |= {one.project_launch_guid for one in differences if one.agreed_at is None} & missing
    unread |= {one.project_launch_guid for one in differences if one.hides_answers}
    expected = whole.pop("expected_results")
    return ReconcileSummary(
        recorded_launches=launches,
        launches=sums["launches"],
        whole_launches=sums["whole_launches"],
        missing_launches=sorted(missing),
        unread_launches=sorted(unread),
        sessions=whole,
        results=sums["results"],
        new_results=sums["results"] - sums["before"] + removed.dropped,
        expected_results=expected,
        forgotten_results=sums["forgotten_results"],
        opted_out=0,
        doubtful=0,
        short_launches=[row.project_launch_guid for row in uneven if row.is_short],
        differences=list(differences),
        unlisted_results=sum(row.surplus for row in uneven if row.surplus > 0),
        unlisted_launches=[row.project_launch_guid for row in uneven if row.surplus > 0],
        renamed_results=removed.renamed,
        dropped_results=removed.dropped,
        unreadable_results=0,
        unreadable=[],
    )
