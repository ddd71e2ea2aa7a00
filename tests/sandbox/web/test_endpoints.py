"""The five endpoints of the reference, through `requests` on a real socket."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests

from runner.sandbox.web.server import running_service

if TYPE_CHECKING:
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress

Call = Callable[..., requests.Response]
Reply = Callable[[str, str], None]

ADA, BOB = "+14155550101", "+14155550102"
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")
GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
SURVEY: dict[str, Any] = {
    "tag": "pulse",
    "introduction": "Hi",
    "questions": [
        {"tag": "colour", "text": "Which colour?", "responses": ["Red", "Blue"]},
        {"tag": "why", "text": "Why?"},
    ],
    "conclusion": "Thanks",
}


def launch(call: Call, body: dict[str, Any], *phones: str) -> str:
    """Send, and give the project_launch_guid."""
    response = call("POST", "/api/send", {**body, "phone": list(phones)})
    assert response.status_code == 200
    return str(response.json()["project_launch_guid"])


def test_send_answers_with_guid_and_addresses_without_credentials(
    call: Call, address: ServiceAddress
) -> None:
    """A send answers with the launch's guid and where to look, and repeats no credential."""
    response = call("POST", "/api/send", {"phone": [ADA], "text": "Hello"})
    guid = response.json()["project_launch_guid"]
    assert GUID.fullmatch(guid)
    assert response.json() == {
        "project_launch_guid": guid,
        "stats_url": f"{address.url}/api/stats/{guid}/",
        "results_url": f"{address.url}/api/results?project_launch_guid={guid}",
    }


@pytest.mark.parametrize("ending", ["", "/"])
def test_every_path_answers_with_and_without_slash(call: Call, reply: Reply, ending: str) -> None:
    """Each of the five endpoints answers alike with and without a slash at its end."""
    sent = call("POST", f"/api/send{ending}", {**SURVEY, "phone": [ADA]}).json()["project_launch_guid"]
    reply(ADA, "Red")
    (result,) = call("GET", f"/api/results{ending}").json()["objects"]
    assert call("GET", f"/api/results/{result['result_guid']}{ending}").json() == result
    (stat,) = call("GET", f"/api/stats{ending}").json()["objects"]
    assert stat["project_launch_guid"] == sent
    assert call("GET", f"/api/stats/{sent}{ending}").json() == stat


def test_result_record_has_every_field(call: Call, reply: Reply) -> None:
    """A result record has the documented fields and origin_phone_number, with its launch's values."""
    guid = launch(call, SURVEY, ADA)
    reply(ADA, " bLUE ")
    reply(ADA, "It is calm ☕")
    chosen, written = call("GET", "/api/results").json()["objects"]
    guids = {name: chosen.pop(name) for name in list(chosen) if name.endswith("guid")}
    times = [chosen.pop(name) for name in ("created", "result_timestamp", "updated")]
    assert chosen == {
        "participant_phone_number": ADA,
        "project_tag": "pulse",
        "question_display_order": "0",
        "question_tag": "colour",
        "question_text": "Which colour?",
        "result_answer": "2",
        "result_response": "Blue",
        "origin_phone_number": "+15550100000",
    }
    assert all(GUID.fullmatch(value) for value in guids.values())
    assert guids["guid"] == guids["result_guid"]
    assert guids["project_launch_guid"] == guid
    assert all(TIMESTAMP.fullmatch(time) for time in times)
    assert times[0] == times[1] < times[2]
    assert (written["result_answer"], written["result_response"]) == ("It is calm ☕", "It is calm ☕")
    assert written["question_display_order"] == "1"
    assert written["participant_guid"] == guids["participant_guid"]
    assert written["project_launch_participant_guid"] == guids["project_launch_participant_guid"]


def test_stat_record_has_every_field(call: Call, reply: Reply) -> None:
    """A stat record has the documented fields, and the definition as it was sent, less its phones, with a text."""
    definition = {**SURVEY, "method": "VOICE", "x_unknown": {"kept": [1, None]}}
    guid = launch(call, definition, ADA, BOB)
    for text in ("neither", "1", "because"):
        reply(ADA, text)
    stat = call("GET", f"/api/stats/{guid}/").json()
    start = stat.pop("project_launch_start")
    session = {"created": start, "from": "+15550100000", "method": "VOICE", "sub_status": None}
    assert TIMESTAMP.fullmatch(start)
    assert stat == {
        "num_active_sessions": 1,
        "num_complete_sessions": 1,
        "num_messages": 3,
        "num_questions": 3,
        "num_queued_sessions": 0,
        "num_renders": 7,
        "num_results": 2,
        "project_definition": {**definition, "text": ""},
        "project_launch_guid": guid,
        "project_tag": "pulse",
        "sessions": [
            {**session, "to": ADA, "status": "COMPLETE"},
            {**session, "to": BOB, "status": "ACTIVE"},
        ],
    }


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"text": "Hello"}, "Hello"),
        ({"text": "Hello", "questions": []}, "Hello"),
        ({"text": "Hello", "questions": None}, "Hello"),
        ({"questions": [{"text": "Why?"}]}, ""),
        ({"questions": [{"text": "Why?"}], "text": None}, ""),
        ({"questions": [{"text": "Why?"}], "text": ""}, ""),
    ],
)
def test_definition_has_the_string_text(call: Call, body: dict[str, Any], text: str) -> None:
    """A definition is listed, and shown alone, with the string `text`, empty for a survey."""
    guid = launch(call, body, ADA)
    (listed,) = call("GET", "/api/stats/").json()["objects"]
    assert listed == call("GET", f"/api/stats/{guid}/").json()
    assert listed["project_definition"] == {**body, "text": text}
    (row,) = csv.DictReader(io.StringIO(call("GET", "/api/stats/", format="csv").text))
    assert json.loads(row["project_definition"]) == {**body, "text": text}


def test_stats_list_adds_plan_and_totals(db: Path) -> None:
    """The stats list's meta shows the plan's usage and the counts over all launches, filtered or not."""
    with running_service(db, plan_renders=40) as address:
        query = {"username": address.username, "api_key": address.api_key}
        for body in ({**SURVEY, "phone": [ADA, BOB]}, {"text": "Hello", "phone": [ADA, "+14155550103"]}):
            requests.post(f"{address.url}/api/send", params=query, json=body, timeout=60)
        answer = requests.get(
            f"{address.url}/api/stats/", params={**query, "project_tag": "none"}, timeout=60
        )
    assert answer.json() == {
        "meta": {
            "limit": 20,
            "offset": 0,
            "total_count": 0,
            "next": "",
            "previous": None,
            "plan": {"name": "sandbox", "price_usd": "0.00", "renders": {"max": 40, "used": 5}},
            "totals": {
                "active_sessions": 2,
                "complete_sessions": 1,
                "launches": 2,
                "messages": 3,
                "question_result_rate": 0.0,
                "questions": 2,
                "queued_sessions": 1,
                "renders": 5,
                "results": 0,
            },
        },
        "objects": [],
    }


def test_question_result_rate_has_two_places(call: Call, reply: Reply) -> None:
    """The question_result_rate is results over questions, rounded to two places."""
    launch(call, SURVEY, ADA, BOB, "+14155550103")
    for phone in (ADA, BOB):
        reply(phone, "red")
    assert call("GET", "/api/stats/").json()["meta"]["totals"]["question_result_rate"] == 0.4


def test_wrong_credentials_are_refused(call: Call) -> None:
    """Every endpoint refuses missing and wrong credentials with a 401 that repeats none of them."""
    message = "The username or the api_key is missing or wrong."
    refusal = {"error": {"code": "invalid_credentials", "message": message, "problems": []}}
    keys: list[dict[str, str | None]] = [{"api_key": key} for key in ("wrong", "", None, "clé")]
    wrongs: list[dict[str, str | None]] = [{"username": "wrong"}, *keys]
    for wrong in wrongs:
        for path in ("/api/send", "/api/results", "/api/results/x/", "/api/stats/", "/api/stats/x/"):
            response = call("POST" if path == "/api/send" else "GET", path, **wrong)
            assert (response.status_code, response.json()) == (401, refusal), (path, wrong)


def test_unknown_record_is_not_found(call: Call) -> None:
    """An unknown guid or path answers 404 with an error document."""
    for path, message in (
        ("/api/results/0/", "There is no result with this guid."),
        ("/api/stats/0/", "There is no project launch with this guid."),
        ("/api/nothing", "Not Found."),
    ):
        response = call("GET", path)
        assert response.status_code == 404
        assert response.json() == {"error": {"code": "not_found", "message": message, "problems": []}}


def test_wrong_method_is_refused(call: Call) -> None:
    """A method that a path does not take answers 405 with an error document that names those it takes."""
    response = call("GET", "/api/send")
    assert response.status_code == 405
    assert response.json()["error"]["code"] == "method_not_allowed"
    assert response.headers["Allow"] == "POST"


@pytest.mark.parametrize("path", ["/api/results", "/api/stats/"])
@pytest.mark.parametrize(
    ("name", "written"), [("limit", "0"), ("limit", "+5"), ("offset", "-1"), ("format", "xml")]
)
def test_a_wrong_query_parameter_is_named(call: Call, path: str, name: str, written: str) -> None:
    """A list refuses what it cannot read, and names the parameter."""
    response = call("GET", path, **{name: written})
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "invalid_parameter")
    assert error["problems"][0].endswith(f"at `$.{name}`")


@pytest.mark.parametrize("filters", [{}, {"project_tag": "pulse"}])
def test_pages_lead_through_all_records_and_back(
    call: Call, address: ServiceAddress, filters: dict[str, str]
) -> None:
    """Following `next` from page to page shows every record once, in order; `previous` leads back."""
    guids = [launch(call, SURVEY, ADA) for _ in range(7)]
    page = call("GET", "/api/stats/", limit=3, **filters).json()
    seen, links = [], []
    while True:
        assert page["meta"]["total_count"] == 7
        seen += [stat["project_launch_guid"] for stat in page["objects"]]
        if not page["meta"]["next"]:
            break
        links.append(page["meta"]["next"])
        page = requests.get(address.url + links[-1], timeout=60).json()
    assert seen == guids
    assert dict(parse_qsl(urlsplit(links[0]).query)) == {
        "username": address.username,
        "api_key": address.api_key,
        "limit": "3",
        "offset": "3",
        **filters,
    }
    before = requests.get(address.url + page["meta"]["previous"], timeout=60).json()
    assert [stat["project_launch_guid"] for stat in before["objects"]] == guids[3:6]


def test_results_are_filtered(call: Call, reply: Reply) -> None:
    """Results can be filtered by launch, participant, project tag and question tag, alone and together."""
    first = launch(call, SURVEY, ADA, BOB)
    second = launch(call, {**SURVEY, "tag": "other"}, ADA)
    for phone, text in ((ADA, "red"), (BOB, "blue"), (ADA, "why not"), (ADA, "2")):
        reply(phone, text)
    ada = call("GET", "/api/results").json()["objects"][0]["participant_guid"]

    def answers(**filters: str) -> list[str]:
        return [
            result["result_response"] for result in call("GET", "/api/results", **filters).json()["objects"]
        ]

    assert answers() == ["Red", "Blue", "why not", "Blue"]
    assert answers(project_launch_guid=first) == ["Red", "Blue", "why not"]
    assert answers(participant_guid=ada) == ["Red", "why not", "Blue"]
    assert answers(project_tag="other") == ["Blue"]
    assert answers(question_tag="colour") == ["Red", "Blue", "Blue"]
    assert answers(question_tag="colour", participant_guid=ada, project_launch_guid=second) == ["Blue"]
    assert answers(project_launch_guid="unknown") == []
    assert answers(project_tag="") == answers()


def test_guids_match_without_case(call: Call, reply: Reply) -> None:
    """A guid in upper case finds what it names: as a filter, in a path, and for a result alone."""
    guid = launch(call, SURVEY, ADA)
    reply(ADA, "red")
    (result,) = call("GET", "/api/results").json()["objects"]
    assert guid != guid.upper()
    for name in ("project_launch_guid", "participant_guid"):
        filters = {name: result[name].upper(), "project_tag": "pulse"}
        assert call("GET", "/api/results", **filters).json()["objects"] == [result]
    assert call("GET", f"/api/results/{result['result_guid'].upper()}/").json() == result
    assert call("GET", f"/api/stats/{guid.upper()}/").json()["project_launch_guid"] == guid
    assert call("GET", "/api/results", project_tag="PULSE").json()["objects"] == []


def test_invalid_send_names_every_problem_and_texts_nobody(call: Call) -> None:
    """A send with one wrong phone is refused as a whole, and the answer repeats no phone."""
    response = call("POST", "/api/send", {"phone": [ADA, "555-CALL", BOB, None], "text": ""})
    assert response.status_code == 400
    assert response.json()["error"] == {
        "code": "invalid_send",
        "message": "The send request is not valid; nobody was texted.",
        "problems": [
            "phone[1]: is no phone number of 7 to 15 digits",
            "phone[3]: must be a string",
            "text: must not be empty",
        ],
    }
    assert call("GET", "/api/stats/").json()["meta"]["total_count"] == 0


def test_oversized_body_is_refused(call: Call) -> None:
    """A body beyond 16 MiB is refused before it is read to its end."""
    response = call("POST", "/api/send", {"phone": [ADA], "text": "x" * (17 * 1024 * 1024)})
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "body_too_large"
