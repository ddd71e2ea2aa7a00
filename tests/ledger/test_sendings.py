"""What a report reads beside the results: audiences, sends by day, opt-outs, the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert, update

from runner.ledger.model import CampaignLaunches, StoredResult
from runner.ledger.people.replies import count_waiting
from runner.ledger.report_model import AudienceRow
from runner.ledger.results import sendings
from runner.ledger.results.reconciled import store_results
from runner.ledger.tables import launches, opt_outs
from runner.ledger.target_key import enter_key
from runner.report.gathering import read_refusals
from tests.ledger.conftest import KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

RENAMED = {"ask": "opener", "opener": "opener"}


def audience(message: str, at: str, **dispositions: int) -> AudienceRow:
    return AudienceRow(message, at, sum(dispositions.values()), dispositions)


def test_the_last_audience_of_a_message_is_kept(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """A later plan takes the place of an earlier one, under whatever id the message had; campaigns are apart."""
    deliver(make_record("a", 101))
    with ledger.writing() as connection:
        sendings.store_audiences(
            connection, 1, [audience("ask", "1", to_send=3), audience("more", "1", to_send=1)]
        )
        sendings.store_audiences(connection, 1, [audience("ask", "2", to_send=2, opted_out=5)])
    with ledger.reading() as connection:
        found = sendings.read_audiences(connection, CampaignLaunches(1))
        assert sorted(found, key=lambda row: row.message) == [
            audience("ask", "2", to_send=2, opted_out=5),
            audience("more", "1", to_send=1),
        ]
        assert sendings.read_audiences(connection, CampaignLaunches(2)) == []
    with ledger.writing() as connection:
        sendings.store_audiences(connection, 1, [audience("opener", "3", to_send=9)])
    with ledger.reading() as connection:
        renamed = {
            row.message: row for row in sendings.read_audiences(connection, CampaignLaunches(1, RENAMED))
        }
    assert renamed == {"opener": audience("opener", "3", to_send=9), "more": audience("more", "1", to_send=1)}


@pytest.fixture
def sent(ledger: Ledger, deliver: Deliver, make_record: MakeRecord) -> list[int]:
    """Launches of two days, two messages and two arms, and one that the service refused."""
    ids = deliver(
        make_record("a", 101, 102), make_record("b", 103), make_record("c", 104, message="opener"),
        make_record("d", 105, 106),
    )  # fmt: skip
    deliver(make_record("e", 107, 108, 109), state="rejected")
    with ledger.writing() as connection:
        for one, arm in zip(ids, "xyx", strict=False):
            connection.execute(update(launches).where(launches.c.id == one).values(arm=arm))
        later = (
            update(launches).where(launches.c.id == ids[1]).values(outcome_at="2026-11-21T00:00:00.000000Z")
        )
        connection.execute(later)
    return ids


def opt_out(
    connection: Connection, who: str, evidence: str, source: str = "reply", state: str = "confirmed"
) -> None:
    connection.execute(
        insert(opt_outs).values(
            target="live", fingerprint=who, evidence=evidence, source=source, state=state,
            at="2026",
        )
    )  # fmt: skip


def test_opt_outs_are_counted_where_they_were_met(ledger: Ledger, sent: list[int]) -> None:
    """Replies that opt out, with their authors; what is doubtful or imported is none."""
    authors = [KEY.fingerprint(f"+1415555{number:04}") for number in (101, 103, 104, 105, 102)]
    results = [
        StoredResult(launch_id, f"r{number}", who, "q", "why", "Why?", 1, "STOP", "STOP", "2026", "2026")
        for number, (launch_id, who) in enumerate(zip((*sent, sent[0]), authors, strict=True))
    ]
    with ledger.writing() as connection:
        enter_key(connection, KEY)
        store_results(connection, results)
        for number in (0, 2, 4):
            opt_out(connection, authors[number], f"r{number}")
        opt_out(connection, authors[0], "guid-b")
        opt_out(connection, authors[3], "r3", state="dismissed")
        opt_out(connection, authors[0], "guid-a", source="import")
        opt_out(connection, authors[1], "r1", state="doubtful")
    with ledger.reading() as connection:
        first, _, *others = sent
        wanted = {(first, "r0"): True, (others[0], "r2"): True, (others[1], "r3"): False, (first, "r4"): True}
        assert read_refusals(connection, 1) == wanted
        assert count_waiting(connection, "live", CampaignLaunches(1, RENAMED)) == {"opener": 1}


def test_what_was_sent_since_a_moment_is_told_apart(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """Recipients count by their outcome's moment and the message's present id; refused ones apart."""
    ids = deliver(make_record("a", 101, 102), make_record("b", 103), make_record("c", 104, message="opener"))
    deliver(make_record("d", 105, 106), state="rejected")
    deliver(make_record("e", 107), state="unknown")
    with ledger.writing() as connection:
        earlier = (
            update(launches).where(launches.c.id == ids[0]).values(outcome_at="2026-11-20T11:59:59.999999Z")
        )
        connection.execute(earlier)
    with ledger.reading() as connection:
        found = sendings.count_sent(connection, CampaignLaunches(1, {"ask": "opener"}), "2026-11-20T12:00:00")
        assert found == {"opener": sendings.SentCount(recipients=2, rejected=2)}
        assert sendings.count_sent(connection, CampaignLaunches(2), "") == {}
        whole = sendings.count_sent(connection, CampaignLaunches(1), "")
    assert whole["ask"] == sendings.SentCount(recipients=3, rejected=2)
