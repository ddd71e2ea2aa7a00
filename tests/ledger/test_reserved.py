"""What other machines have reserved, in a ledger that hasn't sent it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runner.ledger.database import note_absorbed
from runner.ledger.fingerprint import launch_key
from runner.ledger.model import Outcome, Reservation, ReservedLaunch
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import UnexplainedLaunch, hold_people, list_open
from runner.ledger.record.unsettled import HeldCount, count_held, list_unsettled
from tests.ledger.conftest import AT, KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord
    from runner.ledger.record.campaign_record import Identity

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]


def reserve(*numbers: int, message: str = "ask", digest: str = "d1g35t") -> ReservedLaunch:
    people = tuple(sorted(KEY.fingerprint(f"+1415555{number:04}") for number in numbers))
    key = launch_key("pulse", message, digest, people)
    return ReservedLaunch(message, key, "pulse-2026", digest, people, "t3xt", AT)


def test_a_reservation_is_entered_once(ledger: Ledger, identity: Identity) -> None:
    """As launches of a run that has died; who only looks enters nothing, and holds its people all the same."""
    told = [Reservation("a", (reserve(1, 2), reserve(3, message="more")))]
    unresolved = {"ask": 2, "more": 1}
    read = read_record(ledger, identity, told)
    assert {message: len(people) for message, people in read.known.unresolved.items()} == unresolved
    assert not enter_record(ledger, identity).is_unclear()
    for _ in range(2):
        record = enter_record(ledger, identity, told)
    campaign_id = record.require_entered()
    assert {message: len(people) for message, people in record.known.unresolved.items()} == unresolved
    with ledger.reading() as connection:
        entered = list_unsettled(connection, campaign_id)
        shown = list_open(connection, campaign_id, lambda _: "unused")
    assert [(one.definition, one.definition_digest, one.intent_at) for one in entered] == [
        (None, "t3xt", AT)
    ] * 2
    assert shown == [reserve(1, 2), reserve(3, message="more")]


def test_own_reservations_are_known(ledger: Ledger, identity: Identity) -> None:
    """What the ledger has no intent of cannot have left."""
    with ledger.writing() as connection:
        note_absorbed(connection, ["a"])
        note_absorbed(connection, ["a"])
    told = [Reservation("a", (reserve(1, 2),))]
    assert not read_record(ledger, identity, told).is_unclear()
    assert not enter_record(ledger, identity, told).is_unclear()


def test_people_on_record_as_reached_stay_so(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A lockfile that git brought knows more than the remote does; nothing is unclear then."""
    deliver(make_record("one", 1, 2))
    told = [Reservation("a", (reserve(1, 2),))]
    assert not read_record(ledger, identity, told).is_unclear()
    assert not enter_record(ledger, identity, told).is_unclear()
    with ledger.reading() as connection:
        assert list_unsettled(connection, 1) == []


def test_a_later_reservation_takes_over_what_is_open_here(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """This machine died; another one found out that nothing was sent, reserved anew, and died too."""
    deliver(make_record("old", 1, 2), state="intent")
    anew = reserve(1, 2, digest="edited")
    told = [Reservation("b", (anew,))]
    assert enter_record(ledger, identity, told).is_unclear()
    with ledger.reading() as connection:
        (unsettled,) = list_unsettled(connection, 1)
    assert (unsettled.key, unsettled.recipients) == (anew.key, frozenset(anew.recipients))
    with ledger.writing() as connection:
        record_outcomes(connection, [Outcome(unsettled.id, "not_sent", AT, detail="not listed")])
    assert enter_record(ledger, identity, told).known.is_empty()


def test_a_renamed_message_keeps_its_reservations(ledger: Ledger, identity: Identity) -> None:
    """Under the id that it has now."""
    renamed = replace(identity, message_ids={"old": "ask", "ask": "ask"})
    told = [Reservation("a", (reserve(1, message="old"),))]
    assert set(read_record(ledger, renamed, told).known.unresolved) == {"ask"}
    campaign_id = enter_record(ledger, renamed, told).require_entered()
    with ledger.reading() as connection:
        (launch,) = list_open(connection, campaign_id, lambda _: "unused")
    assert (launch.message, launch.recipients) == ("ask", reserve(1).recipients)


def test_held_people_are_counted_by_campaign_message_and_kind(
    ledger: Ledger, deliver: Callable[..., list[int]], make_record: Callable[..., LaunchRecord]
) -> None:
    """Intents and unknown outcomes count together, unexplained launches apart; other targets don't."""
    deliver(make_record("a", 1, 2), state="unknown")
    deliver(make_record("b", 3), make_record("c", 4, message="more"), state="intent")
    deliver(make_record("d", 5, 6))
    with ledger.writing() as connection:
        campaign_id = enter_campaign(connection, "live", "pulse")
        for guid, person in (("u1", "f1"), ("u2", "f2"), ("u3", "f2")):
            held = {"ask": {person}, "more": {person}}
            hold_people(connection, campaign_id, UnexplainedLaunch(guid, "pulse-2026", AT, {}, held))
    with ledger.reading() as connection:
        assert count_held(connection, "live") == [
            HeldCount("pulse", "ask", 3),
            HeldCount("pulse", "ask", 2, is_explained=False),
            HeldCount("pulse", "more", 1),
            HeldCount("pulse", "more", 2, is_explained=False),
        ]
        assert count_held(connection, "sandbox") == []
