"""What is known of some people is what is known of everybody, by their parts, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.model import LaunchStats, StoredResult
from runner.ledger.people.history import EarlierMessage, find_depleted, read_earlier
from runner.ledger.record.entry import enter_adopted
from runner.ledger.results.reconciled import store_results
from runner.ledger.tables import campaigns, launches
from tests.ledger.conftest import KEY
from tests.ledger.counts import store_stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

IDS = {"ask": "ask", "other": "other"}
READ_AT = "2026-11-21T08:30:00.000000Z"


def person(number: int) -> str:
    return KEY.fingerprint(f"+1415555{number:04}")


def answer(connection: Connection, launch_id: int, *numbers: int) -> None:
    """Store a launch's counts, and one result of each of these people."""
    store_results(
        connection,
        [
            StoredResult(
                launch_id, f"{launch_id}-{n}", person(n), "nps", "nps", "Why?", 1, "1", "1", "2026", "2026"
            )
            for n in numbers
        ],
    )
    store_stats(connection, [LaunchStats(launch_id, 0, 1, 1, 1, 0, 1, 1)], READ_AT)


def adopt(connection: Connection, record: LaunchRecord) -> int:
    """Enter a launch that only the service told of; return its number."""
    campaign_id = connection.execute(campaigns.select()).one().id
    enter_adopted(connection, campaign_id, record, {})
    found = launches.select().where(launches.c.project_launch_guid == record.project_launch_guid)
    return int(connection.execute(found).one().id)


def find(
    connection: Connection, campaign_id: int, *parts: tuple[int, ...]
) -> tuple[tuple[int, ...], dict[str, EarlierMessage]]:
    """Ask for each part of the people by itself, and put the answers together."""
    depleted = find_depleted(connection, campaign_id, IDS, {"ask"})
    found = {"ask": EarlierMessage()}
    for part in parts:
        one = read_earlier(connection, campaign_id, IDS, {"ask"}, map(person, part), depleted)["ask"]
        assert one.answered <= set(map(person, part))
        found["ask"].launches.update(one.launches)
        found["ask"].answered.update(one.answered)
    return depleted, found


def test_parts_know_what_the_whole_knows(ledger: Ledger, make_record: MakeRecord, deliver: Deliver) -> None:
    """Who got a message, by which launch, and who has answered it, is the same for parts of the people."""
    first, second, _unread, other = deliver(
        make_record("a", 101, 102),
        make_record("b", 103, 104),
        make_record("c", 105),
        make_record("d", 101, 105, message="other"),
    )
    with ledger.writing() as connection:
        campaign_id = connection.execute(campaigns.select()).one().id
        answer(connection, first, 101)
        answer(connection, second, 103, 104)
        answer(connection, other, 105)
    with ledger.reading() as connection:
        depleted, found = find(connection, campaign_id, (101, 104, 106), (102, 103), (105,))
        assert found == read_earlier(connection, campaign_id, IDS, {"ask"})
    assert found["ask"].answered == {person(101), person(103), person(104)}
    assert depleted == ()


def test_an_answer_to_a_launch_that_one_is_not_entered_under_counts(
    ledger: Ledger, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Whoever two launches reached is on record with the first; with an answer to the second nobody is silent."""
    deliver(make_record("a", 101, 102))
    with ledger.writing() as connection:
        campaign_id = connection.execute(campaigns.select()).one().id
        # One that lost all its people to the other, and one that lost some of them.
        emptied = adopt(connection, make_record("b", 101))
        shared = adopt(connection, make_record("c", 102, 103))
        answer(connection, emptied, 101)
        answer(connection, shared, 102)
    with ledger.reading() as connection:
        depleted, found = find(connection, campaign_id, (101,), (102,), (103,))
        assert found == read_earlier(connection, campaign_id, IDS, {"ask"})
    assert found["ask"].answered == {person(101), person(102)}
    assert set(depleted) == {emptied, shared}
