"""Sessions in the store: they queue, become active, complete, and everything is counted."""

from __future__ import annotations

import json
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.sandbox.definition import read_send
from runner.sandbox.listing import Listing
from runner.sandbox.model import Plan
from runner.sandbox.service import Service
from runner.sandbox.store import Store, open_store

ADA, BOB, CY = "+14155550101", "+14155550102", "+14155550103"
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SURVEY: dict[str, Any] = {"questions": [{"text": "Q1", "responses": ["Red", "Blue"]}, {"text": "Q2"}]}
TEXT: dict[str, Any] = {"text": "Hello"}


def send(service: Service, body: dict[str, Any], *phones: str, now: datetime = NOON) -> str:
    request = read_send(json.dumps({**body, "phone": list(phones)}).encode())
    return service.send(request.definition, request.phones, now)


def show_stats(store: Store) -> list[dict[str, Any]]:
    page, _ = Listing(store, plan=Plan()).list_stats({}, 1000, 0)
    return [dict(record) for record in page.records]


def show_statuses(store: Store) -> list[list[str]]:
    """Give the states of the sessions of each launch, in order."""
    return [[session["status"] for session in stat["sessions"]] for stat in show_stats(store)]


def show_transcript(store: Store, phone: str) -> list[str]:
    rows = store.connection.execute(
        "SELECT kind || ': ' || text FROM transcript JOIN participant ON participant.id = participant_id "
        "WHERE phone = ? ORDER BY transcript.id",
        (phone,),
    )
    return [line for (line,) in rows]


def test_sessions_queue_in_order_of_launch(domain: Service) -> None:
    """A participant has one active session; later ones wait for it, and start in order of their launch."""
    send(domain, SURVEY, ADA, BOB)
    send(domain, TEXT, ADA)
    send(domain, SURVEY, ADA)
    assert show_statuses(domain.store) == [["ACTIVE", "ACTIVE"], ["QUEUED"], ["QUEUED"]]
    domain.receive(ADA, "red", NOON)
    receipt = domain.receive(ADA, "why", NOON)
    assert receipt.completed == 2
    assert show_statuses(domain.store) == [["COMPLETE", "ACTIVE"], ["COMPLETE"], ["ACTIVE"]]
    assert show_transcript(domain.store, ADA) == [
        "question: Q1\n1. Red\n2. Blue",
        "inbound: red",
        "question: Q2",
        "inbound: why",
        "text: Hello",
        "question: Q1\n1. Red\n2. Blue",
    ]


def test_plain_text_is_complete_at_once(domain: Service) -> None:
    """A session without questions completes once it is rendered."""
    send(domain, TEXT, ADA, BOB)
    (stat,) = show_stats(domain.store)
    assert {name: value for name, value in stat.items() if name.startswith("num_")} == {
        "num_active_sessions": 0,
        "num_complete_sessions": 2,
        "num_messages": 2,
        "num_questions": 0,
        "num_queued_sessions": 0,
        "num_renders": 2,
        "num_results": 0,
    }


def test_complete_existing_sessions_leaves_nothing_queued(domain: Service) -> None:
    """With complete_existing_sessions what is open completes, unrendered, and the new session starts."""
    send(domain, SURVEY, ADA, BOB)
    send(domain, SURVEY, ADA)
    send(domain, {**SURVEY, "complete_existing_sessions": True}, ADA)
    assert show_statuses(domain.store) == [["COMPLETE", "ACTIVE"], ["COMPLETE"], ["ACTIVE"]]
    assert [stat["num_renders"] for stat in show_stats(domain.store)] == [2, 0, 1]
    assert domain.receive(ADA, "red", NOON).result_guid is not None
    assert [stat["num_results"] for stat in show_stats(domain.store)] == [0, 0, 1]


@pytest.mark.parametrize("phone", [ADA, "+14155550999"])
def test_unexpected_text_is_kept_and_changes_nothing(domain: Service, phone: str) -> None:
    """A text that no session waits for is kept in the transcript, from known people and from strangers."""
    send(domain, TEXT, ADA)
    before = show_stats(domain.store)
    receipt = domain.receive(phone, "Who are you?", NOON)
    assert (receipt.was_expected, receipt.result_guid, receipt.prompt) == (False, None, None)
    assert show_stats(domain.store) == before
    assert show_transcript(domain.store, phone)[-1] == "inbound: Who are you?"


def test_participant_keeps_their_guid(domain: Service) -> None:
    """A phone is the same participant in every launch, with an identifier of its own in each."""
    for body in (SURVEY, SURVEY):
        send(domain, body, ADA)
        for text in ("red", "why"):
            domain.receive(ADA, text, NOON)
    page = Listing(domain.store, plan=Plan()).list_results({}, 10, 0)
    assert len({record["participant_guid"] for record in page.records}) == 1
    assert len({record["project_launch_participant_guid"] for record in page.records}) == 2
    assert len({record["question_guid"] for record in page.records}) == 4


def test_times_are_those_that_were_given(domain: Service) -> None:
    """Records carry the times of their events in UTC, wherever the clock that told them stands."""
    tokyo = datetime.fromisoformat("2026-12-01T21:00:00.000005+09:00")
    send(domain, SURVEY, ADA, now=tokyo)
    domain.receive(ADA, "red", tokyo + timedelta(hours=1))
    assert show_stats(domain.store)[0]["project_launch_start"] == "2026-12-01T12:00:00.000005"
    (record,) = Listing(domain.store, plan=Plan()).list_results({}, 10, 0).records
    assert record["created"] == "2026-12-01T13:00:00.000005"


def test_one_launch_takes_many_phones(domain: Service) -> None:
    """A launch of thousands of phones has a session for each, in the order in which they were given."""
    phones = [f"+1415{number:07d}" for number in range(3000)]
    send(domain, SURVEY, *reversed(phones))
    (stat,) = show_stats(domain.store)
    assert [session["to"] for session in stat["sessions"]] == phones[::-1]
    assert stat["num_active_sessions"] == stat["num_renders"] == 3000


def test_representations_hide_people_and_what_they_wrote(domain: Service) -> None:
    """No value that a traceback could show spells out a phone or a text."""
    request = read_send(json.dumps({**SURVEY, "phone": [ADA]}).encode())
    domain.send(request.definition, request.phones, NOON)
    shown = repr(request) + repr(domain.receive(ADA, "red", NOON))
    assert ADA not in shown


events = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"),
            st.sampled_from([TEXT, SURVEY, {**SURVEY, "complete_existing_sessions": True}]),
            st.lists(st.sampled_from([ADA, BOB, CY]), min_size=1, max_size=3),
        ),
        st.tuples(
            st.just("text"), st.sampled_from(["red", "2", "maybe", "why"]), st.sampled_from([ADA, BOB, CY])
        ),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(events)
def test_whatever_happens_the_counts_agree(happened: list[tuple[str, Any, Any]]) -> None:
    """After any sends and texts there is one active session a phone, and all counts agree."""
    with tempfile.TemporaryDirectory() as folder, closing(open_store(Path(folder, "s.sqlite"))) as store:
        service = Service(store)
        for kind, what, who in happened:
            if kind == "send":
                send(service, what, *who)
            else:
                service.receive(who, what, NOON)
        check_counts(store)


def check_counts(store: Store) -> None:
    """Compare what the service counts as it goes with what is in its tables."""
    stats = show_stats(store)
    _, usage = Listing(store, plan=Plan()).list_stats({}, 1, 0)
    counted = store.connection.execute(
        "SELECT (SELECT count(*) FROM transcript WHERE kind <> 'inbound'), "
        "(SELECT count(*) FROM transcript WHERE kind = 'question'), "
        "(SELECT count(*) FROM transcript WHERE kind NOT IN ('question', 'repeat', 'inbound')), "
        "(SELECT count(*) FROM result)"
    ).fetchone()
    totals = usage["totals"]
    assert counted == tuple(totals[name] for name in ("renders", "questions", "messages", "results"))
    assert totals["launches"] == len(stats)
    for name in ("renders", "questions", "messages", "results"):
        assert totals[name] == sum(stat[f"num_{name}"] for stat in stats)
    for status in ("active", "queued", "complete"):
        for stat in stats:
            shown = [session["status"] for session in stat["sessions"]].count(status.upper())
            assert stat[f"num_{status}_sessions"] == shown
        assert totals[f"{status}_sessions"] == sum(stat[f"num_{status}_sessions"] for stat in stats)
    open_of: dict[str, list[str]] = {}
    for stat in stats:
        for session in stat["sessions"]:
            if session["status"] != "COMPLETE":
                open_of.setdefault(session["to"], []).append(session["status"])
    assert all(states == ["ACTIVE"] + ["QUEUED"] * (len(states) - 1) for states in open_of.values())
    ordered = store.connection.execute("SELECT session_id, position FROM result ORDER BY id").fetchall()
    assert all(
        [position for session_id, position in ordered if session_id == wanted] in ([0], [0, 1])
        for wanted, _ in ordered
    )
