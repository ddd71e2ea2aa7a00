"""Statements for very many rows: however they get to the database, the same comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select

from runner.errors import RunLockedError
from runner.ledger.bulk import iterate_rows
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import launch_key
from runner.ledger.model import Intent, LaunchRecord, Outcome
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import absorb_launches, add_intents
from runner.ledger.tables import deliveries, launches
from tests.ledger.conftest import AT

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select

    from tests.postgres import PostgresServer

MANY = [f"{number:020x}" for number in range(600)]


def make_intent(name: str, people: list[str]) -> Intent:
    return Intent("ask", f"key-{name}", "tag", f"digest-{name}", tuple(people), '{"text": "a\\tb\\n\\\\N"}')


def enter(connection: Connection, *intents: Intent) -> list[int]:
    return add_intents(connection, enter_campaign(connection, "live", "pulse"), intents, AT)


def test_claims_of_many(ledger: Ledger) -> None:
    """Released people are taken again; if one of very many is taken already, nothing is entered."""
    with ledger.writing() as connection:
        (number,) = enter(connection, make_intent("a", MANY))
        record_outcomes(connection, [Outcome(number, "rejected", AT)])
    with ledger.writing() as connection:
        enter(connection, make_intent("b", MANY[1:]))
    with pytest.raises(RunLockedError), ledger.writing() as connection:
        enter(connection, make_intent("c", MANY))
    with ledger.reading() as connection:
        query = select(deliveries.c.released, func.count()).group_by("released").order_by("released")
        assert [tuple(row) for row in connection.execute(query)] == [(False, len(MANY) - 1), (True, 1)]


def test_twice_in_one(ledger: Ledger) -> None:
    """Who is in two intents of one group is not entered at all."""
    with pytest.raises(RunLockedError), ledger.writing() as connection:
        enter(connection, make_intent("a", MANY), make_intent("b", MANY[:1]))


def test_absorbed_twice(ledger: Ledger) -> None:
    """Who is in two launches of a lockfile is entered under the later one, however many there are."""
    records = []
    for name, people in (("a", MANY), ("b", MANY[:1])):
        key = launch_key("pulse", "ask", "digest", people)
        records.append(LaunchRecord("ask", key, "tag", "digest", tuple(people), f"guid-{name}", AT))
    with ledger.writing() as connection:
        assert absorb_launches(connection, enter_campaign(connection, "live", "pulse"), records) == 2
    with ledger.reading() as connection:
        query = select(launches.c.project_launch_guid, func.count()).group_by("project_launch_guid")
        joined = query.join(deliveries, deliveries.c.launch_id == launches.c.id)
        assert {row[0]: row[1] for row in connection.execute(joined)} == {
            "guid-a": len(MANY) - 1,
            "guid-b": 1,
        }


def select_states() -> Select[Any]:
    """Return the query for people with the states of their launches."""
    held = deliveries.join(launches, launches.c.id == deliveries.c.launch_id)
    return select(deliveries.c.fingerprint, launches.c.state).select_from(held)


def test_lookups_of_many(ledger: Ledger) -> None:
    """A lookup finds each of very many people once, however often they are asked for, and nobody else."""
    with ledger.writing() as connection:
        first, _ = enter(connection, make_intent("a", MANY[::2]), make_intent("b", MANY[1::2]))
        record_outcomes(connection, [Outcome(first, "sent", AT, "guid")])
    asked = [*MANY[100:], *MANY[200:], "f" * 20]
    with ledger.reading() as connection:
        found = [
            tuple(row) for row in iterate_rows(connection, select_states(), deliveries.c.fingerprint, asked)
        ]
        assert sorted(found) == [(one, "intent" if n % 2 else "sent") for n, one in enumerate(MANY)][100:]
        by_launch = list(iterate_rows(connection, select_states(), deliveries.c.launch_id, [first, first]))
        assert len(by_launch) == len(MANY) / 2
        assert not list(iterate_rows(connection, select_states(), deliveries.c.fingerprint, []))


def test_lookups_before_statistics(postgres: PostgresServer) -> None:
    """A lookup asks one index for each person, though the server has no statistics yet."""
    counts = (
        "SELECT sum(seq_tup_read), sum(idx_scan) FROM pg_stat_xact_user_tables "
        "WHERE relname ~ 'deliveries|launches'"
    )
    url = postgres.url(postgres.create_ledger())
    with Ledger(url) as ledger, ledger.writing() as connection:
        enter(connection, *(make_intent(one, [one]) for one in MANY))
    query = select_states().where(deliveries.c.campaign_id == 1, deliveries.c.message == "ask")
    # In a session of its own: the server counts by session.
    with Ledger(url) as ledger, ledger.reading() as connection:
        assert len(list(iterate_rows(connection, query, deliveries.c.fingerprint, MANY))) == len(MANY)
        assert tuple(connection.exec_driver_sql(counts).one()) == (0, 2 * len(MANY))
