"""The routes below `/_sandbox/`: state, waiting, replies, the clock, faults, reset, health."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import requests

from runner.sandbox import commits
from runner.sandbox import store as store_module

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.service import Service

    Call = Callable[..., requests.Response]

PHONE = "+14155550101"
BODY = {"phone": [PHONE], "questions": [{"text": "Colour?", "responses": ["Red", "Blue"]}]}


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
    assert call("POST", "/_sandbox/clock", {"advance": "reset"}).json()["clock_offset_s"] == 0
    call("POST", "/_sandbox/clock", {"advance": "2d"})
    call("POST", "/api/send", BODY)
    refused = call("POST", "/_sandbox/clock", {"advance": "reset"})
    assert (refused.status_code, "`runner sandbox reset`" in refused.text) == (400, True)
    assert call("GET", "/_sandbox/state").json()["clock_offset_s"] == 2 * 86_400


MISTAKES: list[tuple[str, str, Any, int]] = [
    ("POST", "reply", None, 400),
    ("POST", "reply", {"phone": "12", "text": "a"}, 400),
    ("POST", "reply", {"phone": PHONE, "text": ""}, 400),
    ("POST", "reply", {"phone": PHONE, "text": "\ud800"}, 400),
    ("POST", "reply", {"phone": PHONE, "text": "a", "txt": "b"}, 400),
    ("POST", "reply", [], 400),
    ("POST", "reply", {"phone": PHONE, "text": "a" * 70_000}, 413),
    ("POST", "clock", {"advance": "-1d"}, 400),
    ("POST", "clock", {"reset": True}, 400),
    ("POST", "clock", {"advance": "900w"}, 400),
    ("POST", "faults", {"rates": {"drop": 10**400}}, 400),
    ("POST", "faults", {"rates": {"drop": -1}}, 400),
    ("POST", "faults", {"latency": "100w"}, 400),
    ("POST", "simulate", {"seed": True}, 400),
    ("POST", "simulate", {"response_rate": 2}, 400),
    ("POST", "simulate", {"personas": {"silent": 1}}, 400),
    ("POST", "reset", {"to": "one"}, 400),
    ("GET", "webhooks?state=LOST", None, 400),
    ("GET", "requests?methode=POST", None, 400),
    ("GET", "messages?phone=Ada", None, 400),
    ("POST", "faults", {"rates": {"lightning": 1}}, 400),
    ("POST", "faults", {"rates": {"drop": True}}, 400),
    ("POST", "faults", {"rates": []}, 400),
    ("POST", "faults", {"latency": "long"}, 400),
    ("GET", "nothing", None, 404),
    ("GET", "reset", None, 405),
]


def test_mistakes_are_explained(call: Call) -> None:
    """What cannot be done is refused with a sentence, and repeats no phone and no text."""
    for method, name, body, status in MISTAKES:
        answer = call(method, f"/_sandbox/{name}", body)
        assert answer.status_code == status, (name, body)
        assert answer.json()["error"]["message"]
        assert PHONE not in answer.text
    for advance, message in (
        ("-1d", "The clock moves forward only"),
        ("long", "The clock cannot be moved to 'long'"),
        ("9999999d", "The clock cannot be moved to '9999999d'"),
        ("4000d", "The clock cannot go to "),
    ):
        answer = call("POST", "/_sandbox/clock", {"advance": advance})
        assert (answer.status_code, answer.json()["error"]["message"][: len(message)]) == (400, message)


def test_reset_of_a_locked_database_is_refused(
    domain: Service, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process holds the database a reset is answered with 503."""
    monkeypatch.setattr(store_module, "_BUSY_SECONDS", 0.1)
    with domain.store.write():
        assert call("POST", "/_sandbox/reset").status_code == 503


def test_health_is_open_to_all(address: ServiceAddress) -> None:
    """Whether the service lives is told without credentials."""
    answer = requests.get(f"{address.url}/livez", timeout=60)
    assert (answer.status_code, answer.json()) == (200, {"status": "live"})


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
