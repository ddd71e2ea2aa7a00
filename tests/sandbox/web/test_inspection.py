"""What happened, below `/_sandbox/`: messages of a phone, requests of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import requests

from runner.sandbox.handle import MessagingService
from runner.sandbox.web import control
from runner.sandbox.web.request_log import MOST_REQUESTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.sandbox.model import ServiceAddress

    Call = Callable[..., requests.Response]

PHONE = "+14155550101"
SURVEY = {
    "phone": [PHONE],
    "tag": "taste",
    "introduction": "Hello.",
    "questions": [{"text": "Colour?", "responses": ["Red", "Blue"]}],
    "conclusion": "Thanks.",
}


@pytest.fixture
def service(address: ServiceAddress) -> MessagingService:
    return MessagingService(address.url, address.username, address.api_key)


def test_messages_of_a_phone_are_its_conversation(call: Call, service: MessagingService) -> None:
    """What a phone received and sent comes in order, each with its time, direction and launch."""
    guid = call("POST", "/api/send", SURVEY).json()["project_launch_guid"]
    for text in ("green", "blue", "STOP"):
        service.reply(PHONE, text)
    messages = service.messages(PHONE)
    assert [(each["direction"], each["kind"]) for each in messages] == [
        ("to_phone", "introduction"),
        ("to_phone", "question"),
        ("from_phone", "inbound"),
        ("to_phone", "repeat"),
        ("from_phone", "inbound"),
        ("to_phone", "conclusion"),
        ("from_phone", "inbound"),
        ("to_phone", "notice"),
    ]
    assert [each["text"] for each in messages if each["direction"] == "from_phone"] == [
        "green",
        "blue",
        "STOP",
    ]
    assert messages[1]["text"].startswith("Colour?")
    assert {(each["project_launch_guid"], each["project_tag"]) for each in messages[:6]} == {(guid, "taste")}
    assert messages[-1]["project_launch_guid"] is None
    assert [each["at"] for each in messages] == sorted(each["at"] for each in messages)
    assert messages[0]["at"].endswith("+00:00")


def test_messages_come_in_pages(
    call: Call, service: MessagingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page says where the next one begins, and the last one that there is none."""
    monkeypatch.setattr(control, "_PAGE", 2)
    for text in ("One", "Two", "Three"):
        call("POST", "/api/send", {"phone": [PHONE], "text": text})
    first = call("GET", "/_sandbox/messages", phone=PHONE).json()
    rest = call("GET", "/_sandbox/messages", phone=PHONE, after=first["next_after"]).json()
    assert [each["text"] for each in (*first["messages"], *rest["messages"])] == ["One", "Two", "Three"]
    assert (first["phone"], rest["next_after"]) == (PHONE, None)
    assert len(service.messages(PHONE)) == 3


def test_requests_are_logged(call: Call, service: MessagingService) -> None:
    """Requests of clients are there with method, path, query, body and status, and those for control are not."""
    call("POST", "/api/send", SURVEY)
    call("POST", "/api/send/", {"text": "Hello"})
    call("GET", "/api/results", limit=5)
    call("GET", "/v1/api/stats")
    call("GET", "/_sandbox/state")
    call("GET", "/livez")
    logged = service.requests()
    assert [(each["method"], each["path"], each["status"]) for each in logged] == [
        ("POST", "/api/send", 200),
        ("POST", "/api/send/", 400),
        ("GET", "/api/results", 200),
        ("GET", "/v1/api/stats", 404),
    ]
    assert (logged[0]["body"], logged[2]["query"]) == (SURVEY, {"limit": "5"})
    first = logged[0]["id"]
    assert [each["id"] - first for each in logged] == [0, 1, 2, 3]


def test_expected_requests_are_given_or_the_others_named(call: Call, service: MessagingService) -> None:
    """A test gets the requests that it expects; else its failure names those that came."""
    call("POST", "/api/send", SURVEY)
    (sent,) = service.expect_requests(1, method="POST", path="/api/send", status=200)
    assert sent["body"]["tag"] == "taste"
    with pytest.raises(
        AssertionError, match=r"2 such requests were expected, and 1 came.*\n  POST /api/send: 200"
    ):
        service.expect_requests(2, path="/api/send")


def test_bodies_that_cannot_be_shown_are_left_out(address: ServiceAddress, service: MessagingService) -> None:
    """A body that is no JSON, or a long one, is null in the log."""
    query = {"username": address.username, "api_key": address.api_key}
    for body in (b"{bad", b'{"text": NaN}', b'{"text": "\\ud800"}', b"[1e999]", b"\xff" * 20_000):
        requests.post(f"{address.url}/api/send", params=query, data=body, timeout=60)
    assert [(each["body"], each["status"]) for each in service.requests()] == [(None, 400)] * 5


@pytest.mark.slow
def test_log_is_bounded_and_ends_with_a_reset(call: Call, service: MessagingService) -> None:
    """The log keeps the last thousand requests, says how many came, and is empty after a reset."""
    for _ in range(MOST_REQUESTS + 2):
        call("GET", "/api/nothing")
    shown = call("GET", "/_sandbox/requests").json()
    assert (shown["total"], len(shown["requests"])) == (MOST_REQUESTS + 2, MOST_REQUESTS)
    ids = [each["id"] for each in shown["requests"]]
    assert ids == [*range(ids[0], ids[0] + MOST_REQUESTS)]
    service.reset()
    assert call("GET", "/_sandbox/requests").json()["total"] == 0
