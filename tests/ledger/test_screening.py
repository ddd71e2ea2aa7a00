"""What bringing in results looks at, and what is listed for a person to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from sqlalchemy import insert, select, update

from runner.ledger.files.suppressions import OptOut
from runner.ledger.model import LaunchState, StoredResult
from runner.ledger.people.forgotten import note_forgotten_results
from runner.ledger.people.opt_outs import (
    add_opt_outs,
    add_replies,
    decide_reply,
)
from runner.ledger.people.replies import (
    ReplyText,
    WaitingReply,
    count_people,
    is_screened,
    list_launched_campaigns,
    list_recorded_campaigns,
    list_waiting,
    mark_screened,
    read_reply_texts,
)
from runner.ledger.record.deliveries import read_definitions
from runner.ledger.results.reconciled import store_results
from runner.ledger.tables import campaigns, launch_stats, launches
from runner.ledger.target_key import enter_key
from tests.ledger.conftest import AT, KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.files.suppressions import State
    from runner.ledger.model import LaunchRecord

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

ADA, BOB, EVE = "+14155550101", "+14155550102", "+14155550103"
LATER = "2026-11-21T12:00:00.000000Z"


def enter_replies(ledger: Ledger, *replies: tuple[str, str, State, str]) -> None:
    """Enter replies: phone, result_guid, state, when."""
    with ledger.writing() as connection:
        enter_key(connection, KEY)
        found = [
            OptOut(KEY.fingerprint(phone), guid, "reply", state, at) for phone, guid, state, at in replies
        ]
        add_replies(connection, "live", found)


def store_answer(ledger: Ledger, launch_id: int, guid: str, phone: str, text: str) -> None:
    participant = KEY.fingerprint(phone)
    with ledger.writing() as connection:
        store_results(
            connection,
            [StoredResult(launch_id, guid, participant, "q", "why", "Why?", 1, text, text, AT, AT)],
        )


def test_doubtful_replies_wait_unless_their_author_is_on_record(ledger: Ledger) -> None:
    """The oldest comes first; nothing is to be decided of somebody who has opted out for certain."""
    enter_replies(
        ledger,
        (ADA, "g2", "doubtful", LATER),
        (BOB, "g1", "doubtful", AT),
        (EVE, "g3", "doubtful", AT),
        (EVE, "g4", "confirmed", AT),
    )
    with ledger.writing() as connection:
        enter_key(connection, KEY)
        assert list_waiting(connection, "live") == [
            WaitingReply("g1", AT, KEY.fingerprint(BOB)),
            WaitingReply("g2", LATER, KEY.fingerprint(ADA)),
        ]
        assert list_waiting(connection, "test") == []
        decide_reply(connection, "live", "g4", "dismissed", LATER)
        assert [one.result_guid for one in list_waiting(connection, "live")] == ["g1", "g3", "g2"]


def test_people_count_once(ledger: Ledger) -> None:
    """Somebody who opted out in two ways is one person."""
    enter_replies(
        ledger, (ADA, "g1", "confirmed", AT), (ADA, "g2", "confirmed", AT), (BOB, "g3", "doubtful", AT)
    )
    with ledger.writing() as connection:
        add_opt_outs(connection, KEY, [ADA, EVE], "import", AT)
        assert count_people(connection, "live") == 2
        assert count_people(connection, "test") == 0


def test_what_a_doubtful_reply_says(ledger: Ledger, deliver: Deliver, make_record: MakeRecord) -> None:
    """Its text and question are found among the results; what only an import told of has none."""
    (launch_id,) = deliver(make_record("a", 101, 102))
    store_answer(ledger, launch_id, "g1", ADA, "stop texting me")
    store_answer(ledger, launch_id, "g2", BOB, "fine")
    enter_replies(ledger, (ADA, "g1", "doubtful", AT), (EVE, "g9", "doubtful", AT))
    with ledger.reading() as connection:
        assert read_reply_texts(connection, "live") == {
            "g1": ReplyText("pulse", "ask", "Why?", "stop texting me")
        }
        assert read_reply_texts(connection, "test") == {}


def test_what_was_sent_is_read(ledger: Ledger, deliver: Deliver, make_record: MakeRecord) -> None:
    """A launch comes with its definition."""
    (launch_id,) = deliver(make_record("a", 101))
    with ledger.reading() as connection:
        assert read_definitions(connection, [launch_id, launch_id + 1]) == {launch_id: {"text": "Hello"}}
        assert list_recorded_campaigns(connection) == [("live", "pulse")]


def test_a_campaign_is_launched_once_a_launch_may_have_reached_somebody(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """Any launch counts, whatever its outcome."""
    (launch_id,) = deliver(make_record("a", 101))
    states: tuple[LaunchState, ...] = get_args(LaunchState)
    for state in states:
        with ledger.writing() as connection:
            connection.execute(update(launches).where(launches.c.id == launch_id).values(state=state))
            assert list_launched_campaigns(connection, "live") == ["pulse"], state
    with ledger.writing() as connection:
        connection.execute(insert(campaigns), [{"target": "live", "name": "tea"}])
        assert list_launched_campaigns(connection, "live") == ["pulse"]
        assert list_launched_campaigns(connection, "test") == []


def test_counts_of_what_is_not_kept(ledger: Ledger, deliver: Deliver, make_record: MakeRecord) -> None:
    """A later count takes the place of the earlier one."""
    (launch_id,) = deliver(make_record("a", 101))
    with ledger.writing() as connection:
        note_forgotten_results(connection, {launch_id: 3})
        note_forgotten_results(connection, {launch_id: 2})
        assert connection.execute(
            select(launch_stats.c.launch_id, launch_stats.c.forgotten_results)
        ).all() == [(launch_id, 2)]


def test_screening_is_remembered_for_each_campaign(ledger: Ledger) -> None:
    """The mark says by which rules; to set it twice is no error."""
    with ledger.writing() as connection:
        assert not is_screened(connection, 1)
        mark_screened(connection, 1)
        mark_screened(connection, 1)
        assert is_screened(connection, 1)
        assert not is_screened(connection, 11)
        connection.exec_driver_sql("UPDATE ledger_info SET value = '0' WHERE name = 'opt_outs_screened_1'")
        assert not is_screened(connection, 1)
