"""What reconciling a campaign has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.ledger.report_model import PartialCount
from runner.ledger.unlisted import Removed
from runner.reconcile.held import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from runner.ledger.report_model import LaunchDifference
    from runner.reconcile.backlog import Backlog
    from runner.reconcile.held import Held
    from runner.service.model import StatRecord
    from runner.service.paging import Unreadable

_SHOWN = 20
_SUMMED = {
    "queued": "num_queued_sessions",
    "active": "num_active_sessions",
    "complete": "num_complete_sessions",
    "expected_results": "num_results",
}


@dataclass(frozen=True, slots=True)
class ReconcileSummary:
    """What reconciling one campaign found.

    Attributes:
        recorded_launches: launches on record.
        launches: of these, those that the service still knows.
        whole_launches: of these, those of which every count is known.
        missing_launches: `project_launch_guid`s that are recorded as sent and that the service doesn't list.
        unread_launches: `project_launch_guid`s of which the service's record lacks a count or cannot be read,
            of those with results that cannot be read, and of those that it does not list and of which
            nothing was ever read.
        sessions: by state; None where that is not known of every launch on record.
        results: results in the ledger now.
        new_results: of these, those that were not there before.
        expected_results: what the service's own counts say, the last that were read; None where that is not
            known of every launch on record.
        partly_known: of the counts that are None, those that are known of some launches, by name.
        forgotten_results: of these, those that are not kept: their participants were forgotten.
        opted_out: replies that opt out and were not known to.
        doubtful: replies on the target, to any campaign, that wait for a person's decision.
        short_launches: `project_launch_guid`s of which fewer results are listed than the service counts.
        differences: every launch whose answers the service contradicts itself about, or does not tell.
        unlisted_results: results in the ledger that the service doesn't list any more, as far as was looked:
            the ledger keeps them until it is told to drop them.
        unlisted_launches: `project_launch_guid`s of the launches that they belong to.
        renamed_results: results that the service lists under another guid now: the ledger has them once.
        dropped_results: results that the ledger was told to drop, because they are not listed any more.
        unreadable_results: results that are listed and cannot be read.
        unreadable: the first of these, and every launch that cannot be read.
    """

    recorded_launches: int
    launches: int
    whole_launches: int
    missing_launches: list[str]
    unread_launches: list[str]
    sessions: dict[str, int | None]
    results: int
    new_results: int
    expected_results: int | None
    partly_known: dict[str, PartialCount]
    forgotten_results: int
    opted_out: int
    doubtful: int
    short_launches: list[str]
    differences: list[LaunchDifference]
    unlisted_results: int
    unlisted_launches: list[str]
    renamed_results: int
    dropped_results: int
    unreadable_results: int
    unreadable: list[Unreadable]

    @property
    def is_complete(self) -> bool:
        """Whether the ledger holds what the service counts, but for what it is not to hold."""
        is_even = self.results + self.forgotten_results == self.expected_results
        return is_even and not self.short_launches and not self.unreadable


@dataclass(frozen=True, slots=True)
class ReadLaunches:
    """What came of reading the results of some launches, in one process or in several that share them.

    Attributes:
        short: launches of which fewer results are listed than the service counts, or than the list claims.
        listed: results that are listed and can be read, of launches that were read whole and in full.
        shown: the same of all launches that were read whole.
        claims: what the lists of launches claim to have, of those that have shown fewer.
        unreadable: the first records that cannot be read.
        unreadable_count: how many there are.
        unreadable_of: how many of them belong to which launch, as far as they say it.
        removed: results that are not listed under the guids that the ledger had.
    """

    short: frozenset[str] = frozenset()
    listed: Mapping[str, int] = field(default_factory=dict)
    shown: Mapping[str, int] = field(default_factory=dict)
    claims: Mapping[str, int] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()
    unreadable_count: int = 0
    unreadable_of: Mapping[str, int] = field(default_factory=dict)
    removed: Removed = field(default_factory=Removed)

    @classmethod
    def of(cls, backlog: Backlog, removed: Removed) -> ReadLaunches:
        """Return what a backlog that was read has come to."""
        return cls(
            frozenset(backlog.list_short()),
            backlog.count_listed(),
            backlog.count_shown(),
            backlog.find_claims(),
            tuple(backlog.unreadable),
            backlog.unreadable_count,
            backlog.count_unreadable_of(),
            removed,
        )

    def add(self, other: ReadLaunches) -> ReadLaunches:
        """Return what came of reading these and others."""
        return ReadLaunches(
            self.short | other.short,
            {**self.listed, **other.listed},
            {**self.shown, **other.shown},
            {**self.claims, **other.claims},
            (*self.unreadable, *other.unreadable)[:_SHOWN],
            self.unreadable_count + other.unreadable_count,
            {**self.unreadable_of, **other.unreadable_of},
            Removed(*map(sum, zip(self.removed, other.removed, strict=True))),
        )


def find_differences(
    after: Held, stats: Mapping[str, StatRecord], unread: Collection[str], read: ReadLaunches
) -> dict[str, Finding]:
    """Return how the service contradicts itself about launches, by `project_launch_guid`.

    Args:
        after: what the ledger holds after reading.
        stats: the service's counts, likewise.
        unread: the launches whose records cannot be read.
        read: what came of reading results.
    """
    found = {}
    # Those that do not say of which launch they are may be what any of them lacks.
    is_anybodys = read.unreadable_count > sum(read.unreadable_of.values())
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
    before: Held,
    after: Held,
    stats: Mapping[str, StatRecord],
    unread: Mapping[str, Unreadable],
    read: ReadLaunches,
    differences: Sequence[LaunchDifference],
    opted_out: int,
) -> ReconcileSummary:
    """Return the summary of one campaign.

    Args:
        before: what the ledger held at first.
        after: what it holds now.
        stats: the service's counts, by `project_launch_guid`.
        unread: launches that cannot be read, likewise.
        read: what came of reading results.
        differences: how the service contradicts itself.
        opted_out: replies that opt out and were not known to.
    """
    missing = before.launches.keys() - stats.keys() - unread.keys()
    lacking = {guid for guid, stat in stats.items() if stat.missing_counts}
    never = {one.project_launch_guid for one in differences if one.agreed_at is None} & missing
    partly = {one.project_launch_guid for one in differences if one.hides_answers}
    whole, partly_known = _sum_up(stats.values(), len(before.launches))
    expected = whole.pop("expected_results")
    surplus = {guid: after.account_for(guid) - listed for guid, listed in read.listed.items()}
    unlisted = {guid: count for guid, count in surplus.items() if count > 0}
    return ReconcileSummary(
        recorded_launches=len(before.launches),
        launches=len(stats),
        whole_launches=len(stats) - len(lacking),
        missing_launches=sorted(missing),
        unread_launches=sorted(lacking | unread.keys() | never | partly),
        sessions=whole,
        results=after.results,
        new_results=after.results - before.results + read.removed.dropped,
        expected_results=expected,
        partly_known=partly_known,
        forgotten_results=sum(after.forgotten.values()),
        opted_out=opted_out,
        doubtful=after.doubtful,
        short_launches=sorted(read.short),
        differences=list(differences),
        unlisted_results=sum(unlisted.values()),
        unlisted_launches=sorted(unlisted),
        renamed_results=read.removed.renamed,
        dropped_results=read.removed.dropped,
        unreadable_results=read.unreadable_count,
        unreadable=[*unread.values(), *read.unreadable],
    )


def _sum_up(
    stats: Collection[StatRecord], launches: int
) -> tuple[dict[str, int | None], dict[str, PartialCount]]:
    """Return the sums of counts, None where one is not known of a launch, and what is known of these."""
    whole: dict[str, int | None] = {}
    parts = {}
    for name, field_name in _SUMMED.items():
        counts = [n for n in (getattr(stat, field_name) for stat in stats) if n is not None]
        whole[name] = sum(counts) if len(counts) == launches else None
        if 0 < len(counts) < launches:
            parts[name] = PartialCount(sum(counts), len(counts))
    return whole, parts
