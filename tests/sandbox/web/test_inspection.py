"""What happened, below `/_sandbox/`: messages of a phone, requests of clients, webhooks and their resending."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest
import requests

from runner.sandbox.handle import MessagingService
from runner.sandbox.web.request_log import MOST_REQUESTS
from tests.patient_server import PatientServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def test_messages_come_in_pages(call: Call, service: MessagingService) -> None:
    """A page says where the next one begins, and the last one that there is none."""
    for text in ("One", "Two", "Three"):
        call("POST", "/api/send", {"phone": [PHONE], "text": text})
    first = call("GET", "/_sandbox/messages", phone=PHONE, limit=2).json()
    rest = call("GET", "/_sandbox/messages", phone=PHONE, limit=2, after=first["next_after"]).json()
    assert [each["text"] for each in (*first["messages"], *rest["messages"])] == ["One", "Two", "Three"]
    assert (first["phone"], rest["next_after"]) == (PHONE, None)
    assert len(service.messages(PHONE)) == 3


def test_unknown_phone_has_no_messages(call: Call) -> None:
    """A phone that nobody texted has none; a text that is no phone is refused, and so is none."""
    assert call("GET", "/_sandbox/messages", phone="+14155550199").json()["messages"] == []
    assert call("GET", "/_sandbox/messages", phone="Ada").status_code == 400
    assert call("GET", "/_sandbox/messages").status_code == 400


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


def test_log_shows_no_credentials(address: ServiceAddress, call: Call) -> None:
    """The api_key is not in the log, wherever a client has put it."""
    call("POST", "/api/send", {"phone": [PHONE], "text": address.api_key})
    call("GET", f"/api/stats/{address.api_key}", tag=f"x{address.api_key}")
    shown = call("GET", "/_sandbox/requests")
    assert len(shown.json()["requests"]) == 2
    assert address.api_key not in shown.text


def test_requests_can_be_filtered(call: Call, service: MessagingService) -> None:
    """Method, path and status choose requests; a slash at the end of a path does not matter."""
    call("POST", "/api/send", SURVEY)
    call("POST", "/api/send/", {})
    assert len(service.requests(path="/api/send")) == 2
    assert len(service.requests(method="post", status=400)) == 1
    assert service.requests(status=500) == []
    assert call("GET", "/_sandbox/requests", methode="POST").status_code == 400


def test_expected_requests_are_given_or_the_others_named(call: Call, service: MessagingService) -> None:
    """A test gets the requests that it expects; else its failure names those that came."""
    call("POST", "/api/send", SURVEY)
    (sent,) = service.expect_requests(1, method="POST", path="/api/send", status=200)
    assert sent["body"]["tag"] == "taste"
    with pytest.raises(
        AssertionError, match=r"2 such requests were expected, and 1 came.*\n  POST /api/send: 200"
    ):
        service.expect_requests(2, path="/api/send")


def test_request_without_an_answer_has_no_status(call: Call, service: MessagingService) -> None:
    """A request whose connection a fault has closed is logged, with null for its status."""
    service.set_faults({"drop": 1})
    with pytest.raises(requests.ConnectionError):
        call("POST", "/api/send", SURVEY)
    assert [each["status"] for each in service.requests(path="/api/send")] == [None]


@pytest.mark.parametrize(
    "body", [b"{bad", b'{"text": NaN}', b'{"text": "\\ud800"}', b"[1e999]", b"\xff" * 20_000]
)
def test_bodies_that_cannot_be_shown_are_left_out(
    address: ServiceAddress, service: MessagingService, body: bytes
) -> None:
    """A body that is no JSON, or a long one, is null in the log."""
    query = {"username": address.username, "api_key": address.api_key}
    requests.post(f"{address.url}/api/send", params=query, data=body, timeout=60)
    assert [(each["body"], each["status"]) for each in service.requests()] == [(None, 400)]


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


@pytest.mark.parametrize(
    ("path", "place"), [("/api/send", "line 2, column 3"), ("/_sandbox/reply", "byte 12")]
)
def test_bad_json_is_shown_its_place(address: ServiceAddress, path: str, place: str) -> None:
    """A body that is no JSON is refused with the place where it goes wrong."""
    query = {"username": address.username, "api_key": address.api_key}
    answer = requests.post(address.url + path, params=query, data='{"phone":\n  bad', timeout=60)
    assert answer.status_code == 400
    assert place in answer.text


def answer_with_webhook(service: MessagingService, call: Call, webhook: str) -> None:
    call("POST", "/api/send", {"phone": [PHONE], "questions": [{"text": "Why?", "webhook": webhook}]})
    service.reply(PHONE, "calm")


def wait_for_tries(service: MessagingService, state: str, count: int) -> dict[str, Any]:
    while True:
        (webhook,) = service.webhooks()
        if webhook["tries"] >= count and webhook["state"] == state and webhook["last_problem"]:
            return webhook


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@contextmanager
def answering(receiver: PatientServer) -> Iterator[None]:
    """Let a receiver listen, and take whatever comes, be it a try that was due anyway."""
    receiver.server_activate()
    thread = threading.Thread(target=receiver.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        receiver.shutdown()
        thread.join()


@pytest.mark.usefixtures("patient_webhooks")
def test_failing_webhook_is_shown_and_sent_again(call: Call, service: MessagingService) -> None:
    """A webhook that fails shows its tries and its problem, and can be sent again at once."""
    with PatientServer(("127.0.0.1", 0), _Handler, bind_and_activate=False) as receiver:
        # The port is taken, and nobody listens yet.
        receiver.server_bind()
        port = receiver.server_port
        answer_with_webhook(service, call, f"http://127.0.0.1:{port}/hook?token=hidden")
        webhook = wait_for_tries(service, "WAITING", 1)
        assert webhook["last_problem"] == "the connection failed (ConnectionRefusedError)"
        assert webhook["receiver"] == f"127.0.0.1:{port}"
        assert webhook["next_try"]
        assert "hidden" not in json.dumps(webhook)
        with answering(receiver):
            assert service.resend_webhooks(webhook["id"]) == 1
            while not service.webhooks("DELIVERED"):
                pass
    assert service.webhooks("WAITING") == []


@pytest.mark.parametrize(
    "body", [{}, {"id": "3"}, {"id": True}, {"id": 2**63}, {"state": "WAITING"}, {"id": 1, "state": "FAILED"}]
)
def test_resending_says_what_it_takes(call: Call, body: dict[str, object]) -> None:
    """A resend names one webhook by its id, or all failed ones; anything else is refused."""
    assert call("POST", "/_sandbox/webhooks/resend", body).status_code == 400


def test_webhook_states_are_those_that_exist(call: Call) -> None:
    """An unknown state of webhooks is refused."""
    assert call("GET", "/_sandbox/webhooks", state="LOST").status_code == 400
