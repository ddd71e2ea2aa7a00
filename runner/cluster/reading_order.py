"""What a client tells its workers to read of a service, and what they say of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.cluster.worker_access import WorkerTarget
    from runner.reconcile.summary import ReadLaunches
    from runner.service.model import StatRecord
    from runner.service.paging import Unreadable


@dataclass(frozen=True, slots=True)
class ReadingOrder:
    """What all tasks of a run are told.

    Attributes:
        campaign_id: the ledger's number of the campaign.
        campaign: its name.
        target: the service.
        threads: requests that one task may have in flight.
        at: when the run began; UTC, ISO 8601.
        full: read every result again.
        drops: remove the results that the service does not list any more.
        opt_out_words: those that opt out besides, as the campaign has it.
    """

    campaign_id: int
    campaign: str
    target: WorkerTarget
    threads: int
    at: str
    full: bool = False
    drops: bool = False
    opt_out_words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """A part of the list under a project tag.

    Attributes:
        tag: the project tag.
        first: where it begins, from 0.
        count: how many records it has.
    """

    tag: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class LaunchGroup:
    """Launches whose results are read together.

    Attributes:
        stats: their counts, without phones and texts, by `project_launch_guid`.
        unscreened: those to be read in full, because their replies were never looked at for opt-outs.
        listed: how many results the service counts under each of their tags.
    """

    stats: Mapping[str, StatRecord]
    unscreened: frozenset[str]
    listed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What a range of the list of launches has.

    Attributes:
        stats: the campaign's launches, without phones and texts.
        unreadable: those of them that cannot be read.
    """

    stats: Sequence[StatRecord] = ()
    unreadable: Sequence[Unreadable] = ()


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """What came of reading a group.

    Attributes:
        read: results that were missing, and the like.
        newer: newer counts of the launches for which the first were not enough.
        seen: how many results were read.
    """

    read: ReadLaunches
    newer: Mapping[str, StatRecord]
    seen: int


def strip_stat(stat: StatRecord, tag: str) -> StatRecord:
    """Return a launch's counts as they travel: without phones and texts."""
    return replace(stat, project_tag=tag, project_definition={}, recipients=(), stopped=(), statuses=())
