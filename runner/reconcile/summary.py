"""What reconciling a campaign has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.reconcile.backlog import Backlog
    from runner.reconcile.held import Held
    from runner.service.model import StatRecord
    from runner.service.paging import Unreadable

_SHOWN = 20


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
class ReadLaunches:
    """What came of reading the results of some launches, in one process or in several that share them.

    Attributes:
        short: launches of which fewer results are listed than the service counts.
        listed: results that are listed and can be read, of launches that were read whole and in full.
        unreadable: the first records that cannot be read.
        unreadable_count: how many there are.
    """

    short: frozenset[str] = frozenset()
    listed: Mapping[str, int] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()
    unreadable_count: int = 0

    @classmethod
    def of(cls, backlog: Backlog) -> ReadLaunches:
        """Return what a backlog that was read has come to."""
        return cls(
            frozenset(backlog.list_short()),
            backlog.count_listed(),
            tuple(backlog.unreadable),
            backlog.unreadable_count,
        )

    def add(self, other: ReadLaunches) -> ReadLaunches:
        """Return what came of reading these and others."""
        return ReadLaunches(
            self.short | other.short,
            {**self.listed, **other.listed},
            (*self.unreadable, *other.unreadable)[:_SHOWN],
            self.unreadable_count + other.unreadable_count,
        )


def summarise(
    before: Held,
    after: Held,
    stats: Mapping[str, StatRecord],
    unread: Iterable[Unreadable],
    read: ReadLaunches,
    opted_out: int,
) -> ReconcileSummary:
    """Return the summary of one campaign.

    Args:
        before: what the ledger held at first.
        after: what it holds now.
        stats: the service's counts, by `project_launch_guid`.
        unread: launches that cannot be read.
        read: what came of reading results.
        opted_out: replies that opt out and were not known to.
    """
    unread = list(unread)
    return ReconcileSummary(
        launches=len(stats),
        missing_launches=sorted(
            before.launches.keys() - stats.keys() - {launch.project_launch_guid for launch in unread}
        ),
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
        short_launches=sorted(read.short),
        unlisted_results=sum(
            max(0, after.account_for(guid) - listed) for guid, listed in read.listed.items()
        ),
        unreadable_results=read.unreadable_count,
        unreadable=[*unread, *read.unreadable],
    )
