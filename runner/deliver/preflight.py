"""Before the first send: looks for launches that the service knows and no record does.

Design: delivery, step 5.

A run whose machine was lost, or an old commit that is run again, looks like a first run. The service
knows better: its launches that get exactly what is planned now are adopted, and their recipients
are not texted again. One cheap request a tag when nothing is amiss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runner.deliver.match import CLOCK_SKEW, is_same_definition, parse_moment
from runner.deliver.settle import write_moment
from runner.ledger.entry import enter_adopted
from runner.ledger.model import LaunchRecord
from runner.ledger.unsettled import count_claimed, list_claimed
from runner.service.listing import list_launches

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

    from runner.deliver.subject import Subject
    from runner.plan.model import Offer
    from runner.service.model import StatRecord


@dataclass(frozen=True, slots=True)
class PreflightSummary:
    """What the service knew beyond the record.

    Attributes:
        adopted: launches that were sent by a run that no record tells of.
        foreign: guids of launches under the campaign's tags that nobody here can account for.
        blank: foreign launches that are listed without recipients: these may be listed later.
        latest: when the latest of the adopted and the blank ones started, if that can be read.
        reached: recipients of the plan that got one of the foreign launches.
    """

    adopted: int = 0
    foreign: tuple[str, ...] = ()
    blank: int = 0
    latest: datetime | None = None
    reached: int = 0

    def is_recent(self, now: datetime, window: timedelta) -> bool:
        """Return whether the lost run may have sent launches that are not listed yet.

        Args:
            now: on this machine's clock, which may be ahead of the service's.
            window: how long a launch may take to be listed.
        """
        return self.latest is None or now - self.latest < window + CLOCK_SKEW


class PayloadFinder(Protocol):
    """Who knows what a campaign's recipients would get: a `Planner` that has planned it."""

    def find_payloads(self, phones: set[str]) -> dict[str, list[Offer]]:
        """Return what some recipients lack, by phone, whether it would be sent now or not."""


class Preflight:
    """Compares the service's launches with the record of one campaign. The caller holds its lock.

    Args:
        subject: the campaign.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def check(self, planner: PayloadFinder, tags: Iterable[str]) -> PreflightSummary:
        """Adopt what the service knows and the record doesn't.

        Args:
            planner: says what the campaign's recipients would get.
            tags: the project tags of the campaign.

        Raises:
            ServiceError: the service cannot be asked. Nothing may be sent then.
            LedgerError: the ledger cannot be written.
        """
        unclaimed = [stat for tag in sorted(set(tags)) for stat in self._list_unclaimed(tag)]
        if not unclaimed:
            return PreflightSummary()
        planned = planner.find_payloads({phone for stat in unclaimed for phone in stat.recipients})
        adopted, foreign = [], []
        reached: set[tuple[str, str]] = set()
        with self._subject.ledger.writing() as connection:
            for stat in unclaimed:
                found = _find_message(stat, planned, reached)
                if found is None:
                    foreign.append(stat)
                    continue
                adopted.append(stat)
                reached |= {(found.message.id, phone) for phone in stat.recipients}
                record = self._record(stat, found)
                enter_adopted(connection, self._subject.campaign_id, record, stat.project_definition)
        return _sum_up(adopted, foreign, planned)

    def _list_unclaimed(self, tag: str) -> list[StatRecord]:
        ledger, client, target = self._subject.ledger, self._subject.client, self._subject.target
        with ledger.reading() as connection:
            known = count_claimed(connection, target, tag)
        # Fewer are no good news either: among them may be one that is not on record.
        if client.count_launches(tag) == known:
            return []
        with ledger.reading() as connection:
            claimed = list_claimed(connection, target)
        launches = list_launches(client, tag).launches
        return [stat for stat in launches if stat.project_launch_guid not in claimed]

    def _record(self, stat: StatRecord, found: Offer) -> LaunchRecord:
        fingerprints = tuple(sorted({self._subject.fingerprint(p) for p in stat.recipients}))
        message, digest = found.message, found.payload.digest
        return LaunchRecord(
            message=message.id,
            key=self._subject.name_launch(message.id, digest, fingerprints),
            tag=message.tag,
            payload_digest=digest,
            project_launch_guid=stat.project_launch_guid,
            sent_at=write_moment(stat.project_launch_start, self._subject.now()),
            recipients=fingerprints,
            arm=found.arm,
        )


def _sum_up(
    adopted: list[StatRecord], foreign: list[StatRecord], planned: dict[str, list[Offer]]
) -> PreflightSummary:
    blank = [stat for stat in foreign if not stat.recipients]
    starts = [parse_moment(stat.project_launch_start) for stat in (*adopted, *blank)]
    return PreflightSummary(
        len(adopted),
        tuple(stat.project_launch_guid for stat in foreign),
        len(blank),
        max(filter(None, starts), default=None),
        len({phone for stat in foreign for phone in stat.recipients if planned.get(phone)}),
    )


def _find_message(
    stat: StatRecord, planned: dict[str, list[Offer]], reached: set[tuple[str, str]]
) -> Offer | None:
    """Return the message that a launch was: one that a recipient of it would get now, word for word.

    Two messages can have the same text: each launch stands for one that its recipients lack.
    """
    for phone in stat.recipients:
        for offer in planned.get(phone, ()):
            is_theirs = offer.message.tag == stat.project_tag and is_same_definition(
                offer.payload.definition, stat.project_definition
            )
            if is_theirs and (offer.message.id, phone) not in reached:
                return offer
    return None


def describe_foreign(campaign: str, found: PreflightSummary) -> str:
    """Return what is known of launches that nobody here can account for, in sentences.

    Args:
        campaign: the campaign's name.
        found: holds at least one of them.
    """
    count, people = len(found.foreign), found.reached
    known = (
        f"{count:,} launches under this campaign's tag that are not on record here and match"
        if count > 1
        else "a launch under this campaign's tag that is not on record here and matches"
    )
    got = (
        f" Of the recipients to be texted now, {people:,} got {'one of them' if count > 1 else 'it'}."
        if people
        else ""
    )
    return (
        f"{campaign}: the service knows {known} nothing that is planned, first: {found.foreign[0]}.{got} "
        "Was the campaign renamed (`renamed_from`), or its text edited after a send whose record is lost?"
    )
