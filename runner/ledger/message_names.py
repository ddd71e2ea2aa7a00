"""Messages that were renamed: their launches and deliveries go on under the ids that they have now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, bindparam, delete, exists, inspect, or_, select, update

from runner.errors import LockfileError
from runner.ledger.bulk import BulkStatement
from runner.ledger.database import insert_into
from runner.ledger.deliveries import iterate_held
from runner.ledger.fingerprint import launch_key
from runner.ledger.marks import rename_marks, renew_marks
from runner.ledger.result_feed import renew_edition
from runner.ledger.tables import deliveries, launches, message_names

if TYPE_CHECKING:
    from collections.abc import Mapping

_REACHED_SOMEBODY = ("sent", "intent", "unknown", "unexplained")
_SET_KEYS = BulkStatement(
    lambda _: (
        update(launches)
        .where(launches.c.id == bindparam("b_id"))
        .values(launch_key=bindparam("b_key"), recipients=bindparam("b_recipients"))
    )
)


def require_current_ids(connection: Connection, campaign_id: int, message_ids: Mapping[str, str]) -> None:
    """Make sure that no message of a campaign goes by an id that the ledger knows as an old one.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids of its messages, by those that they have and those that they had before.

    Raises:
        LockfileError: one does: an old commit must not start over what has a new id by now.
    """
    used = set(message_ids.values())
    for old, new in _read_names(connection, campaign_id).items():
        if old in used and message_ids.get(new) != old:
            raise LockfileError(
                f"the ledger knows the message {old!r} as {new!r} now",
                hint="update this checkout, it is older than the rename; or rename back: "
                f"`renamed_from: [{new}]`; a message of its own needs an id of its own",
            )


def rename_messages(
    connection: Connection, campaign_id: int, campaign: str, message_ids: Mapping[str, str]
) -> None:
    """Enter what is on record of messages under the ids that they have now, and remember the old ones.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        campaign: its first name.
        message_ids: the ids of its messages, by those that they have and those that they had before.
    """
    renames = {old: new for old, new in message_ids.items() if old != new}
    if not renames:
        return
    is_own = launches.c.campaign_id == campaign_id
    query = select(launches.c.message).where(is_own, launches.c.message.in_(renames)).distinct()
    entered = connection.execute(query).scalars().all()
    for old in entered:
        _move_deliveries(connection, campaign_id, old, renames[old])
        connection.execute(
            update(launches).where(is_own, launches.c.message == old).values(message=renames[old])
        )
        _renew_keys(connection, campaign_id, campaign, renames[old])
        renew_edition(connection)
    if entered:
        rename_marks(connection, campaign_id, renames)
        renew_marks(connection, campaign_id)
    _remember(connection, campaign_id, renames)


def _move_deliveries(connection: Connection, campaign_id: int, old: str, new: str) -> None:
    """Enter deliveries under another id. Of two of one person the one that is more certain stays."""
    other = deliveries.alias()
    sent = select(launches.c.id).where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    is_twin = and_(other.c.campaign_id == campaign_id, other.c.fingerprint == deliveries.c.fingerprint)
    is_weaker = or_(
        deliveries.c.released.is_(True),
        and_(other.c.launch_id.in_(sent), deliveries.c.launch_id.not_in(sent)),
    )
    is_outdone = exists().where(is_twin, other.c.message == old, other.c.released.is_(False), is_weaker)
    has_twin = exists().where(is_twin, other.c.message == new)
    is_own = deliveries.c.campaign_id == campaign_id
    connection.execute(delete(deliveries).where(is_own, deliveries.c.message == new, is_outdone))
    connection.execute(delete(deliveries).where(is_own, deliveries.c.message == old, has_twin))
    connection.execute(update(deliveries).where(is_own, deliveries.c.message == old).values(message=new))


def _renew_keys(connection: Connection, campaign_id: int, campaign: str, message: str) -> None:
    conditions = (
        launches.c.campaign_id == campaign_id,
        launches.c.message == message,
        launches.c.state.in_(_REACHED_SOMEBODY),
    )
    renewed = [
        {
            "b_id": row.id,
            "b_key": launch_key(campaign, message, row.payload_digest, recipients),
            "b_recipients": len(recipients),
        }
        for row, recipients in iterate_held(connection, *conditions)
    ]
    if renewed:
        _SET_KEYS.run(connection, renewed)


def _remember(connection: Connection, campaign_id: int, renames: Mapping[str, str]) -> None:
    before = _read_names(connection, campaign_id)
    # What was renamed to an id that is an old one itself by now has the newest one.
    after = {**{old: renames.get(new, new) for old, new in before.items()}, **renames}
    after = {old: new for old, new in after.items() if old not in renames.values()}
    if after == before:
        return
    connection.execute(delete(message_names).where(message_names.c.campaign_id == campaign_id))
    rows = [{"campaign_id": campaign_id, "name": old, "message": new} for old, new in after.items()]
    connection.execute(insert_into(connection, message_names), rows)


def _read_names(connection: Connection, campaign_id: int) -> dict[str, str]:
    # A ledger of an older version that is only read has no such table yet.
    if not inspect(connection).has_table(message_names.name):
        return {}
    query = select(message_names.c.name, message_names.c.message).where(
        message_names.c.campaign_id == campaign_id
    )
    return {row.name: row.message for row in connection.execute(query)}
