"""Renaming of campaigns and messages: their records move to the new names and ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, bindparam, delete, exists, or_, select, update

from runner.errors import LockfileError
from runner.ledger.database import insert_missing
from runner.ledger.fingerprint import launch_key
from runner.ledger.record.deliveries import enter_campaign, find_campaign, iterate_held
from runner.ledger.results.result_feed import renew_edition
from runner.ledger.tables import campaigns, deliveries, former_names, launches, message_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement

    from runner.ledger.model import CampaignRow


REACHED_SOMEBODY = ("sent", "intent", "unknown", "unexplained")


def find_record(
    connection: Connection, target: str, names: Sequence[str], *, takes_heirs: bool = False
) -> CampaignRow | None:
    """Return the row of a campaign under one of its names, the first of which is its current one, or None.

    A row with launches is preferred. `takes_heirs`: one of the names may be a former one in the ledger, as in
    an older file.

    Raises:
        LockfileError: several of the names have launches; or one is a former one of another campaign: an old
            commit must not start a renamed campaign over.
    """
    rows = [row for name in dict.fromkeys(names) if (row := find_campaign(connection, target, name))]
    found = [row for row in rows if row.has_launches]
    heirs = [] if found else _find_heirs(connection, target, names)
    if heirs and not takes_heirs:
        old, new = heirs[0]
        raise LockfileError(
            f"the ledger knows the campaign {old!r} as {new!r} now",
            hint="update this checkout, it is older than the rename; or rename back: "
            f"`renamed_from: [{new}]`",
        )
    found += [row for _, name in heirs if (row := find_campaign(connection, target, name))]
    if len({row.id for row in found}) > 1:
        made = ", ".join(sorted(row.name for row in found))
        raise LockfileError(
            f"the campaign {names[0]!r} has several records, made under the names {made}",
            hint="one record cannot take in another: nothing is sent as long as it is unclear who was "
            "texted; keep them as campaigns of their own, each with its name",
        )
    return next(iter([*found, *(row for row in rows if row.name == names[0])]), None)


def _find_heirs(connection: Connection, target: str, names: Collection[str]) -> list[tuple[str, str]]:
    """Return former names in the ledger among some names, each with the campaign's current one."""
    query = (
        select(former_names.c.name, campaigns.c.name)
        .join(campaigns, campaigns.c.id == former_names.c.campaign_id)
        .where(campaigns.c.target == target, former_names.c.name.in_(names), campaigns.c.name.not_in(names))
    )
    return [(row[0], row[1]) for row in connection.execute(query.order_by(campaigns.c.name))]


def enter_record(
    connection: Connection, target: str, names: Sequence[str], row: CampaignRow | None, former: Iterable[str]
) -> int:
    """Enter a campaign under its current name, the first one, and return the ledger's number of it.

    `row` is its row so far; `former` has other names that it had.
    """
    if row is None:
        campaign_id = enter_campaign(connection, target, names[0])
    else:
        campaign_id = row.id
        if row.name != names[0]:
            _rename(connection, target, campaign_id, names[0])
            former = [*former, row.name]
    rows = [{"campaign_id": campaign_id, "name": name} for name in set(former) - {names[0]}]
    insert_missing(connection, former_names, rows)
    return campaign_id


def _rename(connection: Connection, target: str, campaign_id: int, new: str) -> None:
    """Rename a recorded campaign. Another row with the new name must have no launches."""
    is_in_the_way = and_(campaigns.c.target == target, campaigns.c.name == new, campaigns.c.id != campaign_id)
    blank = select(campaigns.c.id).where(is_in_the_way)
    for table in (message_names, former_names):
        connection.execute(delete(table).where(table.c.campaign_id.in_(blank)))
    connection.execute(delete(campaigns).where(is_in_the_way))
    connection.execute(update(campaigns).where(campaigns.c.id == campaign_id).values(name=new))
    # Renamed back: the name is a former one no more.
    back = and_(former_names.c.campaign_id == campaign_id, former_names.c.name == new)
    connection.execute(delete(former_names).where(back))


def list_former_names(connection: Connection, campaign_id: int) -> list[str]:
    """Return the former names of a campaign, in order."""
    query = select(former_names.c.name).where(former_names.c.campaign_id == campaign_id)
    return list(connection.execute(query.order_by(former_names.c.name)).scalars())


def require_current_ids(connection: Connection, campaign_id: int, message_ids: Mapping[str, str]) -> None:
    """Ensure that no message of a campaign has an id that is a former one in the ledger.

    Raises:
        LockfileError: one does: an old commit must not start a renamed message over.
    """
    used = set(message_ids.values())
    for old, new in read_message_names(connection, campaign_id).items():
        if old in used and message_ids.get(new) != old:
            raise LockfileError(
                f"the ledger knows the message {old!r} as {new!r} now",
                hint="update this checkout, it is older than the rename; or rename back: "
                f"`renamed_from: [{new}]`; a message of its own needs an id of its own",
            )


def rename_messages(connection: Connection, campaign_id: int, message_ids: Mapping[str, str]) -> None:
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
    if entered:
        renew_edition(connection)
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


def renew_launch_keys(connection: Connection, campaign: str, *conditions: ColumnElement[bool]) -> None:
    """Renew the keys of launches that match conditions from the people that they hold now."""
    renewed = [
        {
            "b_id": row.id,
            "b_key": launch_key(campaign, row.message, row.payload_digest, recipients),
            "b_recipients": len(recipients),
        }
        for row, recipients in iterate_held(connection, *conditions)
    ]
    if renewed:
        statement = update(launches).where(launches.c.id == bindparam("b_id"))
        new: dict[str, Any] = {"launch_key": bindparam("b_key"), "recipients": bindparam("b_recipients")}
        connection.execute(statement.values(new), renewed)


def _remember(connection: Connection, campaign_id: int, renames: Mapping[str, str]) -> None:
    before = read_message_names(connection, campaign_id)
    # Messages that were renamed twice have the newest id.
    after = {**{old: renames.get(new, new) for old, new in before.items()}, **renames}
    after = {old: new for old, new in after.items() if old not in renames.values()}
    if after == before:
        return
    connection.execute(delete(message_names).where(message_names.c.campaign_id == campaign_id))
    rows = [{"campaign_id": campaign_id, "name": old, "message": new} for old, new in after.items()]
    insert_missing(connection, message_names, rows)


def read_message_names(connection: Connection, campaign_id: int) -> dict[str, str]:
    """Return the current ids of a campaign's renamed messages, by former ones."""
    query = select(message_names.c.name, message_names.c.message).where(
        message_names.c.campaign_id == campaign_id
    )
    return {row.name: row.message for row in connection.execute(query)}
