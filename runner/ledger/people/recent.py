"""People who were texted lately (`policy.frequency_cap`), or have an open survey (`policy.open_session`).

All campaigns on the target count. Nothing is stored for this: phones are fingerprinted with each campaign's
key and looked up among its deliveries, so that earlier and lockfile deliveries count. It costs one hash for
each recipient and campaign.

A text to a person with an open survey waits at the service until that survey ends, and then leaves at any
hour. Surveys without later readings count as open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Integer, Select, String, and_, bindparam, func, select

from runner.errors import LedgerError
from runner.ledger.bulk import iterate_rows
from runner.ledger.fingerprint import FingerprintKey, FingerprintSet
from runner.ledger.people.open_sessions import OpenSessions, OpenShelf
from runner.ledger.record.renaming import list_campaigns
from runner.ledger.tables import campaigns, deliveries, launch_stats, launches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sqlalchemy import BindParameter


_GROUP = 1000
REACHED = ("intent", "sent", "unknown", "unexplained")
"""The states of launches that may have been sent; they all count against the cap."""
_SECONDS = len("2026-11-20T12:00:00")


@dataclass(frozen=True, slots=True)
class RecentDeliveries:
    """Recent deliveries: each campaign's first name, key and texted fingerprints."""

    shelves: tuple[tuple[str, FingerprintKey, FingerprintSet], ...]

    def count(self, phone: str) -> int:
        """Return the number of messages that a person was sent, or may have been; a survey is one message."""
        return sum(people.count(key.fingerprint(name, phone)) for name, key, people in self.shelves)


def read_recent(
    connection: Connection,
    target: str,
    state_key: str | None,
    since: str,
    phones: Collection[str] | None = None,
) -> RecentDeliveries:
    """Return the deliveries on a target since a moment (UTC, ISO 8601, to the second), at 16 bytes each.

    The connection must read one state of the ledger. `phones` (E.164) limits the people; None means all.

    Raises:
        LedgerError: the key of a campaign of the time is missing.
    """
    # Compared as text, to the second: fractions and zones are written in different ways.
    is_recent = and_(launches.c.state.in_(REACHED), launches.c.intent_at >= since[:_SECONDS])
    recent = (
        select(deliveries.c.fingerprint)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(is_recent)
    )
    are_wanted = campaigns.c.target == target
    if phones is None:
        are_wanted &= campaigns.c.id.in_(select(launches.c.campaign_id).where(is_recent).distinct())
    shelves = []
    for row in list_campaigns(connection, are_wanted):
        key = FingerprintKey.reopen(row.salt, state_key, row.key_fingerprint)
        if key is None and not _has_recent(connection, row.id, is_recent):
            continue
        if key is None:
            raise LedgerError(
                f"the frequency cap cannot be counted: the campaign {row.name!r} was written with another "
                "RUNNER_STATE_KEY, or with one that is not set",
                hint="set RUNNER_STATE_KEY to the key it was written with",
            )
        asked = None if phones is None else [key.fingerprint(row.first_name, phone) for phone in phones]
        people = _iterate_people(connection, recent, row.id, asked)
        shelves.append((row.first_name, key, FingerprintSet(row[0] for row in people)))
    return RecentDeliveries(tuple(shelves))


def read_recent_guids(connection: Connection, target: str, since: str) -> set[str]:
    """Return the `project_launch_guid`s of launches accepted on a target since a moment (UTC, ISO 8601)."""
    query = (
        select(launches.c.project_launch_guid)
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .where(
            campaigns.c.target == target,
            launches.c.outcome_at >= since[:_SECONDS],
            launches.c.project_launch_guid.is_not(None),
        )
    )
    return set(connection.execute(query).scalars())


def _has_recent(connection: Connection, campaign_id: int, is_recent: ColumnElement[bool]) -> bool:
    query = select(launches.c.id).where(launches.c.campaign_id == campaign_id, is_recent).limit(1)
    return connection.execute(query).first() is not None


def _iterate_people(
    connection: Connection, query: Select[Any], campaign_id: int, asked: Sequence[str] | None
) -> Iterator[Any]:
    """Yield rows of a campaign's deliveries for the `asked` fingerprints; None means all.

    The query selects from deliveries and launches, the fingerprint first.
    """
    own = query.where(deliveries.c.campaign_id == campaign_id, deliveries.c.released.is_(False))
    if asked is None:
        ordered = own.order_by(deliveries.c.fingerprint).execution_options(yield_per=_GROUP)
        yield from iterate_rows(connection, ordered, deliveries.c.fingerprint, None)
        return
    # By the whole primary key: few of possibly many deliveries are wanted.
    own = own.where(deliveries.c.message.in_(list(iterate_messages(connection, campaign_id))))
    yield from sorted(iterate_rows(connection, own, deliveries.c.fingerprint, asked))


def iterate_messages(connection: Connection, campaign_id: int) -> Iterator[str]:
    """Yield the ids of a campaign's messages by skipping through the index: DISTINCT would read all."""
    first = select(func.min(deliveries.c.message)).where(deliveries.c.campaign_id == campaign_id)
    message = connection.execute(first).scalar()
    while message is not None:
        yield message
        message = connection.execute(first.where(deliveries.c.message > message)).scalar()


def read_open_sessions(
    connection: Connection,
    target: str,
    state_key: str | None,
    phones: Collection[str] | None = None,
    *,
    other_than: int | None = None,
) -> OpenSessions:
    """Return the people with an open survey on a target, at 16 bytes each.

    The connection must read one state of the ledger. `phones` (E.164) limits the people, None means all; the
    campaign `other_than` does not count.

    Raises:
        LedgerError: the key of a campaign with open surveys is missing.
    """
    if not has_open_launches(connection, target, other_than=other_than):
        return OpenSessions()
    may_hold = and_(launches.c.state.in_(REACHED), launches.c.is_open)
    are_holding = _are_holding(target, may_hold)
    if other_than is not None:
        are_holding &= campaigns.c.id != other_than
    shelves = []
    for row in list_campaigns(connection, are_holding):
        key = FingerprintKey.reopen(row.salt, state_key, row.key_fingerprint)
        if key is None:
            raise LedgerError(
                f"the open surveys of the campaign {row.name!r} cannot be read: it was written with "
                "another RUNNER_STATE_KEY, or with one that is not set",
                hint="set RUNNER_STATE_KEY to the key it was written with",
            )
        asked = None if phones is None else [key.fingerprint(row.first_name, phone) for phone in phones]
        is_held = and_(may_hold, deliveries.c.has_ended.is_(None))
        if asked is None:
            # Not for some people: the server would go through all open launches for each of them.
            is_held &= launches.c.campaign_id == row.id
        held = _select_open(is_held)
        people = list(_iterate_people(connection, held, row.id, asked))
        is_open_now = FingerprintSet(person for person, is_read in people if is_read)
        unread = FingerprintSet(person for person, is_read in people if not is_read)
        shelves.append(OpenShelf(row.name, row.first_name, key, is_open_now, unread))
    return OpenSessions(tuple(shelves))


def has_open_launches(connection: Connection, target: str, *, other_than: int | None = None) -> bool:
    """Return whether a launch on a target, not of the campaign `other_than`, may have open sessions."""
    asked = {"b_target": target, "b_other": -1 if other_than is None else other_than}
    return connection.execute(_HOLDING, asked).first() is not None


def _are_holding(target: str | BindParameter[str], may_hold: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition for campaigns whose launches may have open sessions."""
    theirs = select(launches.c.id).where(launches.c.campaign_id == campaigns.c.id, may_hold)
    # OFFSET has PostgreSQL stop at a campaign's first one, rather than join all open launches.
    return and_(campaigns.c.target == target, theirs.correlate(campaigns).offset(0).exists())


# Built once: a send asks for each of its groups.
_HOLDING = (
    select(campaigns.c.id)
    .where(
        _are_holding(
            bindparam("b_target", type_=String), and_(launches.c.state.in_(REACHED), launches.c.is_open)
        ),
        campaigns.c.id != bindparam("b_other", type_=Integer),
    )
    .limit(1)
)


def _select_open(is_held: ColumnElement[bool]) -> Select[Any]:
    """Select fingerprints, each with whether its launch was read since it was sent."""
    return (
        select(deliveries.c.fingerprint, launch_stats.c.launch_id.is_not(None))
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .where(is_held)
    )
