"""The service itself, over its own socket: it does what the reference says, and what its switches say."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from tests.reference_service.control import ReferenceProcess
from tests.reference_service.service import API_KEY, USERNAME, ReferenceService
from tests.reference_service.store import NoSessionError

if TYPE_CHECKING:
    from collections.abc import Callable

    Start = Callable[..., ReferenceService]

ADA, BOB = "+14155550101", "+14155550102"
ACCESS = {"username": USERNAME, "api_key": API_KEY}
SURVEY = {
    "phone": [ADA, BOB],
    "tag": "pulse",
    "introduction": "Hi!",
    "questions": [
        {"text": "Red or green?", "tag": "colour", "responses": ["Red", "Green"], "conclude_on": "green"},
        {"text": "Why?", "tag": "why"},
    ],
    "conclusion": "Thanks!",
}
SERVICE = {
    "__main__",
    "control",
    "listing",
    "sending",
    "service",
    "store",
    "switches",
    "transport",
    "wire",
}
"""The modules that are the service; the others here are its tests."""
RESULT_FIELDS = {
    "created",
    "guid",
    "participant_guid",
    "participant_phone_number",
    "project_launch_guid",
    "project_launch_participant_guid",
    "project_tag",
    "question_display_order",
    "question_guid",
    "question_tag",
    "question_text",
    "result_answer",
    "result_guid",
    "result_response",
    "result_timestamp",
    "updated",
}
"""Every field of the reference's 2.1."""


def send(service: ReferenceService, body: object = SURVEY, **headers: str) -> requests.Response:
    return requests.post(f"{service.url}/api/send", json=body, params=ACCESS, headers=headers, timeout=100)


def get(service: ReferenceService, path: str, **query: Any) -> Any:
    answer = requests.get(f"{service.url}{path}", params=ACCESS | query, timeout=100)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_survey_from_send_to_results(start_service: Start) -> None:
    """A launch is counted by the reference's words: an answer that is not valid costs a render, a match concludes."""
    service = start_service()
    guid = send(service).json()["project_launch_guid"]
    assert service.answer(ADA, "blue") is None
    service.answer(ADA, " RED ")
    service.answer(ADA, "It's warm")
    service.answer(BOB, "2")
    stat = get(service, f"/api/stats/{guid}/")
    counts = {name: value for name, value in stat.items() if name.startswith("num_")}
    assert counts == {
        "num_active_sessions": 0,
        "num_complete_sessions": 2,
        "num_messages": 4,
        "num_questions": 3,
        "num_queued_sessions": 0,
        "num_renders": 8,
        "num_results": 3,
    }
    assert stat["project_definition"] == {name: value for name, value in SURVEY.items() if name != "phone"}
    assert [session["to"] for session in stat["sessions"]] == [ADA, BOB]
    assert {session["status"] for session in stat["sessions"]} == {"COMPLETE"}
    results = get(service, "/api/results", project_launch_guid=guid.upper())["objects"]
    assert all(set(result) >= RESULT_FIELDS for result in results)
    answers = [(r["question_tag"], r["result_answer"], r["result_response"]) for r in results]
    assert answers == [("colour", "1", "Red"), ("why", "It's warm", "It's warm"), ("colour", "2", "Green")]
    assert get(service, f"/api/results/{results[0]['result_guid']}/") == results[0]


def test_a_new_session_queues_behind_the_active_one(start_service: Start) -> None:
    """A participant's next session waits, and begins when the one before it has ended."""
    service = start_service()
    send(service)
    later = send(service, {"phone": [ADA], "text": "By the way"}).json()["project_launch_guid"]
    assert get(service, f"/api/stats/{later}/")["num_queued_sessions"] == 1
    service.answer(ADA, "green")
    stat = get(service, f"/api/stats/{later}/")
    assert (stat["num_queued_sessions"], stat["num_complete_sessions"], stat["num_renders"]) == (0, 1, 1)


def test_existing_sessions_are_completed_when_asked_for(start_service: Start) -> None:
    """With `complete_existing_sessions` nothing queues."""
    service = start_service()
    first = send(service).json()["project_launch_guid"]
    send(service, {"phone": [ADA], "text": "Stop", "complete_existing_sessions": True})
    stat = get(service, f"/api/stats/{first}/")
    assert (stat["num_active_sessions"], stat["num_complete_sessions"]) == (1, 1)
    with pytest.raises(NoSessionError):
        service.answer(ADA, "1")


def test_lists_are_paged_by_limit_and_offset(start_service: Start) -> None:
    """A page has 20 records unless `limit` says otherwise, and the pages together are the list."""
    service = start_service()
    for _ in range(23):
        service.accept({"phone": ADA, "text": "Hello"})
    first = get(service, "/api/stats/")
    assert (first["meta"]["limit"], len(first["objects"])) == (20, 20)
    rest = get(service, "/api/stats/", offset=20, limit=50)["objects"]
    guids = [stat["project_launch_guid"] for stat in first["objects"] + rest]
    assert guids == [sent.guid for sent in service.accepted]


@pytest.mark.parametrize(
    ("access", "status"), [({}, 401), ({"username": USERNAME}, 401), (ACCESS | {"api_key": "x"}, 403)]
)
def test_every_request_needs_credentials(start_service: Start, access: dict[str, str], status: int) -> None:
    """Without credentials, or with wrong ones, nothing is answered and nothing accepted."""
    service = start_service()
    body = {"phone": ADA, "text": "Hello"}
    sent = requests.post(f"{service.url}/api/send", json=body, params=access, timeout=100)
    listed = requests.get(f"{service.url}/api/stats/", params=access, timeout=100)
    assert (sent.status_code, listed.status_code, service.accepted) == (status, status, [])


def test_a_faulty_send_is_counted(start_service: Start) -> None:
    """Faults meet sends in the order in which they were planned, and what they accept is accepted."""
    service = start_service()
    service.plan_faults(["accept-503", "refuse-503", "accept-close", "", "accept-same-guid"])
    answer = send(service)
    assert (answer.status_code, answer.headers["Retry-After"], len(service.accepted)) == (503, "0", 1)
    assert (send(service).status_code, len(service.accepted)) == (503, 1)
    with pytest.raises(requests.ConnectionError):
        send(service)
    guid = send(service).json()["project_launch_guid"]
    assert send(service).json()["project_launch_guid"] == guid
    assert [sent.guid for sent in service.accepted].index(guid) == 2
    assert len(service.accepted) == 4
    assert service.faults == dict.fromkeys(
        ("accept-503", "refuse-503", "accept-close", "accept-same-guid"), 1
    )


def test_a_service_that_is_shut_refuses_connections(start_service: Start) -> None:
    """While it is shut nobody gets through; then it is there again, at the same address."""
    service = start_service()
    service.shut()
    with pytest.raises(requests.ConnectionError):
        send(service)
    service.open()
    assert send(service).status_code == 200


def test_a_process_takes_orders() -> None:
    """As a process the service is told to answer, to change, to fail, and what it accepted, over a pipe."""
    with ReferenceProcess("guids=upper") as process:
        url = f"{process.url}/api/send"
        process.tell("plan_faults", names=["", "refuse-500"])
        answers = [requests.post(url, json=SURVEY, params=ACCESS, timeout=100) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 500]
        (sent,) = process.tell("accepted")
        assert answers[0].json() == {"project_launch_guid": sent["guid"].upper()}
        assert (sent["phones"], sent["definition"]["tag"]) == ([ADA, BOB], "pulse")
        assert process.tell("faults") == {"refuse-500": 1}
        assert process.tell("answer", phone=ADA, text="blue") is None
        assert process.tell("answer", phone=ADA, text="red")
        process.tell("switch", values=["lists=late", "delay_s=3600"])
        listed = requests.get(f"{process.url}/api/stats/", params=ACCESS, timeout=100).json()
        assert listed["objects"] == []
        process.tell("switch", values=["delay_s=0.05"])
        process.tell("accept", body={"phone": BOB, "text": "Hello"})
        process.tell("come_to_rest")
        listed = requests.get(f"{process.url}/api/stats/", params=ACCESS, timeout=100).json()
        assert len(listed["objects"]) == 2
        process.tell("plan_faults", names=["refuse-500"])
        process.tell("calm")
        process.tell("shut")
        with pytest.raises(requests.ConnectionError):
            requests.post(url, json=SURVEY, params=ACCESS, timeout=100)
        process.tell("open")
        assert requests.post(url, json=SURVEY, params=ACCESS, timeout=100).status_code == 200
        assert process.tell("strays") == 0
        with pytest.raises(ValueError, match=r"^has no active session: \+1999$"):
            process.tell("answer", phone="+1999", text="x")


def test_it_knows_nothing_of_the_program() -> None:
    """A second opinion is one only as long as it shares nothing with the client, or with the sandbox."""
    files = [file for file in Path(__file__).parent.glob("*.py") if file.stem in SERVICE]
    assert len(files) == len(SERVICE)
    for file in files:
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
        ours = {f"tests.reference_service.{stem}" for stem in SERVICE}
        strangers = {name for name in names - ours if name.partition(".")[0] not in sys.stdlib_module_names}
        assert strangers == set(), file.name
