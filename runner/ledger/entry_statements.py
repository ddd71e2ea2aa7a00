"""The bulk statements that enter launches and their deliveries, as `runner.ledger.entry` uses them."""

from __future__ import annotations

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    bindparam,
    false,
    literal_column,
    null,
    or_,
    select,
    true,
    update,
)

from runner.ledger.bulk import BulkStatement
from runner.ledger.database import insert_into
from runner.ledger.tables import deliveries, launch_arms, launches, reserved_launches
from runner.ledger.unsettled import OPEN, UNEXPLAINED


def _compose_claim(connection: Connection) -> Insert:
    statement = insert_into(connection, deliveries)
    return statement.on_conflict_do_update(
        index_elements=list(deliveries.primary_key),
        set_={"launch_id": statement.excluded.launch_id, "released": false(), "has_ended": null()},
        where=deliveries.c.released.is_(True),
    )


def _compose_takeover(connection: Connection) -> Insert:
    statement = insert_into(connection, deliveries)
    return statement.on_conflict_do_update(
        index_elements=list(deliveries.primary_key),
        set_={"launch_id": statement.excluded.launch_id, "released": false(), "has_ended": null()},
    )


def _compose_adoption(connection: Connection) -> Insert:
    statement = insert_into(connection, deliveries)
    # As a part of the text: the parameters are the row's alone.
    states: list[ColumnElement[str]] = [literal_column(f"'{state}'") for state in (*OPEN, UNEXPLAINED)]
    is_open = select(launches.c.id).where(launches.c.state.in_(states))
    return statement.on_conflict_do_update(
        index_elements=list(deliveries.primary_key),
        set_={"launch_id": statement.excluded.launch_id, "released": false(), "has_ended": null()},
        where=or_(deliveries.c.released.is_(True), deliveries.c.launch_id.in_(is_open)),
    )


_CLAIMED = [column.name for column in deliveries.c if column.name != "has_ended"]
ADD_LAUNCHES = BulkStatement(
    lambda connection: insert_into(connection, launches),
    [column.name for column in launches.c if column.name not in ("detail", "mark")],
    winner="first",
)
ADD_ARMS = BulkStatement(lambda connection: insert_into(connection, launch_arms), ["launch_id", "arm"])
ADD_DIGESTS = BulkStatement(
    lambda connection: insert_into(connection, reserved_launches),
    [column.name for column in reserved_launches.c],
)
CLAIM = BulkStatement(_compose_claim, _CLAIMED, winner="first")
"""Takes deliveries that nobody has, or that are released; leaves the others untouched."""
ADOPT = BulkStatement(_compose_adoption, _CLAIMED)
"""Takes those, too, of launches that are unresolved: that they were reached by another one is certain."""
TAKE_OVER = BulkStatement(_compose_takeover, _CLAIMED, winner="last")
"""Takes deliveries whoever has them."""
RELEASE = BulkStatement(
    lambda _: (
        update(deliveries)
        .where(
            deliveries.c.launch_id == bindparam("b_launch_id"),
            deliveries.c.fingerprint == bindparam("b_fingerprint"),
        )
        .values(released=true())
    )
)
