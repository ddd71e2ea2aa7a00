"""Sessions in the store: they queue, become active, complete, and everything is counted."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.definition import read_send
from runner.sandbox.model import Plan
from runner.sandbox.records import RecordList
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.service import Service

if TYPE_CHECKING:
    from runner.sandbox.store import Store

ADA, BOB, CY = "+14155550101", "+14155550102", "+14155550103"
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SURVEY: dict[str, Any] = {"questions": [{"text": "Q1", "responses": ["Red", "Blue"]}, {"text": "Q2"}]}
TEXT: dict[str, Any] = {"text": "Hello"}


def send(service: Service, body: dict[str, Any], *phones: str, now: datetime = NOON) -> str:
    request = read_send(json.dumps({**body, "phone": list(phones)}).encode())
    return service.send(request.definition, request.phones, now)


def show_stats(store: Store) -> list[dict[str, Any]]:
    page = RecordList(store).list_stats({}, 1000, 0)
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
    page = RecordList(domain.store).list_results({}, 10, 0)
    assert len({record["participant_guid"] for record in page.records}) == 1
    assert len({record["project_launch_participant_guid"] for record in page.records}) == 2
    assert len({record["question_guid"] for record in page.records}) == 4


def test_times_are_those_that_were_given(domain: Service) -> None:
    """Records carry the times of their events in UTC, wherever the clock that told them stands."""
    tokyo = datetime.fromisoformat("2026-12-01T21:00:00.000005+09:00")
    send(domain, SURVEY, ADA, now=tokyo)
    domain.receive(ADA, "red", tokyo + timedelta(hours=1))
    assert show_stats(domain.store)[0]["project_launch_start"] == "2026-12-01T12:00:00.000005"
    (record,) = RecordList(domain.store).list_results({}, 10, 0).records
    assert record["created"] == "2026-12-01T13:00:00.000005"


def test_representations_hide_people_and_what_they_wrote(domain: Service) -> None:
    """No value that a traceback could show spells out a phone or a text."""
    request = read_send(json.dumps({**SURVEY, "phone": [ADA]}).encode())
    domain.send(request.definition, request.phones, NOON)
    shown = repr(request) + repr(domain.receive(ADA, "red", NOON))
    assert ADA not in shown


def test_conclude_on_that_skips_is_told(domain: Service) -> None:
    """A session that an answer concluded before its last question says so; at the last one it simply ends."""
    first = {"text": "Q1", "conclude_on": "no"}
    send(domain, {"questions": [first, {"text": "Q2"}]}, ADA)
    send(domain, {"questions": [first]}, BOB)
    for phone in (ADA, BOB):
        domain.receive(phone, "No", NOON)
    told = [session["sub_status"] for stat in show_stats(domain.store) for session in stat["sessions"]]
    assert told == ["CONCLUDED", None]


@pytest.mark.parametrize(
    ("body", "phones", "allowed"),
    [
        (TEXT, [ADA, BOB], 2),
        (SURVEY, [ADA, BOB, CY], 3),
        ({**SURVEY, "introduction": "Hi"}, [ADA, BOB], 4),
    ],
)
def test_send_must_fit_into_the_plan(
    domain: Service, body: dict[str, Any], phones: list[str], allowed: int
) -> None:
    """A send whose renders exceed what the plan has left is refused whole and leaves nothing behind."""
    narrow = Service(domain.store, plan=Plan(renders_max=allowed - 1))
    with pytest.raises(RefusalError) as refusal:
        send(narrow, body, *phones)
    assert (refusal.value.status, refusal.value.code) == (403, "plan_used_up")
    assert domain.store.connection.execute("SELECT count(*) FROM participant").fetchone() == (0,)
    send(Service(domain.store, plan=Plan(renders_max=allowed)), body, *phones)
    assert show_stats(domain.store)[0]["num_renders"] == allowed


def test_conversation_goes_on_beyond_the_plan(domain: Service) -> None:
    """What was accepted is finished, queued sessions included, though it uses more than the plan has."""
    narrow = Service(domain.store, plan=Plan(renders_max=2))
    send(narrow, SURVEY, ADA)
    send(narrow, TEXT, ADA)
    for text in ("maybe", "red", "why"):
        narrow.receive(ADA, text, NOON)
    assert show_statuses(domain.store) == [["COMPLETE"], ["COMPLETE"]]
    assert [stat["num_renders"] for stat in show_stats(domain.store)] == [3, 1]
