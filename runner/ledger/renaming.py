"""Campaigns that were renamed: they keep their record, under the new name.

A renamed campaign goes on making its fingerprints with its first name: who was texted under an old
name has the same fingerprint under the new one, and is found by the same primary key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, delete, inspect, select, update

from runner.errors import LockfileError
from runner.ledger.database import insert_into
from runner.ledger.deliveries import find_campaign
from runner.ledger.tables import campaigns, first_names, message_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.ledger.model import CampaignRow


def find_recorded_names(connection: Connection, target: str, names: Sequence[str]) -> dict[str, CampaignRow]:
    """Return the names among `names` that have launches in the ledger, each with its row.

    Raises:
        LockfileError: there is none, and the ledger knows one of the names as an old one of another campaign:
            an old commit must not start over what has a new name by now.
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
    if not _has_first_names(connection):
        return None
    query = (
        select(first_names.c.name, campaigns.c.name)
        .join(campaigns, campaigns.c.id == first_names.c.campaign_id)
        .where(campaigns.c.target == target, first_names.c.name.in_(names))
    )
    row = connection.execute(query).first()
    return None if row is None else (row[0], row[1])


def find_first_name(connection: Connection, campaign_id: int) -> str | None:
    """Return the first name of a campaign that was renamed; None if it never was."""
    if not _has_first_names(connection):
        return None
    query = select(first_names.c.name).where(first_names.c.campaign_id == campaign_id)
    return connection.execute(query).scalar()


def _has_first_names(connection: Connection) -> bool:
    # A ledger of an older version that is only read has no such table yet.
    return inspect(connection).has_table(first_names.name)


def rename_campaign(connection: Connection, target: str, campaign_id: int, new: str) -> None:
    """Enter a recorded campaign under a new name. Whatever row had that name must have no launches."""
    is_in_the_way = and_(campaigns.c.target == target, campaigns.c.name == new, campaigns.c.id != campaign_id)
    blank = select(campaigns.c.id).where(is_in_the_way)
    connection.execute(delete(message_names).where(message_names.c.campaign_id.in_(blank)))
    connection.execute(delete(campaigns).where(is_in_the_way))
    connection.execute(update(campaigns).where(campaigns.c.id == campaign_id).values(name=new))


def enter_first_name(connection: Connection, campaign_id: int, first_name: str) -> None:
    """Remember with which name a renamed campaign makes its fingerprints."""
    statement = insert_into(connection, first_names).values(campaign_id=campaign_id, name=first_name)
    connection.execute(statement.on_conflict_do_nothing(index_elements=[first_names.c.campaign_id]))
