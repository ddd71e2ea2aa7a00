"""Statements about who was forgotten, campaign by campaign: what lockfiles carry to other ledgers.

The entry on the target stays in one ledger. Where that one is lost, or on a machine with another, only the
lockfile says whom a campaign has texted; without an entry of its own the person would look new to it.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, inspect, select, update

from runner.ledger.bulk import BulkStatement
from runner.ledger.checksum import leave_out
from runner.ledger.database import insert_into
from runner.ledger.deliveries import iterate_accepted
from runner.ledger.frequency import open_campaign_key
from runner.ledger.opt_outs import remove_opt_out
from runner.ledger.removal import remove_person
from runner.ledger.renaming import find_first_name
from runner.ledger.tables import campaigns, deliveries, forgotten_people, launches
from runner.ledger.unsettled import OPEN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from runner.ledger.model import LaunchRecord
    from runner.ledger.target_key import KeySource

_KEY = [column.name for column in forgotten_people.primary_key]
_ADD = BulkStatement(
    lambda connection: insert_into(connection, forgotten_people).on_conflict_do_nothing(index_elements=_KEY),
    [column.name for column in forgotten_people.c],
)


def read_forgotten(connection: Connection, campaign_id: int, told: Iterable[str] = ()) -> set[str]:
    """Return the fingerprints of the forgotten, less those of people who were let in again.

    Args:
        connection: reads the ledger, which may be of an older version.
        campaign_id: the ledger's number of the campaign.
        told: those whom lockfiles name besides.
    """
    found = set(told)
    if not inspect(connection).has_table(forgotten_people.name):
        return found
    query = select(forgotten_people.c.fingerprint, forgotten_people.c.released).where(
        forgotten_people.c.campaign_id == campaign_id
    )
    rows = connection.execute(query).all()
    found.update(row.fingerprint for row in rows)
    return found.difference(row.fingerprint for row in rows if row.released)


def mark_forgotten(connection: Connection, campaign_id: int, fingerprint: str) -> None:
    """Enter a person as forgotten, also one who was let in again since the last time.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        fingerprint: theirs, in the campaign.
    """
    row = {"campaign_id": campaign_id, "fingerprint": fingerprint, "released": False}
    entered = insert_into(connection, forgotten_people).values(row)
    connection.execute(entered.on_conflict_do_update(index_elements=_KEY, set_={"released": False}))


def absorb_forgotten(
    connection: Connection, campaign_id: int, first_name: str, told: Collection[str]
) -> set[str]:
    """Enter those whom lockfiles name, and remove what the ledger has of anybody forgotten.

    Who was let in again here stays let in, whatever an old lockfile says.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        first_name: the campaign's first name.
        told: the fingerprints in the lockfiles.

    Returns:
        The fingerprints of everybody forgotten.
    """
    rows = [{"campaign_id": campaign_id, "fingerprint": one, "released": False} for one in sorted(told)]
    if rows:
        _ADD.run(connection, rows)
    found = read_forgotten(connection, campaign_id)
    if found:
        # Another ledger has forgotten them, or a launch to them is settled only now.
        for fingerprint in _find_lingering(connection, campaign_id, settled_only=True):
            remove_person(connection, campaign_id, first_name, fingerprint)
    return found


def iterate_remembered(connection: Connection, campaign_id: int, first_name: str) -> Iterator[LaunchRecord]:
    """Yield a campaign's accepted launches as `iterate_accepted` does, without forgotten people.

    Args:
        connection: reads one state of the ledger.
        campaign_id: the ledger's number of the campaign.
        first_name: the campaign's first name.
    """
    forgotten = _find_lingering(connection, campaign_id)
    if not forgotten:
        yield from iterate_accepted(connection, campaign_id, first_name)
        return
    altered = [
        leave_out(record, forgotten, first_name)
        for record in iterate_accepted(connection, campaign_id, first_name)
        if not forgotten.isdisjoint(record.recipients)
    ]
    unaltered = (
        record
        for record in iterate_accepted(connection, campaign_id, first_name)
        if forgotten.isdisjoint(record.recipients)
    )
    yield from merge(sorted(altered, key=_place), unaltered, key=_place)


def find_as_forgotten(
    connection: Connection, target: str, phone: str, state_key: str | None
) -> list[tuple[int, str]]:
    """Return the campaigns by which a person is forgotten: the ledger's numbers, and the fingerprints there.

    Args:
        connection: reads the ledger, which may be of an older version.
        target: the target's name.
        phone: E.164.
        state_key: the user's secret; None if there is none. Campaigns with another key are passed over.
    """
    if not inspect(connection).has_table(forgotten_people.name):
        return []
    is_theirs = and_(forgotten_people.c.campaign_id == campaigns.c.id, forgotten_people.c.released.is_(False))
    query = select(campaigns).where(
        campaigns.c.target == target, select(forgotten_people).where(is_theirs).exists()
    )
    found = []
    for row in connection.execute(query).all():
        key = open_campaign_key(row.salt, row.key_fingerprint, state_key)
        if key is None:
            continue
        fingerprint = key.fingerprint(find_first_name(connection, row.id) or row.name, phone)
        if fingerprint in read_forgotten(connection, row.id):
            found.append((row.id, fingerprint))
    return found


def let_in(connection: Connection, people: KeySource, phone: str, at: str) -> int:
    """Let a person be texted again: one who opted out, or, as a newcomer, one who was forgotten.

    Args:
        connection: commits after this.
        people: makes the fingerprints of the target's people.
        phone: E.164.
        at: UTC, ISO 8601.

    Returns:
        How many entries said that they are not to be.

    Raises:
        LedgerError: the target's key is not at hand.
    """
    key = people.read(connection)
    dismissed = remove_opt_out(connection, key, phone, at) if key else 0
    found = find_as_forgotten(connection, people.target, phone, people.state_key)
    for campaign_id, fingerprint in found:
        is_it = and_(
            forgotten_people.c.campaign_id == campaign_id, forgotten_people.c.fingerprint == fingerprint
        )
        connection.execute(update(forgotten_people).where(is_it).values(released=True))
    return dismissed + len(found)


def _find_lingering(connection: Connection, campaign_id: int, *, settled_only: bool = False) -> set[str]:
    """Return the forgotten people of whom the ledger still has deliveries."""
    if not inspect(connection).has_table(forgotten_people.name):
        return set()
    is_same = and_(
        forgotten_people.c.campaign_id == deliveries.c.campaign_id,
        forgotten_people.c.fingerprint == deliveries.c.fingerprint,
    )
    query = (
        select(deliveries.c.fingerprint)
        .join(forgotten_people, is_same)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == campaign_id, forgotten_people.c.released.is_(False))
        .distinct()
    )
    if settled_only:
        query = query.where(launches.c.state.not_in(OPEN))
    return set(connection.execute(query).scalars())


def _place(record: LaunchRecord) -> tuple[str, str]:
    return record.message, record.key
