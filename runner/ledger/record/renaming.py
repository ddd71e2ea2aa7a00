"""Renaming of campaigns and messages: their records move to the new names and ids.

A renamed campaign's fingerprints are still made with its first name, so that the same people are found by the
same primary key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, bindparam, delete, exists, func, or_, select, update

from runner.errors import LockfileError
from runner.ledger.database import insert_missing
from runner.ledger.fingerprint import launch_key
from runner.ledger.lockfile.checkpoints import rename_checkpoints, renew_checkpoints
from runner.ledger.record.deliveries import find_campaign, iterate_held
from runner.ledger.results.result_feed import renew_edition
from runner.ledger.tables import campaigns, deliveries, first_names, launches, message_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Row

    from runner.ledger.model import CampaignRow


REACHED_SOMEBODY = ("sent", "intent", "unknown", "unexplained")


def find_recorded_names(connection: Connection, target: str, names: Sequence[str]) -> dict[str, CampaignRow]:
    """Return the rows of those names that have launches in the ledger.

    Raises:
        LockfileError: there are none, and one of the names is an old one of another campaign: an old
            commit must not start a renamed campaign over.
    """
    rows = {name: find_campaign(connection, target, name) for name in names}
    found = {name: row for name, row in rows.items() if row is not None and row.has_launches}
    heir = None if found else _find_heir(connection, target, names)
    if heir is not None:
        old, new = heir
        raise LockfileError(
            f"the ledger knows the campaign {old!r} as {new!r} now",
            hint="update this checkout, it is older than the rename; or rename back: "
            f"`renamed_from: [{new}]`",
        )
    return found


def _find_heir(connection: Connection, target: str, names: Sequence[str]) -> tuple[str, str] | None:
    query = (
        select(first_names.c.name, campaigns.c.name)
        .join(campaigns, campaigns.c.id == first_names.c.campaign_id)
        .where(campaigns.c.target == target, first_names.c.name.in_(names))
    )
    row = connection.execute(query).first()
    return None if row is None else (row[0], row[1])


def find_first_name(connection: Connection, campaign_id: int) -> str | None:
    """Return the first name of a renamed campaign, or None."""
    query = select(first_names.c.name).where(first_names.c.campaign_id == campaign_id)
    return connection.execute(query).scalar()


def list_campaigns(connection: Connection, *conditions: ColumnElement[bool]) -> Sequence[Row[Any]]:
    """Return the rows of campaigns that match conditions, with their `first_name`, by target and name."""
    first_name = func.coalesce(first_names.c.name, campaigns.c.name).label("first_name")
    source = campaigns.outerjoin(first_names, first_names.c.campaign_id == campaigns.c.id)
    query = select(campaigns, first_name).select_from(source)
    ordered = query.where(*conditions).order_by(campaigns.c.target, campaigns.c.name)
    return connection.execute(ordered).all()


def rename_campaign(connection: Connection, target: str, campaign_id: int, new: str) -> None:
    """Rename a recorded campaign. Another row with the new name must have no launches."""
    is_in_the_way = and_(campaigns.c.target == target, campaigns.c.name == new, campaigns.c.id != campaign_id)
    blank = select(campaigns.c.id).where(is_in_the_way)
    connection.execute(delete(message_names).where(message_names.c.campaign_id.in_(blank)))
    connection.execute(delete(campaigns).where(is_in_the_way))
    connection.execute(update(campaigns).where(campaigns.c.id == campaign_id).values(name=new))


def enter_first_name(connection: Connection, campaign_id: int, first_name: str) -> None:
    """Record the name for a renamed campaign's fingerprints."""
    insert_missing(connection, first_names, [{"campaign_id": campaign_id, "name": first_name}])


def require_current_ids(connection: Connection, campaign_id: int, message_ids: Mapping[str, str]) -> None:
    """Ensure that no message of a campaign has an id that is a former one in the ledger.

    Raises:
        LockfileError: one does: an old commit must not start a renamed message over.
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
    """Move the records of messages to their current ids, and record the old ones."""
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
        renew_launch_keys(
            connection,
            campaign,
            is_own,
            launches.c.message == renames[old],
            launches.c.state.in_(REACHED_SOMEBODY),
        )
        renew_edition(connection)
    if entered:
        rename_checkpoints(connection, campaign_id, renames)
        renew_checkpoints(connection, campaign_id)
    _remember(connection, campaign_id, renames)


def _move_deliveries(connection: Connection, campaign_id: int, old: str, new: str) -> None:
    """Move deliveries to another id. Of two of one person the more certain one stays."""
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


def renew_launch_keys(connection: Connection, first_name: str, *conditions: ColumnElement[bool]) -> None:
    """Renew the keys of launches that match conditions from the people that they hold now."""
    renewed = [
        {
            "b_id": row.id,
            "b_key": launch_key(first_name, row.message, row.payload_digest, recipients),
            "b_recipients": len(recipients),
        }
        for row, recipients in iterate_held(connection, *conditions)
    ]
    if renewed:
        statement = update(launches).where(launches.c.id == bindparam("b_id"))
        new: dict[str, Any] = {"launch_key": bindparam("b_key"), "recipients": bindparam("b_recipients")}
        connection.execute(statement.values(new), renewed)


def _remember(connection: Connection, campaign_id: int, renames: Mapping[str, str]) -> None:
    before = _read_names(connection, campaign_id)
    # Messages that were renamed twice have the newest id.
    after = {**{old: renames.get(new, new) for old, new in before.items()}, **renames}
    after = {old: new for old, new in after.items() if old not in renames.values()}
    if after == before:
        return
    connection.execute(delete(message_names).where(message_names.c.campaign_id == campaign_id))
    rows = [{"campaign_id": campaign_id, "name": old, "message": new} for old, new in after.items()]
    insert_missing(connection, message_names, rows)


def _read_names(connection: Connection, campaign_id: int) -> dict[str, str]:
    query = select(message_names.c.name, message_names.c.message).where(
        message_names.c.campaign_id == campaign_id
    )
    return {row.name: row.message for row in connection.execute(query)}
