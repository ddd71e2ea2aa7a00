"""Statements about deliveries: outcomes, and what is known of a campaign."""

from __future__ import annotations

from heapq import merge
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    String,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
    update,
)

from runner.ledger.bulk import BulkStatement
from runner.ledger.checksum import renew_key
from runner.ledger.database import insert_into
from runner.ledger.model import CampaignRow, Known, LaunchRecord, LaunchState, Outcome
from runner.ledger.tables import campaigns, deliveries, launch_arms, launches
from runner.ledger.unsettled import UNEXPLAINED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.ledger.fingerprint import FingerprintKey

_REACHED_NOBODY = ("not_sent", "rejected")

_RECORD_OUTCOMES = BulkStatement(
    lambda _: (
        update(launches)
        .where(
            launches.c.id == bindparam("b_id"),
            # Spelled out: what a bulk statement binds is of its rows.
            or_(
                launches.c.state == literal_column("'intent'"),
                bindparam("b_state", type_=String) == literal_column("'sent'"),
            ),
        )
        .values(
            state=bindparam("b_state"),
            project_launch_guid=bindparam("b_guid"),
            outcome_at=bindparam("b_at"),
            detail=bindparam("b_detail"),
        )
    )
)
_held = deliveries.alias()
_COUNT_HELD = (
    select(func.count())
    .where(_held.c.launch_id == launches.c.id, _held.c.released.is_(False))
    .scalar_subquery()
)
"""The recipients that a launch still holds: others may have been entered under another one since."""
_RELEASE = (
    update(deliveries)
    .where(
        deliveries.c.launch_id == bindparam("b_id"),
        # Not `in_`: a statement that is run for many rows cannot have a list in it.
        exists().where(
            launches.c.id == bindparam("b_id"), or_(*[launches.c.state == state for state in _REACHED_NOBODY])
        ),
    )
    .values(released=True)
)


def find_campaign(connection: Connection, target: str, name: str) -> CampaignRow | None:
    """Return how the ledger enters a campaign on a target; None if it doesn't."""
    # Of those that are unexplained nothing was recorded here: without another the key can still change.
    has_launches = exists().where(
        launches.c.campaign_id == campaigns.c.id, launches.c.state != literal_column(f"'{UNEXPLAINED}'")
    )
    query = select(campaigns.c.id, campaigns.c.salt, campaigns.c.key_fingerprint, has_launches).where(
        campaigns.c.target == target, campaigns.c.name == name
    )
    row = connection.execute(query).first()
    return None if row is None else CampaignRow(*row)


def read_campaign_key(connection: Connection, campaign_id: int) -> tuple[str | None, str]:
    """Return a campaign's salt, None if its key is the user's secret, and the name of the key."""
    query = select(campaigns.c.salt, campaigns.c.key_fingerprint).where(campaigns.c.id == campaign_id)
    salt, name = connection.execute(query).one()
    return salt, name


def enter_campaign(connection: Connection, target: str, name: str, key: FingerprintKey) -> int:
    """Enter a campaign, or the key of one that has no launches yet, and return the ledger's number for it."""
    statement = insert_into(connection, campaigns).values(
        target=target, name=name, salt=key.salt, key_fingerprint=key.name
    )
    entered = statement.on_conflict_do_update(
        index_elements=[campaigns.c.target, campaigns.c.name],
        set_={"salt": statement.excluded.salt, "key_fingerprint": statement.excluded.key_fingerprint},
    )
    campaign_id: int = connection.execute(entered.returning(campaigns.c.id)).scalar_one()
    return campaign_id


def read_known(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str] | None = None
) -> Known:
    """Return the fingerprints of a campaign's deliveries that are sent, or may have been.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    current = message_ids or {}
    known = Known({}, {})
    query = (
        select(deliveries.c.message, deliveries.c.fingerprint, launches.c.state)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == campaign_id, deliveries.c.released.is_(False))
    )
    for message, fingerprint, state in connection.execute(query):
        add_known(known, current.get(message, message), fingerprint, state)
    return drop_sent(known)


def add_known(known: Known, message: str, fingerprint: str, state: LaunchState) -> None:
    """Take note of a delivery.

    Args:
        known: what is known so far.
        message: the id that the message has now.
        fingerprint: of the recipient.
        state: of the launch that holds it.
    """
    shelf = known.sent if state == "sent" else known.unresolved
    shelf.setdefault(message, set()).add(fingerprint)
    if state == UNEXPLAINED:
        known.unexplained.setdefault(message, set()).add(fingerprint)


def drop_sent(known: Known) -> Known:
    """Take those who got a message out of those who may have got it."""
    for shelf in (known.unresolved, known.unexplained):
        for message in shelf:
            shelf[message] -= known.sent.get(message, set())
    return known


def record_outcomes(connection: Connection, outcomes: Sequence[Outcome]) -> None:
    """Record what became of launches; recipients that were certainly not reached are free again.

    Who comes late, since its lease or lock has passed on, may find a launch settled: that stays as it is,
    unless the service has accepted it: then its recipients are not free after all, but for those whom another
    launch has taken since.
    """
    if not outcomes:
        return
    _take_back(connection, [o.launch_id for o in outcomes if o.state == "sent"])
    _RECORD_OUTCOMES.run(
        connection,
        [
            {
                "b_id": o.launch_id,
                "b_state": o.state,
                "b_guid": o.project_launch_guid,
                "b_at": o.at,
                "b_detail": o.detail,
            }
            for o in outcomes
        ],
    )
    free = [{"b_id": o.launch_id} for o in outcomes if o.state in _REACHED_NOBODY]
    if free:
        connection.execute(_RELEASE, free)


def _take_back(connection: Connection, launch_ids: Sequence[int]) -> None:
    """Hold the recipients again of those of some launches that were taken not to have been sent."""
    was_freed = and_(launches.c.id.in_(launch_ids), launches.c.state.in_(_REACHED_NOBODY))
    freed = connection.execute(select(launches.c.id).where(was_freed)).scalars().all()
    if freed:
        theirs = deliveries.c.launch_id.in_(freed)
        connection.execute(update(deliveries).where(theirs).values(released=False))


def read_guids(connection: Connection, campaign_id: int) -> set[str]:
    """Return the `project_launch_guid`s of a campaign's accepted launches."""
    query = select(launches.c.project_launch_guid).where(
        launches.c.campaign_id == campaign_id,
        launches.c.project_launch_guid.is_not(None),
        launches.c.state != UNEXPLAINED,
    )
    return set(connection.execute(query).scalars())


def count_accepted(connection: Connection, campaign_id: int) -> int:
    """Return the number of a campaign's accepted launches."""
    query = select(func.count()).where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    return int(connection.execute(query).scalar_one())


def iterate_accepted(connection: Connection, campaign_id: int, name: str) -> Iterator[LaunchRecord]:
    """Yield a campaign's accepted launches in the order of the lockfile: by message and key.

    A launch whose recipients are entered under another one comes without them, and with the key of those
    that it has left.

    Args:
        connection: reads one state of the ledger.
        campaign_id: the ledger's number of the campaign.
        name: its first name.
    """
    is_accepted = and_(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    altered = [
        renew_key(_make_record(row, recipients), name)
        for row, recipients in iterate_held(connection, is_accepted, launches.c.recipients != _COUNT_HELD)
    ]
    guids = {record.project_launch_guid for record in altered}
    unaltered = (
        _make_record(row, recipients)
        for row, recipients in iterate_held(connection, is_accepted)
        if row.project_launch_guid not in guids
    )
    yield from merge(sorted(altered, key=_place), unaltered, key=_place)


def iterate_held(
    connection: Connection, *conditions: ColumnElement[bool]
) -> Iterator[tuple[Row[Any], tuple[str, ...]]]:
    """Yield the launches that fit conditions, by message and key, each with the recipients that it holds."""
    query: Select[Any] = (
        select(
            launches.c.id,
            launches.c.message,
            launches.c.launch_key,
            launches.c.tag,
            launches.c.payload_digest,
            launches.c.project_launch_guid,
            launches.c.outcome_at,
            launch_arms.c.arm,
            launches.c.run,
            deliveries.c.fingerprint,
        )
        .outerjoin(launch_arms, launch_arms.c.launch_id == launches.c.id)
        .outerjoin(
            deliveries, and_(deliveries.c.launch_id == launches.c.id, deliveries.c.released.is_(False))
        )
        .where(*conditions)
        .order_by(launches.c.message, launches.c.launch_key, launches.c.id, deliveries.c.fingerprint)
    )
    for _, group in groupby(connection.execute(query), attrgetter("id")):
        rows = list(group)
        yield rows[0], tuple(row.fingerprint for row in rows if row.fingerprint is not None)


def _make_record(row: Row[Any], recipients: tuple[str, ...]) -> LaunchRecord:
    return LaunchRecord(
        row.message,
        row.launch_key,
        row.tag,
        row.payload_digest,
        row.project_launch_guid,
        row.outcome_at,
        recipients,
        row.arm,
        row.run,
    )


def _place(record: LaunchRecord) -> tuple[str, str]:
    return record.message, record.key


def count_states(connection: Connection, campaign_id: int) -> dict[tuple[str, str], int]:
    """Return the number of recipients by message and the state of their latest launch."""
    query = (
        select(deliveries.c.message, launches.c.state, func.count())
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == campaign_id)
        .group_by(deliveries.c.message, launches.c.state)
    )
    return {(message, state): count for message, state, count in connection.execute(query)}
