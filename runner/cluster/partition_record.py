"""What the ledger says of one partition's people: they are looked up, nobody else is read."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.ledger.database import Ledger
from runner.ledger.earlier import EarlierMessage
from runner.ledger.fingerprint_set import FingerprintSet
from runner.ledger.frequency import RecentDeliveries, read_recent
from runner.ledger.lookup import find_earlier, find_known, find_suppressions
from runner.ledger.model import Known
from runner.ledger.open_sessions import OpenSessions, OpenShelf, read_open_sessions
from runner.ledger.target_key import LedgerConnection, read_target_key
from runner.plan.circumstances import Circumstances
from runner.timing.law import load_law

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.cluster.plan_job import PlanJob, RecordPlace
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.opt_outs import Suppressions
    from runner.plan.texted import TextedPeople


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """What is known of some people.

    Attributes:
        known: their deliveries.
        key: of the campaign's fingerprints; None if the campaign has texted nobody.
        circumstances: what else there is to know of them; None to go by the campaign's files alone.
    """

    known: Known
    key: FingerprintKey | None
    circumstances: Circumstances | None


@dataclass(slots=True)
class _Found:
    known: Known = field(default_factory=lambda: Known({}, {}))
    earlier: Mapping[str, EarlierMessage] = field(default_factory=dict)
    suppressions: Suppressions | None = None
    sessions: OpenSessions | None = None
    recent: RecentDeliveries | None = None


def read_partition_record(
    job: PlanJob,
    list_phones: Callable[[], Sequence[str]],
    planned: Sequence[TextedPeople],
    environment: Mapping[str, str],
) -> PartitionRecord:
    """Return what is known of some people of a campaign.

    Args:
        job: the campaign.
        list_phones: returns theirs, E.164; only called if there is something to ask.
        planned: the people whom campaigns before it, in the same run, will text.
        environment: of this process: the ledger's URL and the user's secret.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    if job.now is None:
        return PartitionRecord(Known({}, {}), None, None)
    place = job.record
    state_key = (environment.get(place.key_variable) or None) if place is not None else None
    key = place.key.open(state_key) if place is not None and place.key is not None else None
    after = job.campaign.list_earlier()
    found = _Found(earlier=dict.fromkeys(after, EarlierMessage()))
    if place is not None and place.ledger_variable is not None and _asks_something(place):
        with _reading(environment[place.ledger_variable]) as connection:
            found = _look_up(connection, job, place, key, state_key, list_phones())
    if place is not None:
        found.known.forgotten.update(place.forgotten)
        if place.suppressed is not None:
            found.suppressions = place.suppressed.open(job.target, state_key)
        if place.told_sessions:
            told = (
                OpenShelf(name, name, one.open(state_key), FingerprintSet(), people)
                for name, one, people in place.told_sessions
            )
            found.sessions = OpenSessions((*(found.sessions or OpenSessions()).shelves, *told))
        if place.recent_since is not None:
            others = ((name, one.open(state_key), people) for name, one, people in place.told_elsewhere)
            entered = () if found.recent is None else found.recent.shelves
            found.recent = RecentDeliveries((*entered, *others))
    circumstances = Circumstances(
        now=job.now,
        suppressions=found.suppressions,
        earlier=found.earlier,
        sessions=found.sessions,
        recent=found.recent,
        planned=planned,
        planned_at=job.planned_at,
        law=load_law() if job.campaign.policy.quiet_hours == "legal" else None,
        pause=place.pause if place is not None else None,
        unread=place.unread if place is not None else None,
    )
    return PartitionRecord(found.known, key, circumstances)


def _asks_something(place: RecordPlace) -> bool:
    return (
        place.key is not None
        or place.has_opt_outs
        or place.has_open_launches
        or place.recent_since is not None
    )


@contextmanager
def _reading(url: str) -> Iterator[LedgerConnection]:
    with Ledger(url) as ledger, ledger.reading() as connection:
        yield connection


def _look_up(
    connection: LedgerConnection,
    job: PlanJob,
    place: RecordPlace,
    key: FingerprintKey | None,
    state_key: str | None,
    phones: Sequence[str],
) -> _Found:
    campaign, found = job.campaign, _Found()
    after = campaign.list_earlier()
    found.earlier = dict.fromkeys(after, EarlierMessage())
    if key is not None and place.campaign_id is not None:
        people = [key.fingerprint(campaign.name, phone) for phone in phones]
        ids = campaign.message_ids
        found.known = find_known(connection, place.campaign_id, ids, people)
        if after:
            found.earlier = find_earlier(connection, place.campaign_id, ids, after, people, place.depleted)
    if place.has_opt_outs:
        target_key = read_target_key(connection, job.target, state_key)
        suppressions = find_suppressions(connection, target_key, phones)
        found.suppressions = suppressions if suppressions.confirmed or suppressions.doubtful else None
    if place.has_open_launches:
        found.sessions = read_open_sessions(connection, job.target, state_key, phones)
    if place.recent_since is not None:
        found.recent = read_recent(connection, job.target, state_key, place.recent_since, phones)
    return found
