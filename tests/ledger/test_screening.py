"""What bringing in results looks at, and what is listed for a person to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.files.suppressions import OptOut
from runner.ledger.model import StoredResult
from runner.ledger.people.opt_outs import (
    add_replies,
    decide_reply,
)
from runner.ledger.people.replies import (
    ListedReply,
    list_waiting,
    read_reply_texts,
)
from runner.ledger.results.reconciled import store_results
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
            ListedReply("g1", AT, "opt_out", 1),
            ListedReply("g2", LATER, "opt_out", 1),
        ]
        assert list_waiting(connection, "test") == []
        decide_reply(connection, "live", "g4", "dismissed", LATER)
        assert [one.reply for one in list_waiting(connection, "live")] == ["g1", "g3", "g2"]


def test_what_a_doubtful_reply_says(ledger: Ledger, deliver: Deliver, make_record: MakeRecord) -> None:
    """Its text and question are found among the results; what only an import told of has none."""
    (launch_id,) = deliver(make_record("a", 101, 102))
    store_answer(ledger, launch_id, "g1", ADA, "stop texting me")
    store_answer(ledger, launch_id, "g2", BOB, "fine")
    enter_replies(ledger, (ADA, "g1", "doubtful", AT), (EVE, "g9", "doubtful", AT))
    with ledger.reading() as connection:
        assert read_reply_texts(connection, "live") == {
            "g1": {"campaign": "pulse", "message": "ask", "question": "Why?", "text": "stop texting me"}
        }
        assert read_reply_texts(connection, "test") == {}
