"""What follow-ups go by: who got a message before, when, and who has answered it, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from runner.campaign.answers import AnswerValue
from runner.ledger.model import LaunchRecord, StoredResult
from runner.ledger.people.history import EarlierAnswer, EarlierLaunch, EarlierMessage
from runner.ledger.record import campaign_record
from runner.ledger.record.campaign_record import Identity
from runner.ledger.report_model import LaunchDifference, OpenDifferences
from runner.ledger.results.differences import store_differences
from runner.ledger.results.reconciled import store_results
from tests.ledger.conftest import KEY
from tests.ledger.counts import LaunchStats, store_stats

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.ledger.database import Ledger

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

SENT_AT = datetime.fromisoformat("2026-11-20T12:00:00.000000Z")
READ_AT = "2026-11-21T08:30:00.000000Z"


def read_messages(ledger: Ledger, identity: Identity, wanted: set[str]) -> dict[str, EarlierMessage]:
    """Return the record of messages that others come after, by id."""
    with ledger.reading() as connection:
        return campaign_record.read_earlier_messages(connection, identity, wanted)


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    """The campaign `pulse` on the target `live`, with its messages."""
    messages = {message: message for message in ("ask", "nudge", "other")}
    return Identity("pulse", tmp_path / "pulse.yaml", KEY, message_ids=messages)


def person(number: int) -> str:
    return KEY.fingerprint(f"+1415555{number:04}")


def reconcile(ledger: Ledger, launch_id: int, *answered: int, at: str = READ_AT) -> None:
    """Store the results of a launch, two of each person, and its counts."""
    results = [
        StoredResult(
            launch_id, f"{launch_id}-{n}-{tag}", person(n), tag, tag, "Why?", 1, "1", "1", "2026", "2026"
        )
        for n in answered
        for tag in ("nps", "why")
    ]
    stats = LaunchStats(launch_id, 0, 1, 1, 1, 0, 1, len(results))
    with ledger.writing() as connection:
        store_results(connection, results)
        store_stats(connection, [stats], at)


def test_it_tells_who_got_it_and_who_answered(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Everybody has the launch they got it by; each answer counts for the message that it answers."""
    first, _second, other = deliver(
        make_record("a", 101, 102), make_record("b", 103), make_record("c", 101, message="other")
    )
    reconcile(ledger, first, 102)
    reconcile(ledger, other, 101)
    found = read_messages(ledger, identity, {"ask"})
    read = EarlierLaunch(SENT_AT, datetime.fromisoformat(READ_AT))
    assert found == {
        "ask": EarlierMessage(
            {person(101): read, person(102): read, person(103): EarlierLaunch(SENT_AT, None)}, {person(102)}
        )
    }


def test_a_difference_keeps_answers_as_they_were_known(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Until it is accepted the launch is known as of when it last agreed."""
    first, second = deliver(make_record("a", 101), make_record("b", 102))
    for launch_id in (first, second):
        reconcile(ledger, launch_id)
    since = "2026-11-22T12:00:00.000000Z"
    open_one = LaunchDifference(
        "guid-a", "more_counted", 2, 1, since, None, first, "2026-11-01T12:00:00.000000Z"
    )
    accepted = LaunchDifference("guid-b", "uncounted", None, 1, since, since, second)
    with ledger.writing() as connection:
        store_differences(connection, [], [open_one, accepted])
    found = read_messages(ledger, identity, {"ask"})["ask"]
    assert found.launches == {
        person(101): EarlierLaunch(SENT_AT, datetime(2026, 11, 1, 12, tzinfo=UTC), differs=True),
        person(102): EarlierLaunch(SENT_AT, datetime.fromisoformat(READ_AT)),
    }
    assert found.differences == OpenDifferences(1, 1, (open_one, accepted))
    with ledger.writing() as connection:
        store_differences(connection, [first, second], [])
    assert read_messages(ledger, identity, {"ask"})["ask"].differences is None


def test_renamed_messages_are_found(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """What was sent and answered under an old id counts for the message under its new one."""
    (launch_id,) = deliver(make_record("a", 101, 102))
    reconcile(ledger, launch_id, 101)
    renamed = replace(identity, message_ids={"ask": "question", "question": "question"})
    found = read_messages(ledger, renamed, {"question"})["question"]
    assert (set(found.launches), found.answered) == ({person(101), person(102)}, {person(101)})


def test_the_latest_answer_of_a_person_is_read(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """To the questions that are asked for alone, by the service's time; what has no time may be the latest."""
    first, second = deliver(make_record("a", 101, 102), make_record("b", 103))
    given = [
        (first, 101, "nps", "2026-11-20T13:00:00", "3"),
        (first, 101, "nps", "2026-11-20T12:30:00.500000", "9"),
        (first, 101, "why", "2026-11-20T14:00:00", "because"),
        (first, 102, "nps", "2026-11-20T13:00:00", "4"),
        (first, 102, "nps", "whenever", "5"),
        (second, 103, "nps", "2026-11-20T13:00:00", "6"),
    ]
    results = [
        StoredResult(
            launch, f"{place}", person(n), tag, tag, "?", 1, "1", said, at, at, "blank" if n == 103 else ""
        )
        for place, (launch, n, tag, at, said) in enumerate(given)
    ]
    with ledger.writing() as connection:
        store_results(connection, results)
    with ledger.reading() as connection:
        found = campaign_record.read_earlier_messages(
            connection, identity, {"ask"}, {"nps"}, lambda *of: AnswerValue(f"{of[:3]}", Fraction(of[3]))
        )["ask"]
    label = "('nps', 'ask', '')"
    one_o_clock = datetime(2026, 11, 20, 13, tzinfo=UTC)
    assert found.answers == {
        "nps": {
            person(101): EarlierAnswer(one_o_clock, AnswerValue(label, Fraction(3))),
            person(102): EarlierAnswer(None, AnswerValue(label, Fraction(5))),
        }
    }
