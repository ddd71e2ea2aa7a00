"""Sessions that nobody answers in time, by a clock that is given."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from runner.sandbox.definition import read_send
from runner.sandbox.records import RecordList
from runner.sandbox.sessions import LIFETIME

if TYPE_CHECKING:
    from runner.sandbox.service import Service

ADA, BOB = "+14155550101", "+14155550102"
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SURVEY: dict[str, Any] = {"questions": [{"text": "Q1", "responses": ["Red", "Blue"]}, {"text": "Q2"}]}


def send(service: Service, body: dict[str, Any], *phones: str, now: datetime = NOON) -> None:
    request = read_send(json.dumps({**body, "phone": list(phones)}).encode())
    service.send(request.definition, request.phones, now)


def show_sessions(service: Service) -> list[tuple[str, str | None]]:
    page = RecordList(service.store).list_stats({}, 1000, 0)
    return [(each["status"], each["sub_status"]) for stat in page.records for each in stat["sessions"]]


def show_rendered(service: Service) -> list[tuple[str, str]]:
    query = "SELECT at, text FROM transcript WHERE kind <> 'inbound' ORDER BY id"
    return list(service.store.connection.execute(query))


def test_session_expires_a_lifetime_after_its_last_turn(domain: Service) -> None:
    """A session waits for its whole lifetime since its last turn, which an answer begins anew."""
    send(domain, SURVEY, ADA, BOB)
    domain.receive(ADA, "red", NOON + DAY)
    just_before = NOON + LIFETIME - timedelta(microseconds=1)
    assert domain.expire_sessions(just_before) == 0
    assert domain.expire_sessions(NOON + LIFETIME) == 1
    assert show_sessions(domain) == [("ACTIVE", None), ("COMPLETE", "EXPIRED")]
    assert domain.expire_sessions(NOON + LIFETIME + DAY) == 1


def test_queue_moves_on_when_a_session_expires(domain: Service) -> None:
    """What queues behind a session starts at the moment at which that expires, and expires in its turn."""
    send(domain, SURVEY, ADA)
    send(domain, {"text": "Hello"}, ADA, now=NOON + DAY)
    send(domain, SURVEY, ADA, now=NOON + DAY)
    send(domain, SURVEY, ADA, now=NOON + DAY)
    assert domain.expire_sessions(NOON + 2 * LIFETIME + DAY) == 2
    assert show_sessions(domain) == [
        ("COMPLETE", "EXPIRED"),
        ("COMPLETE", None),
        ("COMPLETE", "EXPIRED"),
        ("ACTIVE", None),
    ]
    asked = "Q1\n1. Red\n2. Blue"
    assert show_rendered(domain) == [
        ("2026-12-01T12:00:00.000000", asked),
        ("2026-12-08T12:00:00.000000", "Hello"),
        ("2026-12-08T12:00:00.000000", asked),
        ("2026-12-15T12:00:00.000000", asked),
    ]


def test_send_does_not_queue_behind_what_has_expired(domain: Service) -> None:
    """A send finds the participant free once what was open has expired."""
    send(domain, SURVEY, ADA)
    send(domain, SURVEY, ADA, now=NOON + LIFETIME)
    assert show_sessions(domain) == [("COMPLETE", "EXPIRED"), ("ACTIVE", None)]
