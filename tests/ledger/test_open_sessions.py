"""Who has an open survey, by what the ledger keeps of launches and of what the service says of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from runner.ledger.fingerprint import OpenSession, TargetKey, launch_key
from runner.ledger.model import Intent, LaunchRecord, Outcome, StoredSession
from runner.ledger.people.history import find_surveying, read_open_sessions
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import absorb_launches, add_intents
from runner.ledger.results.differences import accept_silence
from runner.ledger.results.reconciled import list_accepted, store_sessions
from runner.reconcile.launches import ReadLaunch, note_ends
from runner.service.model import StatRecord
from tests.ledger.conftest import AT, KEY
from tests.ledger.counts import LaunchStats, store_stats

if TYPE_CHECKING:
    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchState

ADA, BOB, CY = (f"+1415555010{number}" for number in range(1, 4))
SURVEY = json.dumps({"questions": [{"tag": "why", "text": "Why?"}]})
PLAIN = json.dumps({"text": 'Is this {"questions": [1]} a question?'})


def send(
    ledger: Ledger, *phones: str, name: str = "news", definition: str = SURVEY, state: LaunchState = "sent"
) -> tuple[int, int]:
    """Enter a launch with its outcome; return the ledger's numbers of the campaign and of the launch."""
    people = tuple(sorted(KEY.fingerprint(phone) for phone in phones))
    with ledger.writing() as connection:
        campaign_id = enter_campaign(connection, "live", name)
        key = launch_key(name, "ask", definition, people)
        intent = Intent("ask", key, "news", "d1g35t", people, definition)
        (launch_id,) = add_intents(connection, campaign_id, [intent], AT)
        if state != "intent":
            outcome = Outcome(launch_id, state, AT, f"guid-{launch_id}" if state == "sent" else None)
            record_outcomes(connection, [outcome])
    return campaign_id, launch_id


def find_held(ledger: Ledger) -> dict[str, bool]:
    """Return the phones of those with an open survey, each with whether anything was read of it."""
    with ledger.reading() as connection:
        everybody = read_open_sessions(connection, KEY)
        asked = read_open_sessions(connection, KEY, [CY, BOB, ADA])
        is_any = bool(find_surveying(connection, "live"))
    found, again = (
        {phone: session.state == "read" for phone in (ADA, BOB, CY) if (session := known.find(phone))}
        for known in (everybody, asked)
    )
    assert again == found
    assert is_any or not found
    return found


def read(
    ledger: Ledger,
    campaign_id: int,
    launch_id: int,
    counts: tuple[int | None, int | None, int | None],
    *said: str,
) -> None:
    """Take in what the service says: sessions active, queued and complete, and the state of each that it lists."""
    active, queued, complete = counts
    stat = StatRecord(
        f"guid-{launch_id}", AT, active, complete, None, None, queued, None, None, "news", {},
        recipients=(ADA, BOB)[: len(said)], statuses=said,
    )  # fmt: skip
    with ledger.writing() as connection:
        (launch,) = list_accepted(connection, campaign_id, [launch_id])
        note_ends(connection, [(ReadLaunch(*launch), stat)])
        told = zip(stat.recipients, stat.statuses, strict=True)
        store_sessions(
            connection,
            [StoredSession(launch_id, KEY.fingerprint(one), word, stopped=False) for one, word in told],
        )
        store_stats(
            connection, [LaunchStats(launch_id, active, complete, None, None, queued, None, None)], AT
        )


@pytest.mark.parametrize(
    ("state", "holds"),
    [("intent", 1), ("sent", 1), ("unknown", 1), ("rejected", 0), ("not_sent", 0)],
)
def test_what_may_have_been_sent_holds(ledger: Ledger, state: LaunchState, holds: int) -> None:
    """A survey that may have reached somebody is open until the service says otherwise."""
    send(ledger, ADA, state=state)
    assert len(find_held(ledger)) == holds


@pytest.mark.parametrize(
    ("counts", "said", "held"),
    [
        ((0, 0, 2), ("COMPLETE", "COMPLETE"), set()),
        ((1, 0, 1), ("COMPLETE", "ACTIVE"), {BOB}),
        ((1, 1, 0), ("QUEUED", "ACTIVE"), {ADA, BOB}),
        # Counts alone, and a list alone.
        ((0, 0, 2), (), set()),
        ((0, 0, 2), ("", ""), set()),
        ((1, 0, 1), ("", ""), {ADA, BOB}),
        ((None, None, None), ("COMPLETE", "ACTIVE"), {BOB}),
        ((None, None, None), ("COMPLETE", "COMPLETE"), set()),
        ((None, 0, 2), (), {ADA, BOB}),
        # A word that the reference does not have: the counts decide.
        ((0, 0, 2), ("COMPLETE", "EXPIRED"), set()),
        ((1, 0, 1), ("COMPLETE", "EXPIRED"), {BOB}),
        ((None, None, None), ("EXPIRED", "EXPIRED"), {ADA, BOB}),
        # Nothing is there yet, or not all of it.
        ((0, 0, 0), (), {ADA, BOB}),
        ((0, 0, 1), ("COMPLETE",), {BOB}),
        # Counts and list contradict each other.
        ((0, 0, 2), ("COMPLETE", "ACTIVE"), {BOB}),
        ((0, 0, 2), ("ACTIVE", "ACTIVE"), {ADA, BOB}),
    ],
)
def test_who_is_held_by_what_the_service_says(
    ledger: Ledger, counts: tuple[int | None, int | None, int | None], said: tuple[str, ...], held: set[str]
) -> None:
    """Only what says that a session has ended frees its person; what is not told is not known."""
    numbers = send(ledger, ADA, BOB)
    read(ledger, *numbers, counts, *said)
    assert find_held(ledger) == dict.fromkeys(held, True)


def test_a_launch_that_the_service_is_silent_about(ledger: Ledger) -> None:
    """Once a person has accepted that it tells nothing of it, it holds nobody."""
    _, launch_id = send(ledger, ADA)
    assert find_held(ledger) == {ADA: False}
    with ledger.writing() as connection:
        accept_silence(connection, [launch_id], AT)
    assert find_held(ledger) == {}


def test_a_launch_that_is_not_known_to_ask(ledger: Ledger) -> None:
    """It holds its people once the service says that it is open."""
    campaign_id, _ = send(ledger, CY, definition=PLAIN)
    people = tuple(sorted(KEY.fingerprint(phone) for phone in (ADA, BOB)))
    record = LaunchRecord("gone", "key", "news", "d1g35t", people, "guid-2", AT)
    with ledger.writing() as connection:
        absorb_launches(connection, campaign_id, [record])
    assert find_held(ledger) == {}
    read(ledger, campaign_id, 2, (1, 0, 1), "COMPLETE", "ACTIVE")
    assert find_held(ledger) == {BOB: True}


def test_the_campaign_that_holds_is_named(ledger: Ledger) -> None:
    """All campaigns of the target count, but for one that is left out."""
    first, _ = send(ledger, ADA, name="alpha")
    send(ledger, BOB, name="beta")
    with ledger.reading() as connection:
        everybody = read_open_sessions(connection, KEY)
        others = read_open_sessions(connection, KEY, [ADA, BOB], other_than=first)
        elsewhere = read_open_sessions(connection, TargetKey.of("test", None))
    assert everybody.find(ADA) == OpenSession("alpha", "unread")
    assert everybody.find(BOB) == others.find(BOB) == OpenSession("beta", "unread")
    assert others.find(ADA) is None
    assert not elsewhere
