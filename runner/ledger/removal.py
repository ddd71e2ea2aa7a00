"""Removes a person from one campaign's record: their deliveries, their answers, the texts of theirs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, bindparam, delete, exists, func, select, update

from runner.ledger.bulk import BulkStatement
from runner.ledger.database import insert_into
from runner.ledger.deliveries import iterate_held
from runner.ledger.fingerprint import launch_key
from runner.ledger.marks import take_out
from runner.ledger.result_feed import renew_edition
from runner.ledger.tables import deliveries, forgotten_results, launches, message_names, results, sessions
from runner.ledger.unsettled import OPEN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_SET_KEYS = BulkStatement(
    lambda _: (
        update(launches)
        .where(launches.c.id == bindparam("b_id"))
        .values(launch_key=bindparam("b_key"), recipients=bindparam("b_recipients"))
    )
)


def remove_person(
    connection: Connection, campaign_id: int, first_name: str, fingerprint: str
) -> dict[str, int]:
    """Remove a person from a campaign's record, but for launches to them of unknown outcome.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        first_name: the campaign's first name.
        fingerprint: theirs, in the campaign.

    Returns:
        How many there were of `deliveries`, `results`, `texts`, `shared_texts` and `unresolved` launches.
    """
    is_open = launches.c.state.in_(OPEN)
    theirs = and_(deliveries.c.campaign_id == campaign_id, deliveries.c.fingerprint == fingerprint)
    query = select(launches.c.id, launches.c.definition, is_open.label("is_open")).join(
        deliveries, deliveries.c.launch_id == launches.c.id
    )
    rows = connection.execute(query.where(theirs)).all()
    settled = [row.id for row in rows if not row.is_open]
    alone = _find_alone(connection, settled, fingerprint)
    abandoned = _find_abandoned(connection, campaign_id, first_name, fingerprint)
    written = {row.id for row in rows if row.definition is not None} & set(settled)
    counts = {
        "results": _forget_results(connection, campaign_id, fingerprint),
        "texts": len(written & alone) + len(abandoned),
        "shared_texts": len(written - alone),
        "unresolved": len(rows) - len(settled),
    }
    take_out(connection, campaign_id, settled, fingerprint)
    removed = delete(deliveries).where(theirs, deliveries.c.launch_id.in_(settled))
    counts["deliveries"] = connection.execute(removed).rowcount
    blank = update(launches).where(launches.c.id.in_(alone | abandoned)).values(definition=None, detail=None)
    connection.execute(blank)
    _renew_keys(connection, first_name, settled)
    return counts


def _find_alone(connection: Connection, launch_ids: Collection[int], fingerprint: str) -> set[int]:
    """Return the launches that were to nobody else."""
    other = exists().where(deliveries.c.launch_id == launches.c.id, deliveries.c.fingerprint != fingerprint)
    query = select(launches.c.id).where(launches.c.id.in_(launch_ids), launches.c.recipients <= 1, ~other)
    return set(connection.execute(query).scalars())


def _find_abandoned(connection: Connection, campaign_id: int, first_name: str, fingerprint: str) -> set[int]:
    """Return the launches to the person alone that reached nobody, and whose delivery another one made since.

    No row says whose they were; their keys do, being digests of their recipients.
    """
    held = exists().where(deliveries.c.launch_id == launches.c.id)
    query = select(launches.c.id, launches.c.message, launches.c.payload_digest, launches.c.launch_key).where(
        launches.c.campaign_id == campaign_id,
        launches.c.recipients == 1,
        launches.c.definition.is_not(None),
        launches.c.state.not_in(OPEN),
        ~held,
    )
    renames = connection.execute(
        select(message_names).where(message_names.c.campaign_id == campaign_id)
    ).all()
    return {
        row.id
        for row in connection.execute(query)
        # A launch that reached nobody keeps the key of the message's old id.
        for message in (row.message, *(one.name for one in renames if one.message == row.message))
        if row.launch_key == launch_key(first_name, message, row.payload_digest, [fingerprint])
    }


def _forget_results(connection: Connection, campaign_id: int, fingerprint: str) -> int:
    own = select(launches.c.id).where(launches.c.campaign_id == campaign_id)
    theirs = and_(results.c.participant == fingerprint, results.c.launch_id.in_(own))
    counted = (
        select(results.c.launch_id, func.count().label("number")).where(theirs).group_by(results.c.launch_id)
    )
    connection.execute(
        delete(sessions).where(sessions.c.participant == fingerprint, sessions.c.launch_id.in_(own))
    )
    counts: dict[int, int] = {row.launch_id: row.number for row in connection.execute(counted)}
    kept = select(forgotten_results).where(forgotten_results.c.launch_id.in_(counts))
    for row in connection.execute(kept).all():
        counts[row.launch_id] += row.results
    note_forgotten_results(connection, counts)
    removed = connection.execute(delete(results).where(theirs)).rowcount
    if removed:
        renew_edition(connection)
    return removed


def _renew_keys(connection: Connection, first_name: str, launch_ids: Collection[int]) -> None:
    """Name launches after those whom they still hold: the old key is a digest of the person's fingerprint."""
    is_it = and_(launches.c.id.in_(launch_ids), launches.c.state == "sent")
    renewed: list[dict[str, Any]] = [
        {
            "b_id": row.id,
            "b_key": launch_key(first_name, row.message, row.payload_digest, recipients),
            "b_recipients": len(recipients),
        }
        for row, recipients in iterate_held(connection, is_it)
    ]
    if renewed:
        _SET_KEYS.run(connection, renewed)


def note_forgotten_results(connection: Connection, counts: Mapping[int, int]) -> None:
    """Remember how many of a launch's results are not kept, so that its counts agree with the service's.

    Args:
        connection: commits after this.
        counts: by the ledger's number of the launch: all that a whole reading of its results has left out.
    """
    statement = insert_into(connection, forgotten_results)
    for launch_id, count in counts.items():
        entered = statement.values(launch_id=launch_id, results=count)
        connection.execute(
            entered.on_conflict_do_update(index_elements=["launch_id"], set_={"results": count})
        )
