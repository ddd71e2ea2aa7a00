"""Statements about deliveries: intents, outcomes, and what is known of a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, bindparam, exists, func, insert, select, update

from runner.errors import RunLockedError
from runner.ledger.database import insert_into
from runner.ledger.model import CampaignRow, Intent, Known, LaunchRecord, Outcome
from runner.ledger.tables import campaigns, deliveries, launches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.ledger.fingerprint import FingerprintKey

_DELIVERY = [deliveries.c.campaign_id, deliveries.c.message, deliveries.c.fingerprint]
_REACHED_NOBODY = ("not_sent", "rejected")


def find_campaign(connection: Connection, target: str, name: str) -> CampaignRow | None:
    """Return how the ledger enters a campaign on a target; None if it doesn't."""
    has_launches = exists().where(launches.c.campaign_id == campaigns.c.id)
    query = select(campaigns.c.id, campaigns.c.salt, campaigns.c.key_fingerprint, has_launches).where(
        campaigns.c.target == target, campaigns.c.name == name
    )
    row = connection.execute(query).first()
    return None if row is None else CampaignRow(*row)


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


def read_known(connection: Connection, campaign_id: int) -> Known:
    """Return the fingerprints of a campaign's deliveries that are sent, or may have been."""
    known = Known({}, {})
    query = (
        select(deliveries.c.message, deliveries.c.fingerprint, launches.c.state)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == campaign_id, deliveries.c.released.is_(False))
    )
    for message, fingerprint, state in connection.execute(query):
        shelf = known.sent if state == "sent" else known.unresolved
        shelf.setdefault(message, set()).add(fingerprint)
    return known


def add_intents(connection: Connection, campaign_id: int, intents: Sequence[Intent], at: str) -> list[int]:
    """Record launches that are about to be sent.

    Args:
        connection: commits after this; no request may leave before.
        campaign_id: the ledger's number of the campaign.
        intents: the launches.
        at: UTC, ISO 8601.

    Returns:
        The ledger's numbers of the launches, in the order of `intents`.

    Raises:
        RunLockedError: one of the recipients has been recorded by another run in the meantime.
    """
    rows = [
        {
            "campaign_id": campaign_id,
            "message": intent.message,
            "launch_key": intent.key,
            "tag": intent.tag,
            "payload_digest": intent.payload_digest,
            "definition": intent.definition,
            "recipients": len(intent.recipients),
            "state": "intent",
            "intent_at": at,
        }
        for intent in intents
    ]
    statement = insert(launches).returning(launches.c.id, sort_by_parameter_order=True)
    ids = list(connection.execute(statement, rows).scalars())
    _claim(connection, campaign_id, list(zip(ids, intents, strict=True)))
    return ids


def _claim(connection: Connection, campaign_id: int, items: list[tuple[int, Intent]]) -> None:
    rows = [row for launch_id, item in items for row in _delivery_rows(campaign_id, launch_id, item)]
    statement = insert_into(connection, deliveries)
    # A row that is not released belongs to someone: leaving it untouched shows in the count.
    claim = statement.on_conflict_do_update(
        index_elements=_DELIVERY,
        set_={"launch_id": statement.excluded.launch_id, "released": False},
        where=deliveries.c.released.is_(True),
    )
    if connection.execute(claim, rows).rowcount != len(rows):
        raise RunLockedError(
            "another run is sending this campaign: it has recorded some of the same recipients",
            hint="wait until it has ended, then run the same command again",
        )


def _delivery_rows(campaign_id: int, launch_id: int, item: Intent | LaunchRecord) -> list[dict[str, Any]]:
    shared = {"campaign_id": campaign_id, "message": item.message, "launch_id": launch_id, "released": False}
    return [{**shared, "fingerprint": fingerprint} for fingerprint in item.recipients]


def record_outcomes(connection: Connection, outcomes: Sequence[Outcome]) -> None:
    """Record what became of launches; recipients that were certainly not reached are free again."""
    if not outcomes:
        return
    statement = (
        update(launches)
        .where(launches.c.id == bindparam("b_id"))
        .values(
            state=bindparam("b_state"),
            project_launch_guid=bindparam("b_guid"),
            outcome_at=bindparam("b_at"),
            detail=bindparam("b_detail"),
        )
    )
    connection.execute(
        statement,
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
        release = update(deliveries).where(deliveries.c.launch_id == bindparam("b_id")).values(released=True)
        connection.execute(release, free)


def read_guids(connection: Connection, campaign_id: int) -> set[str]:
    """Return the `project_launch_guid`s of a campaign's accepted launches."""
    query = select(launches.c.project_launch_guid).where(
        launches.c.campaign_id == campaign_id, launches.c.project_launch_guid.is_not(None)
    )
    return set(connection.execute(query).scalars())


def absorb_launches(connection: Connection, campaign_id: int, records: Iterable[LaunchRecord]) -> int:
    """Enter launches that only the lockfile knows of.

    Returns:
        How many there were.
    """
    present = read_guids(connection, campaign_id)
    # By guid: a lockfile that git has merged can hold one launch twice.
    missing = {
        record.project_launch_guid: record for record in records if record.project_launch_guid not in present
    }
    for record in missing.values():
        values = {
            "campaign_id": campaign_id,
            "message": record.message,
            "launch_key": record.key,
            "tag": record.tag,
            "payload_digest": record.payload_digest,
            "recipients": len(record.recipients),
            "state": "sent",
            "project_launch_guid": record.project_launch_guid,
            "intent_at": record.sent_at,
            "outcome_at": record.sent_at,
        }
        launch_id = connection.execute(insert(launches).values(values).returning(launches.c.id)).scalar_one()
        _absorb_recipients(connection, campaign_id, launch_id, record)
    return len(missing)


def _absorb_recipients(
    connection: Connection, campaign_id: int, launch_id: int, record: LaunchRecord
) -> None:
    statement = insert_into(connection, deliveries)
    # That it was sent outweighs whatever the ledger thought: a lockfile holds accepted launches alone.
    absorb = statement.on_conflict_do_update(
        index_elements=_DELIVERY, set_={"launch_id": statement.excluded.launch_id, "released": False}
    )
    connection.execute(absorb, _delivery_rows(campaign_id, launch_id, record))


def iterate_accepted(connection: Connection, campaign_id: int) -> Iterator[LaunchRecord]:
    """Yield a campaign's accepted launches in the order of the lockfile: by message and key.

    A launch whose recipients are all entered under another one comes without recipients.
    """
    query = (
        select(
            launches.c.id,
            launches.c.message,
            launches.c.launch_key,
            launches.c.tag,
            launches.c.payload_digest,
            launches.c.project_launch_guid,
            launches.c.outcome_at,
            deliveries.c.fingerprint,
        )
        .outerjoin(
            deliveries, and_(deliveries.c.launch_id == launches.c.id, deliveries.c.released.is_(False))
        )
        .where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
        .order_by(launches.c.message, launches.c.launch_key, launches.c.id, deliveries.c.fingerprint)
    )
    current: LaunchRecord | None = None
    current_id, fingerprints = -1, list[str]()
    for row in connection.execute(query):
        if row.id != current_id:
            if current is not None:
                yield _with_recipients(current, fingerprints)
            current_id, fingerprints = row.id, []
            current = LaunchRecord(
                row.message,
                row.launch_key,
                row.tag,
                row.payload_digest,
                row.project_launch_guid,
                row.outcome_at,
                (),
            )
        if row.fingerprint is not None:
            fingerprints.append(row.fingerprint)
    if current is not None:
        yield _with_recipients(current, fingerprints)


def _with_recipients(record: LaunchRecord, fingerprints: list[str]) -> LaunchRecord:
    return LaunchRecord(
        record.message,
        record.key,
        record.tag,
        record.payload_digest,
        record.project_launch_guid,
        record.sent_at,
        tuple(fingerprints),
    )


def count_states(connection: Connection, campaign_id: int) -> dict[tuple[str, str], int]:
    """Return the number of recipients by message and the state of their latest launch."""
    query = (
        select(deliveries.c.message, launches.c.state, func.count())
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == campaign_id)
        .group_by(deliveries.c.message, launches.c.state)
    )
    return {(message, state): count for message, state, count in connection.execute(query)}
