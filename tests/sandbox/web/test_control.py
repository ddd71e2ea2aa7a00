"""The routes below `/_sandbox/`: state, waiting, replies, the clock, faults, snapshots, health."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import requests

from runner.sandbox import commits
from runner.sandbox.rehearsal import snapshot
from runner.sandbox.web.server import running_service

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.service import Service

    Call = Callable[..., requests.Response]

PHONE = "+14155550101"
BODY = {"phone": [PHONE], "questions": [{"text": "Colour?", "responses": ["Red", "Blue"]}]}


def test_reply_is_what_a_phone_sends(call: Call) -> None:
    """A reply is taken as a text of that participant, and says what became of it."""
    call("POST", "/api/send", BODY)
    replies = [
        call("POST", "/_sandbox/reply", {"phone": "1 (415) 555-0101", "text": text}).json()
        for text in ("green", "red", "red")
    ]
    assert [reply["asked"] for reply in replies] == ["Colour?", None, None]
    assert [reply["was_expected"] for reply in replies] == [True, True, False]
    assert [reply["sessions_completed"] for reply in replies] == [0, 1, 0]
    result = call("GET", "/api/results").json()["objects"][0]
    assert result["result_guid"] == replies[1]["result_guid"]
    assert call("POST", "/_sandbox/reply", {"phone": PHONE, "text": "STOP"}).json()["keyword"] == "STOP"


def test_state_counts_what_there_is(call: Call) -> None:
    """The state shows the counts of the service."""
    call("POST", "/api/send", BODY)
    state = call("GET", "/_sandbox/state").json()
    counts = {key: state[key] for key in ("launches", "results", "sessions_active", "renders")}
    assert counts == {"launches": 1, "results": 0, "sessions_active": 1, "renders": 1}
    assert next(iter(state.items())) == ("format_version", "1.0")


def test_wait_ends_when_it_has_come(call: Call) -> None:
    """Who waits for results is answered once they are there."""
    call("POST", "/api/send", BODY)
    replying = threading.Timer(0.1, call, ("POST", "/_sandbox/reply", {"phone": PHONE, "text": "1"}))
    replying.start()
    state = call("GET", "/_sandbox/wait", results=1, launches=1, sessions_complete=1, timeout=60)
    replying.join()
    assert (state.status_code, state.json()["results"]) == (200, 1)


def test_wait_says_what_is_lacking(call: Call) -> None:
    """Who waits in vain is told how far it came, with 408."""
    call("POST", "/api/send", BODY)
    answer = call("GET", "/_sandbox/wait", launches=1, results=2, timeout="50ms")
    assert (answer.status_code, answer.json()["error"]["problems"]) == (
        408,
        ["launches: 1 of 1", "results: 0 of 2"],
    )


def test_clock_moves_what_is_recorded(call: Call) -> None:
    """After a move of the clock launches start then."""
    before = call("GET", "/_sandbox/state").json()["time"]
    moved = call("POST", "/_sandbox/clock", {"advance": "+400d"}).json()
    call("POST", "/api/send", BODY)
    started = call("GET", "/api/stats/").json()["objects"][0]["project_launch_start"]
    assert moved["clock_offset_s"] == 400 * 86_400
    assert started[:4] > before[:4]


def test_clock_goes_back_where_nothing_has_happened(call: Call) -> None:
    """`reset` brings the machine's time back, unless there are records of later: then it says what does."""
    call("POST", "/_sandbox/clock", {"advance": "2d"})
    assert call("POST", "/_sandbox/clock", {"reset": True}).json()["clock_offset_s"] == 0
    call("POST", "/_sandbox/clock", {"advance": "2d"})
    call("POST", "/api/send", BODY)
    refused = call("POST", "/_sandbox/clock", {"reset": True})
    assert (refused.status_code, "`runner sandbox reset`" in refused.text) == (400, True)
    assert call("GET", "/_sandbox/state").json()["clock_offset_s"] == 2 * 86_400


def test_faults_begin_and_end(call: Call) -> None:
    """Faults that are set happen, are counted, and end when others are set."""
    call("POST", "/_sandbox/faults", {"rates": {"500-before": 1}, "latency": "1ms"})
    assert call("POST", "/api/send", BODY).status_code == 500
    state = call("POST", "/_sandbox/faults", {}).json()
    assert state["faults"] == {"rates": {}, "latency_s": 0.0, "injected": {"500-before": 1}}
    assert call("POST", "/api/send", BODY).status_code == 200


def test_snapshot_goes_by_its_name(db: Path, call: Call) -> None:
    """A snapshot is taken and gone back to by its name, and lies beside the database."""
    call("POST", "/api/send", BODY)
    assert call("POST", "/_sandbox/snapshot", {"name": "one"}).json()["name"] == "one"
    assert call("POST", "/_sandbox/reset").json()["launches"] == 0
    assert call("POST", "/_sandbox/reset", {"to": "one"}).json()["launches"] == 1
    assert [path.name for path in (db.parent / "snapshots").iterdir()] == ["one.sqlite"]


@pytest.mark.parametrize(
    ("method", "name", "body", "status"),
    [
        ("GET", "wait", None, 400),
        ("GET", "wait?results=many", None, 400),
        ("GET", "wait?results=1&timeout=1h", None, 400),
        ("GET", "wait?result=1", None, 400),
        ("POST", "reply", None, 400),
        ("POST", "reply", {"phone": "12", "text": "a"}, 400),
        ("POST", "reply", {"phone": PHONE, "text": ""}, 400),
        ("POST", "reply", {"phone": PHONE, "text": "\ud800"}, 400),
        ("POST", "reply", {"phone": PHONE, "text": "a", "txt": "b"}, 400),
        ("POST", "reply", [], 400),
        ("POST", "reply", {"phone": PHONE, "text": "a" * 70_000}, 413),
        ("POST", "clock", {"advance": "-1d"}, 400),
        ("POST", "clock", {"advance": "100w", "reset": True}, 400),
        ("POST", "clock", {"advance": "900w"}, 400),
        ("POST", "faults", {"rates": {"drop": 10**400}}, 400),
        ("POST", "faults", {"rates": {"drop": -1}}, 400),
        ("POST", "faults", {"latency": "100w"}, 400),
        ("POST", "simulate", {"seed": True}, 400),
        ("POST", "simulate", {"response_rate": 2}, 400),
        ("POST", "simulate", {"typo_rate": "1"}, 400),
        ("POST", "simulate", {"personas": {"silent": 1}}, 400),
        ("POST", "reset", {"all": True, "to": "one"}, 400),
        ("POST", "faults", {"rates": {"lightning": 1}}, 400),
        ("POST", "faults", {"rates": {"drop": True}}, 400),
        ("POST", "faults", {"rates": []}, 400),
        ("POST", "faults", {"latency": "long"}, 400),
        ("POST", "snapshot", {"name": "../escape"}, 400),
        ("POST", "snapshot", {}, 400),
        ("POST", "reset", {"to": "never-taken"}, 404),
        ("GET", "nothing", None, 404),
        ("GET", "reset", None, 405),
    ],
)
def test_mistakes_are_explained(call: Call, method: str, name: str, body: Any, status: int) -> None:
    """What cannot be done is refused with a sentence, and repeats no phone and no text."""
    answer = call(method, f"/_sandbox/{name}", body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]
    assert PHONE not in answer.text


@pytest.mark.parametrize(
    ("advance", "message"),
    [
        ("-1d", "The clock moves forward only"),
        ("long", "The clock cannot be moved to 'long'"),
        ("99999d", "The clock cannot be moved to '99999d'"),
        ("4000d", "The clock is 0s ahead of this machine's; ten years are the most"),
    ],
)
def test_impossible_moves_say_why(call: Call, advance: str, message: str) -> None:
    """A clock that cannot be moved so far, or in that direction, says which of it is the matter."""
    answer = call("POST", "/_sandbox/clock", {"advance": advance})
    assert (answer.status_code, answer.json()["error"]["message"][: len(message)]) == (400, message)


def test_reset_of_all_leaves_nothing(db: Path, call: Call) -> None:
    """`all` takes the snapshots and the faults away too, and what was counted of them."""
    call("POST", "/_sandbox/faults", {"rates": {"500-before": 1}, "latency": "1ms"})
    call("POST", "/api/send", BODY)
    call("POST", "/_sandbox/snapshot", {"name": "one"})
    state = call("POST", "/_sandbox/reset", {"all": True}).json()
    assert state["faults"] == {"rates": {}, "latency_s": 0.0, "injected": {}}
    assert list((db.parent / "snapshots").iterdir()) == []


def test_reset_of_a_locked_database_is_refused(
    domain: Service, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process holds the database a reset is answered with 503."""
    monkeypatch.setattr(snapshot, "_TRIES", 2)
    with domain.store.write():
        assert call("POST", "/_sandbox/reset").status_code == 503


@pytest.mark.parametrize("name", ["state", "wait?results=0"])
def test_control_asks_for_credentials(address: ServiceAddress, name: str) -> None:
    """Nobody controls a service without its credentials."""
    assert requests.get(f"{address.url}/_sandbox/{name}", timeout=60).status_code == 401


def test_service_without_its_file_is_not_ready(db: Path) -> None:
    """A database that was deleted can be written, in vain: the service lives and is not ready."""
    with running_service(db) as address:
        db.unlink()
        assert requests.get(f"{address.url}/livez", timeout=60).ok
        answer = requests.get(f"{address.url}/readyz", timeout=60)
    assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})


@pytest.mark.parametrize(("path", "status"), [("/livez", "live"), ("/readyz", "ready")])
def test_health_is_open_to_all(address: ServiceAddress, path: str, status: str) -> None:
    """Whether the service lives and is ready is told without credentials."""
    answer = requests.get(address.url + path, timeout=60)
    assert (answer.status_code, answer.json()) == (200, {"status": status})


def test_simulations_take_turns_and_sends_go_between(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of simulations that are asked for together one runs after the other, and sends are accepted meanwhile."""
    # On a busy machine one of them may hold the database for longer than a send usually waits.
    monkeypatch.setattr(commits, "PATIENCE_S", 60)
    call("POST", "/api/send", {**BODY, "phone": [f"+1415555{number:04}" for number in range(600)]})
    with ThreadPoolExecutor(3) as pool:
        body = {"seed": 7, "response_rate": 1}
        running = [pool.submit(call, "POST", "/_sandbox/simulate", body) for _ in range(3)]
        sends: list[int] = []
        while not sends or not all(each.done() for each in running):
            sends.append(call("POST", "/api/send", {"phone": ["+13125550199"], "text": "Hello"}).status_code)
    counts = sorted(each.result().json()["answered"] for each in running)
    assert counts[:2] == [0, 0]
    assert counts[2] > 300
    assert {200} == set(sends)


@pytest.mark.parametrize(
    ("route", "body", "problem"),
    [
        ("clock", {"advance": 5}, "advance: must be text, not a whole number"),
        ("clock", [], "the body: must be an object, not a list"),
        ("reply", {"phone": "+14155550101"}, "text: is missing"),
        ("simulate", {"seed": -1}, "seed: must be a whole number, at least 0"),
        ("faults", {"rates": {"drop": 2}}, "rates[...]: must be a number, at most 1.0"),
        ("reset", {"then": "before"}, "then: is not known"),
    ],
)
def test_what_is_wrong_with_a_body_is_said_without_types_of_python(
    call: Call, route: str, body: Any, problem: str
) -> None:
    refused = call("POST", f"/_sandbox/{route}", body)
    assert (refused.status_code, refused.json()["error"]["problems"]) == (400, [problem])
