"""What other machines have reserved, in a ledger that hasn't sent it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runner.ledger.lockfile.writer import refresh_lockfile

from runner.ledger.fingerprint import launch_key
from runner.ledger.model import Intent, Outcome, Reservation, ReservedLaunch
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.record.recorded import SharedRecord
from runner.ledger.record.reservations import dump_reservation, list_open, note_own, parse_reservation
from runner.ledger.record.unexplained import UnexplainedLaunch, hold_people
from runner.ledger.record.unsettled import HeldCount, count_held, list_unsettled, release_launch
from runner.ledger.results.runs import make_run
from tests.ledger.conftest import AT, KEY, SALT

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord
    from runner.ledger.record.recorded import Identity

PLACE = Path("origin:refs/runner/live/pulse.lock.json")


def reserve(*numbers: int, message: str = "ask", digest: str = "d1g35t") -> ReservedLaunch:
    people = tuple(sorted(KEY.fingerprint(f"+1415555{number:04}") for number in numbers))
    key = launch_key("pulse", message, digest, people)
    return ReservedLaunch(message, key, "pulse-2026", digest, people, "t3xt", AT)


def share(identity: Identity, *reservations: Reservation, held: bool = True) -> Identity:
    """Return the identity with what a remote says: the key, and launches that were reserved."""
    head = (
        f'{{\n  "campaign": "pulse",\n  "key_fingerprint": "{KEY.name}",\n  "launches": [],\n'
        f'  "lockfile_version": 1,\n  "salt": "{SALT}",\n  "target": "live"\n}}\n'
    )
    return replace(identity, shared=SharedRecord({PLACE: head}, reservations, is_held=held))


def test_a_reservation_is_entered_once(ledger: Ledger, identity: Identity) -> None:
    """As launches of a run that has died, under the key of the machine that reserved them."""
    told = share(identity, Reservation("a", (reserve(1, 2), reserve(3, message="more"))))
    for _ in range(2):
        record = enter_record(ledger, told, "f" * 32)
    campaign_id, key = record.require_entered()
    assert key.name == KEY.name
    assert {message: len(people) for message, people in record.known.unresolved.items()} == {
        "ask": 2,
        "more": 1,
    }
    with ledger.reading() as connection:
        entered = list_unsettled(connection, campaign_id)
        shown = list_open(connection, campaign_id, lambda _: "unused")
    assert [(one.definition, one.definition_digest, one.intent_at) for one in entered] == [
        (None, "t3xt", AT)
    ] * 2
    assert shown == [reserve(1, 2), reserve(3, message="more")]


def test_who_only_looks_enters_nothing(ledger: Ledger, identity: Identity) -> None:
    """What another run may just be sending counts as not known, and stays that run's."""
    told = share(identity, Reservation("a", (reserve(1, 2),)), held=False)
    for opened in (ledger, None):
        assert len(read_record(opened, told).known.unresolved["ask"]) == 2
    record = enter_record(ledger, told, "f" * 32)
    assert not record.is_unclear()


def test_own_reservations_are_known(ledger: Ledger, identity: Identity) -> None:
    """What the ledger has no intent of cannot have left."""
    with ledger.writing() as connection:
        note_own(connection, "a")
        note_own(connection, "a")
    told = share(identity, Reservation("a", (reserve(1, 2),)))
    assert not read_record(ledger, told).is_unclear()
    assert not enter_record(ledger, told, "f" * 32).is_unclear()


def test_people_on_record_as_reached_stay_so(
    ledger: Ledger, identity: Identity, make_record: Callable[..., LaunchRecord]
) -> None:
    """A lockfile that git brought knows more than the remote does; nothing is unclear then."""
    sent = make_record("one", 1, 2)
    first = enter_record(ledger, share(identity), "f" * 32)
    campaign_id, _ = first.require_entered()
    with ledger.writing() as connection:
        intent = Intent(sent.message, sent.key, sent.tag, sent.payload_digest, sent.recipients, "{}")
        (launch_id,) = add_intents(connection, campaign_id, [intent], AT)
        record_outcomes(connection, [Outcome(launch_id, "sent", AT, "guid-one")])
    record = enter_record(ledger, share(identity, Reservation("a", (reserve(1, 2),))), "f" * 32)
    assert not record.is_unclear()
    with ledger.reading() as connection:
        assert list_unsettled(connection, campaign_id) == []
        assert refresh_lockfile(connection, identity, record)


def test_a_later_reservation_takes_over_what_is_open_here(ledger: Ledger, identity: Identity) -> None:
    """This machine died; another one found out that nothing was sent, reserved anew, and died too."""
    first = enter_record(ledger, share(identity), "f" * 32)
    campaign_id, _ = first.require_entered()
    old = reserve(1, 2)
    with ledger.writing() as connection:
        intent = Intent(old.message, old.key, old.tag, old.payload_digest, old.recipients, "{}")
        add_intents(connection, campaign_id, [intent], AT)
    anew = reserve(1, 2, digest="edited")
    record = enter_record(ledger, share(identity, Reservation("b", (anew,))), "f" * 32)
    assert record.is_unclear()
    with ledger.reading() as connection:
        (unsettled,) = list_unsettled(connection, campaign_id)
    assert (unsettled.key, unsettled.recipients) == (anew.key, frozenset(anew.recipients))
    with ledger.writing() as connection:
        release_launch(connection, unsettled.id, AT, "not listed")
    record = enter_record(ledger, share(identity, Reservation("b", (anew,))), "f" * 32)
    assert record.known.is_empty()


def test_a_renamed_message_keeps_its_reservations(ledger: Ledger, identity: Identity) -> None:
    """Under the id that it has now, with a key that fits."""
    told = replace(
        share(identity, Reservation("a", (reserve(1, message="old"),))),
        message_ids={"old": "ask", "ask": "ask"},
    )
    assert set(read_record(None, told).known.unresolved) == {"ask"}
    campaign_id, _ = enter_record(ledger, told, "f" * 32).require_entered()
    with ledger.reading() as connection:
        assert list_open(connection, campaign_id, lambda _: "unused") == [reserve(1)]


LAUNCHES = st.builds(
    ReservedLaunch,
    *([st.text()] * 4),
    st.lists(st.text(alphabet="0123456789abcdef"), max_size=3).map(tuple),
    st.text(),
    st.text(),
    arm=st.none() | st.text(),
    run=st.none() | st.text(),
)
RUNS = st.builds(make_run, st.text(), st.text(), st.none() | st.text(min_size=1), dirty=st.booleans())


@given(
    st.builds(
        Reservation,
        st.text(),
        st.lists(LAUNCHES, max_size=3).map(tuple),
        st.lists(RUNS, max_size=2).map(tuple),
    )
)
def test_a_reservation_survives_being_written(reservation: Reservation) -> None:
    """Whatever tags and ids have in them; a launch is a line."""
    text = dump_reservation(reservation)
    assert parse_reservation(text) == reservation


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"id": "a", "launches": [{}], "reservation_version": 1}',
        '{"id": "a", "launches": [], "reservation_version": 2}',
        dump_reservation(Reservation("a", (reserve(1),))).replace('"ask"', "3"),
        dump_reservation(Reservation("a", (reserve(1),))).replace('"arm": null', '"arm": 1'),
        dump_reservation(Reservation("a", (reserve(1),))).replace('"runs": []', '"runs": [{"when": 1}]'),
    ],
)
def test_what_is_no_reservation_is_not_taken_for_one(text: str) -> None:
    """Nobody may be left out because of it."""
    assert parse_reservation(text) is None


def test_held_people_are_counted_by_campaign_message_and_kind(
    ledger: Ledger, deliver: Callable[..., list[int]], make_record: Callable[..., LaunchRecord]
) -> None:
    """Intents and unknown outcomes count together, unexplained launches apart; other targets don't."""
    deliver(make_record("a", 1, 2), state="unknown")
    deliver(make_record("b", 3), make_record("c", 4, message="more"), state="intent")
    deliver(make_record("d", 5, 6))
    with ledger.writing() as connection:
        campaign_id = enter_campaign(connection, "live", "pulse", KEY)
        for guid, person in (("u1", "f1"), ("u2", "f2"), ("u3", "f2")):
            held = {"ask": {person}, "more": {person}}
            hold_people(connection, campaign_id, UnexplainedLaunch(guid, "pulse-2026", AT, {}, held))
    with ledger.reading() as connection:
        assert count_held(connection, "live") == [
            HeldCount("pulse", "ask", 2, 3),
            HeldCount("pulse", "ask", 2, 2, is_explained=False),
            HeldCount("pulse", "more", 1, 1),
            HeldCount("pulse", "more", 2, 2, is_explained=False),
        ]
        assert count_held(connection, "sandbox") == []
