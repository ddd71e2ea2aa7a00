"""How often people were texted lately, by any campaign on a target (`policy.frequency_cap`).

Nothing is stored for it. Who plans has the phones, so each campaign's own fingerprint of a phone can be
made anew and looked up among its deliveries of the time: that also counts what was sent before there was a
cap, and what only a lockfile told of. It costs a hash for each recipient and each campaign of the time, when
a campaign with a cap is planned; to send costs nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, and_, func, select

from runner.errors import LedgerError
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.fingerprint_set import FingerprintSet
from runner.ledger.renaming import find_first_name
from runner.ledger.tables import campaigns, deliveries, launches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_GROUP = 1000
REACHED = ("intent", "sent", "unknown", "unexplained")
"""What may have been sent counts as sent: who is at the cap waits rather than gets one too many."""
_SECONDS = len("2026-11-20T12:00:00")


@dataclass(frozen=True, slots=True)
class RecentDeliveries:
    """The deliveries of a time, by campaign.

    Attributes:
        shelves: of each campaign its first name, its key and the fingerprints of those it texted.
    """

    shelves: tuple[tuple[str, FingerprintKey, FingerprintSet], ...]

    def count(self, phone: str) -> int:
        """Return how many messages a person was sent, or may have been; a survey is one message.

        Args:
            phone: E.164.
        """
        return sum(people.count(key.fingerprint(name, phone)) for name, key, people in self.shelves)


def read_recent(
    connection: Connection,
    target: str,
    state_key: str | None,
    since: str,
    phones: Collection[str] | None = None,
) -> RecentDeliveries:
    """Return what was sent on a target lately, by 16 bytes a delivery.

    Args:
        connection: reads one state of the ledger.
        target: the target's name.
        state_key: the user's secret; None if there is none.
        since: UTC, ISO 8601; to the second.
        phones: E.164 of those who are asked about; None for everybody.

    Raises:
        LedgerError: a campaign of the time was written with a key that is not at hand.
    """
    # Compared as text: to the second, fractions and what stands after them make no difference.
    is_recent = and_(launches.c.state.in_(REACHED), launches.c.intent_at >= since[:_SECONDS])
    query = select(campaigns).where(campaigns.c.target == target).order_by(campaigns.c.name)
    if phones is None:
        query = query.where(campaigns.c.id.in_(select(launches.c.campaign_id).where(is_recent).distinct()))
    shelves = []
    for row in connection.execute(query).all():
        key = open_campaign_key(row.salt, row.key_fingerprint, state_key)
        if key is None and not _has_recent(connection, row.id, is_recent):
            continue
        if key is None:
            raise LedgerError(
                f"the frequency cap cannot be counted: the campaign {row.name!r} was written with another "
                "RUNNER_STATE_KEY, or with one that is not set",
                hint="set RUNNER_STATE_KEY to the key it was written with",
            )
        name = find_first_name(connection, row.id) or row.name
        asked = None if phones is None else [key.fingerprint(name, phone) for phone in phones]
        people = _iterate_people(connection, row.id, is_recent, asked)
        shelves.append((name, key, FingerprintSet(people)))
    return RecentDeliveries(tuple(shelves))


def read_recent_guids(connection: Connection, target: str, since: str) -> set[str]:
    """Return the `project_launch_guid`s of what the ledger knows as sent on a target lately.

    Args:
        connection: reads one state of the ledger.
        target: the target's name.
        since: UTC, ISO 8601; by the moment that lockfiles have, too.
    """
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
    connection: Connection, campaign_id: int, is_recent: ColumnElement[bool], asked: Sequence[str] | None
) -> Iterator[str]:
    query = (
        select(deliveries.c.fingerprint)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == campaign_id, deliveries.c.released.is_(False), is_recent)
        .order_by(deliveries.c.fingerprint)
        .execution_options(yield_per=_GROUP)
    )
    if asked is None:
        yield from connection.execute(query).scalars()
        return
    # By the whole primary key: there may be many deliveries, and few are asked about.
    own = query.where(deliveries.c.message.in_(list(iterate_messages(connection, campaign_id))))
    found: list[str] = []
    for start in range(0, len(asked), _GROUP):
        part = own.where(deliveries.c.fingerprint.in_(asked[start : start + _GROUP]))
        found += connection.execute(part).scalars()
    yield from sorted(found)


def iterate_messages(connection: Connection, campaign_id: int) -> Iterator[str]:
    """Yield the ids of a campaign's messages, going from one to the next: DISTINCT would read everything."""
    first = select(func.min(deliveries.c.message)).where(deliveries.c.campaign_id == campaign_id)
    message = connection.execute(first).scalar()
    while message is not None:
        yield message
        message = connection.execute(first.where(deliveries.c.message > message)).scalar()


def open_campaign_key(salt: str | None, name: str, state_key: str | None) -> FingerprintKey | None:
    """Return the key of a campaign on record; None if it is not at hand.

    Args:
        salt: on record; None if the key is the user's secret.
        name: the key's own fingerprint, as recorded.
        state_key: the user's secret; None if there is none.
    """
    source = salt or state_key
    if not source:
        return None
    key = FingerprintKey.from_salt(source) if salt else FingerprintKey.from_secret(source)
    return key if key.name == name else None
