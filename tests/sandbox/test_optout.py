"""Command words: what stops everything for a number, what undoes it, and what is only an answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from runner.sandbox.definition import read_send
from runner.sandbox.model import Keyword, ServiceQuestion
from runner.sandbox.records import RecordList
from runner.sandbox.service import NOTICES, read_keyword

if TYPE_CHECKING:
    from runner.sandbox.service import Service

ADA, BOB = "+14155550101", "+14155550102"
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SURVEY: dict[str, Any] = {"questions": [{"text": "Q1", "responses": ["Yes", "No"]}, {"text": "Q2"}]}
TEXT: dict[str, Any] = {"text": "Hello"}


def send(service: Service, body: dict[str, Any], *phones: str) -> None:
    request = read_send(json.dumps({**body, "phone": list(phones)}).encode())
    service.send(request.definition, request.phones, NOON)


def show_sessions(service: Service, phone: str) -> list[tuple[str, str | None]]:
    page = RecordList(service.store).list_stats({}, 1000, 0)
    return [
        (session["status"], session["sub_status"])
        for stat in page.records
        for session in stat["sessions"]
        if session["to"] == phone
    ]


def count_renders(service: Service) -> int:
    usage = RecordList(service.store).list_stats({}, 1, 0).additions
    return int(usage["totals"]["renders"])


def list_notices(service: Service, phone: str) -> list[str]:
    query = (
        "SELECT text FROM transcript JOIN participant ON participant.id = participant_id "
        "WHERE kind = 'notice' AND phone = ? ORDER BY transcript.id"
    )
    return [text for (text,) in service.store.connection.execute(query, (phone,))]


def test_stop_always_stops() -> None:
    """STOP and STOPALL stop whatever is asked, in any case, with any punctuation; their kin stop freeform questions."""
    for question in (None, ServiceQuestion("Q"), ServiceQuestion("Q", responses=("Go", "Stop"))):
        for text in ("STOP", "stop", " Stop! ", "Stop.", "stop all", "STOPALL", "STOP-ALL"):
            assert read_keyword(text, question, has_opted_out=False) is Keyword.OPT_OUT, text
    for text in ("UNSUBSCRIBE", "cancel", "End", "quit", "REVOKE", "optout", "opt out", "Opt-Out"):
        assert read_keyword(text, ServiceQuestion("Q"), has_opted_out=False) is Keyword.OPT_OUT, text
        assert read_keyword(text, None, has_opted_out=True) is Keyword.OPT_OUT, text


def test_sentence_is_no_command() -> None:
    """A command is one word and nothing else; START and its kin are one for people who opted out alone."""
    for text in ("please stop", "stop it", "don't stop", "s", "", "   ", "stop" * 100, "🛑"):
        assert read_keyword(text, None, has_opted_out=False) is None, text
    for text in ("START", "yes", "Unstop"):
        assert read_keyword(text, None, has_opted_out=True) is Keyword.OPT_IN, text
        assert read_keyword(text, None, has_opted_out=False) is None, text


def test_word_that_is_asked_for_is_the_answer() -> None:
    """A word that the question offers or concludes on is the answer, but for those that mean but one thing."""
    for offered, text, expected in (
        (("Cancel", "Keep"), "cancel", None),
        (("Cancel", "Keep"), "Cancel.", None),
        (("Start", "End"), "END", None),
        (("Red", "Blue"), "END", Keyword.OPT_OUT),
        (("Help", "Skip"), "help", None),
        (("Yes", "No"), "yes", None),
        ((), "yes", None),
        ((), "info", Keyword.HELP),
        (("Unsubscribe", "Keep"), "unsubscribe", Keyword.OPT_OUT),
    ):
        question = ServiceQuestion("Q", responses=offered)
        assert read_keyword(text, question, has_opted_out=False) is expected, text
    concluding = ServiceQuestion("Q", conclude_on="quit")
    assert read_keyword("QUIT", concluding, has_opted_out=False) is None
    assert read_keyword("END", concluding, has_opted_out=False) is Keyword.OPT_OUT


def test_stop_ends_all_sessions_of_the_number(domain: Service) -> None:
    """STOP completes the open sessions of all launches of that number alone, and is no result."""
    for _ in range(3):
        send(domain, SURVEY, ADA, BOB)
    receipt = domain.receive(ADA, "stop", NOON)
    assert (receipt.keyword, receipt.completed, receipt.prompt) == (Keyword.OPT_OUT, 3, None)
    assert receipt.result_guid is None
    assert show_sessions(domain, ADA) == [("COMPLETE", "OPTED_OUT")] * 3
    assert show_sessions(domain, BOB) == [("ACTIVE", None), ("QUEUED", None), ("QUEUED", None)]


def test_second_stop_leaves_the_moment_of_the_first(domain: Service) -> None:
    """Since when a number may not be texted is when it first said so, and it is told once."""
    domain.receive(ADA, "STOP", NOON)
    domain.receive(ADA, "STOP", NOON + timedelta(days=1))
    query = "SELECT opted_out, (SELECT count(*) FROM transcript WHERE kind = 'notice') FROM participant"
    assert domain.store.connection.execute(query).fetchone() == ("2026-12-01T12:00:00.000000", 1)


def test_later_sends_to_who_opted_out_cost_nothing(domain: Service) -> None:
    """A send to a number that has opted out makes a session that is complete, and renders nothing."""
    domain.receive(ADA, "STOP", NOON)
    send(domain, SURVEY, ADA)
    send(domain, {**TEXT, "complete_existing_sessions": True}, ADA)
    assert show_sessions(domain, ADA) == [("COMPLETE", "BLOCKED")] * 2
    assert count_renders(domain) == 0
    send(domain, TEXT, ADA, BOB)
    assert count_renders(domain) == 1
    assert show_sessions(domain, BOB) == [("COMPLETE", None)]


def test_help_leaves_the_question_open(domain: Service) -> None:
    """HELP is answered, at any time, and the question that was asked waits on."""
    send(domain, SURVEY, ADA)
    receipt = domain.receive(ADA, "help", NOON)
    assert receipt.keyword is Keyword.HELP
    assert receipt.prompt is not None
    assert receipt.prompt.position == 0
    domain.receive(BOB, "STOP", NOON)
    domain.receive(BOB, "INFO", NOON)
    assert show_sessions(domain, ADA) == [("ACTIVE", None)]
    assert list_notices(domain, ADA) == [NOTICES[Keyword.HELP]]
    assert list_notices(domain, BOB) == [NOTICES[Keyword.OPT_OUT], NOTICES[Keyword.HELP]]
