"""The findings of reconciling a campaign, launch by launch and summed up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.document import Count, Part
from runner.ledger.report_model import LaunchDifference, PartialCount
from runner.reconcile.context import Finding
from runner.service.model import Unreadable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from runner.reconcile.context import Held
    from runner.reconcile.missing_results import ReadLaunches
    from runner.service.model import StatRecord


_SUMMED = {
    "queued": "num_queued_sessions",
    "active": "num_active_sessions",
    "complete": "num_complete_sessions",
    "expected_results": "num_results",
}


_ADDED = (
    "recorded_launches",
    "launches",
    "whole_launches",
    "results",
    "new_results",
    "forgotten_results",
    "unlisted_results",
    "renamed_results",
    "dropped_results",
    "unreadable_results",
)
_LISTED = ("missing_launches", "unread_launches", "short_launches", "unlisted_launches")


class ReconcileCounts(Part, frozen=True, kw_only=True):
    """What was found about a campaign. Launches are `project_launch_guid`s.

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
        partly_known: counts that are None in total but known of some launches, by name.
        differences: launches about whose answers the service contradicts itself, or tells nothing.
    """

    partly_known: dict[str, PartialCount]
    differences: list[LaunchDifference]

    @property
    def is_complete(self) -> bool:
        """True if the ledger holds all that the service counts, without forgotten results."""
        is_even = self.results + self.forgotten_results == self.expected_results
        return is_even and not self.short_launches and not self.unreadable

    def add(self, other: ReconcileSummary) -> ReconcileSummary:
        """Return the summary of these launches and others; `opted_out` and `unreadable` are not added."""
        launches = self.recorded_launches + other.recorded_launches
        counts = {name: self._find_count(name).add(other._find_count(name)) for name in _SUMMED}
        whole, partly_known = _tell_apart(counts, launches)
        added: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        added |= {name: sorted([*getattr(self, name), *getattr(other, name)]) for name in _LISTED}
        differences = sorted([*self.differences, *other.differences], key=lambda one: one.project_launch_guid)
        return self.replace(
            **added,
            expected_results=whole.pop("expected_results"),
            sessions=whole,
            partly_known=partly_known,
            differences=differences,
            doubtful=other.doubtful,
        )

    def _find_count(self, name: str) -> PartialCount:
        """Return a count's sum, and the number of launches of which it is known."""
        total = self.expected_results if name == "expected_results" else self.sessions[name]
        if total is None:
            return self.partly_known.get(name, PartialCount(0, 0))
        return PartialCount(total, self.recorded_launches)


def find_differences(
    after: Held,
    stats: Mapping[str, StatRecord],
    unread: Collection[str],
    read: ReadLaunches,
    *,
    is_anybodys: bool,
) -> dict[str, Finding]:
    """Return the service's contradictions about launches, by `project_launch_guid`.

    `after` is what the ledger holds after reading, `unread` are the launches whose records cannot be read.
    `is_anybodys`: some unreadable records name no launch, so any of them may lack these.
    """
    found = {}
    for guid in after.launches:
        stat = stats.get(guid)
        if stat is None:
            found[guid] = Finding("unreadable" if guid in unread else "unlisted")
            continue
        listed = read.shown.get(guid, after.account_for(guid))
        counted, lost = stat.num_results, read.unreadable_of.get(guid, 0)
        most = max(listed + lost if counted is None else counted, read.claims.get(guid, 0))
        if most > listed and (lost or is_anybodys):
            found[guid] = Finding("unreadable_results", most, listed)
        elif counted is None:
            found[guid] = Finding("uncounted", None, listed)
        elif most > listed:
            found[guid] = Finding("more_counted", most, listed)
    return found


def summarise(
    results_before: int,
    after: Held,
    stats: Mapping[str, StatRecord],
    unread: AbstractSet[str],
    read: ReadLaunches,
    differences: Sequence[LaunchDifference],
) -> ReconcileSummary:
    """Return the summary of some launches, from the ledger's data after reading.

    What belongs to no launch, or to none for certain, is left to the caller: `opted_out` and `unreadable`.
    """
    missing = after.launches.keys() - stats.keys() - unread
    lacking = {guid for guid, stat in stats.items() if stat.missing_counts}
    never = {one.project_launch_guid for one in differences if one.agreed_at is None} & missing
    partly = {one.project_launch_guid for one in differences if one.hides_answers}
    whole, partly_known = _sum_up(stats.values(), len(after.launches))
    expected = whole.pop("expected_results")
    surplus = {guid: after.account_for(guid) - listed for guid, listed in read.listed.items()}
    unlisted = {guid: count for guid, count in surplus.items() if count > 0}
    return ReconcileSummary(
        recorded_launches=len(after.launches),
        launches=len(stats),
        whole_launches=len(stats) - len(lacking),
        missing_launches=sorted(missing),
        unread_launches=sorted(lacking | unread | never | partly),
        sessions=whole,
        results=after.results,
        new_results=after.results - results_before + read.removed.dropped,
        expected_results=expected,
        partly_known=partly_known,
        forgotten_results=sum(after.forgotten.values()),
        opted_out=0,
        doubtful=after.doubtful,
        short_launches=sorted(read.short),
        differences=list(differences),
        unlisted_results=sum(unlisted.values()),
        unlisted_launches=sorted(unlisted),
        renamed_results=read.removed.renamed,
        dropped_results=read.removed.dropped,
        unreadable_results=read.unreadable_count,
        unreadable=[],
    )


def _sum_up(
    stats: Collection[StatRecord], launches: int
) -> tuple[dict[str, int | None], dict[str, PartialCount]]:
    """Return the sums of counts, None where a launch lacks one, and the partial sums of these."""
    counts = {}
    for name, field_name in _SUMMED.items():
        known = [n for n in (getattr(stat, field_name) for stat in stats) if n is not None]
        counts[name] = PartialCount(sum(known), len(known))
    return _tell_apart(counts, launches)


def _tell_apart(
    counts: Mapping[str, PartialCount], launches: int
) -> tuple[dict[str, int | None], dict[str, PartialCount]]:
    """Return counts that are known of all launches, None for others, and those known of some."""
    whole = {name: one.count if one.launches == launches else None for name, one in counts.items()}
    return whole, {name: one for name, one in counts.items() if 0 < one.launches < launches}
