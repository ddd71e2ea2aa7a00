"""Ledgers of an earlier schema: they are migrated when they are opened, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import inspect, select

from runner.ledger.model import LaunchRecord
from runner.ledger.record.deliveries import read_known
from runner.ledger.tables import deliveries, launch_stats, launches
from tests.ledger.conftest import AT, dump, fill, rewrite

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.record.campaign_record import Identity

ADA = "0" * 20
FIRST = LaunchRecord("ask", "1" * 20, "pulse", "2" * 32, (ADA,), project_launch_guid="g1", sent_at=AT)
AGAIN = LaunchRecord(
    "ask", "3" * 20, "pulse-b", "2" * 32, (ADA,), project_launch_guid="g2", sent_at=AT, occasion="b"
)
BACK_TO_2 = (
    *(
        f"ALTER TABLE launch_stats DROP COLUMN {name}"
        for name in ("countries", "segments_least", "segments_most")
    ),
    "UPDATE ledger_info SET value = '2' WHERE name = 'schema'",
)
BACK_TO_1 = (
    *BACK_TO_2,
    (
        "CREATE TABLE earlier (campaign_id INTEGER NOT NULL REFERENCES campaigns (id), message VARCHAR NOT NULL, "
        "fingerprint VARCHAR NOT NULL, launch_id INTEGER NOT NULL REFERENCES launches (id), "
        "released BOOLEAN NOT NULL, PRIMARY KEY (campaign_id, message, fingerprint))"
    ),
    "INSERT INTO earlier SELECT campaign_id, message, fingerprint, launch_id, released FROM deliveries",
    "DROP TABLE deliveries",
    "ALTER TABLE earlier RENAME TO deliveries",
    "CREATE INDEX ix_deliveries_launch_id ON deliveries (launch_id)",
    "ALTER TABLE launches DROP COLUMN occasion",
    "UPDATE ledger_info SET value = '1' WHERE name = 'schema'",
)


def describe(connection: Connection) -> dict[str, Any]:
    """Return what tells the tables of a ledger apart, whatever the order of their columns."""
    tables = inspect(connection)
    return {
        table.name: (
            sorted((one["name"], one["nullable"]) for one in tables.get_columns(table.name)),
            [str(one["type"]) for one in tables.get_columns(table.name) if one["name"] == "occasion"],
            tables.get_pk_constraint(table.name)["constrained_columns"],
            sorted(one["name"] or "" for one in tables.get_indexes(table.name)),
        )
        for table in (launches, deliveries, launch_stats)
    }


@pytest.mark.parametrize(
    ("back", "is_read"),
    [(BACK_TO_1, False), (BACK_TO_1, True), (BACK_TO_2, True)],
    ids=["1", "1-read", "2-read"],
)
def test_a_ledger_of_an_earlier_schema_is_migrated(
    ledger: Ledger, identity: Identity, back: tuple[str, ...], *, is_read: bool
) -> None:
    """All that was sent stays on record, with the empty occasion, and a wave can follow."""
    fill(ledger, dump(FIRST))
    before = rewrite(ledger, identity)
    with ledger.reading() as connection:
        wanted = describe(connection)
    with ledger.writing() as connection:
        for statement in back:
            connection.exec_driver_sql(statement)
    if is_read:
        assert ledger.is_ready()
    else:
        ledger.prepare()
    with ledger.reading() as connection:
        assert describe(connection) == wanted
        assert connection.execute(select(deliveries.c.occasion)).scalars().all() == [""]
    assert rewrite(ledger, identity) == before
    fill(ledger, dump(FIRST, AGAIN))
    with ledger.reading() as connection:
        (campaign,) = connection.execute(select(launches.c.campaign_id).distinct()).scalars()
        assert read_known(connection, campaign).sent == {"ask": {ADA, f"{ADA}@b"}}
