"""The pytest plugin, as the tests of other people see it: in a run of pytest of its own."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytest_plugins = ["pytester"]

PLUGIN = "runner.sandbox.pytest_plugin"

IN_USE = """
import json
from datetime import timedelta
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

PHONE = "+14155550101"
seen = []


def send(service, **body):
    credentials = urlencode({"username": service.username, "api_key": service.api_key})
    data = json.dumps({"phone": [PHONE], **body}).encode()
    with urlopen(Request(f"{service.url}/api/send?{credentials}", data=data, method="POST")) as answer:
        return json.load(answer)["project_launch_guid"]


def test_whole_loop(messaging_service):
    guid = send(messaging_service, questions=[{"text": "Colour?", "tag": "colour", "responses": ["Red", "Blue"]}])
    assert messaging_service.reply(PHONE, "green")["asked"] == "Colour?"
    messaging_service.advance("2d")
    messaging_service.advance(timedelta(hours=1))
    assert messaging_service.state()["clock_offset_s"] == 2 * 86400 + 3600
    assert messaging_service.reply(PHONE, "blue")["result_guid"]
    assert messaging_service.wait(launches=1, results=1, sessions_complete=1)["results"] == 1
    assert [launch["project_launch_guid"] for launch in messaging_service.launches()] == [guid]
    assert [result["result_answer"] for result in messaging_service.results(question_tag="colour")] == ["2"]
    assert messaging_service.results(question_tag="other") == []


def test_next_test_finds_nothing_of_it(messaging_service):
    state = messaging_service.state()
    assert (state["launches"], state["clock_offset_s"]) == (0, 0)


def test_clock_goes_forward_only(messaging_service):
    for back in (timedelta(days=-1), "-1d"):
        with pytest.raises(Exception, match="[Tt]he clock moves forward only"):
            messaging_service.advance(back)


def test_faults_happen(messaging_service):
    messaging_service.set_faults({"drop": 1}, latency=timedelta(milliseconds=1))
    with pytest.raises(OSError):
        send(messaging_service, text="Hello")
    assert len(messaging_service.launches()) == 1


def test_faults_have_ended(messaging_service):
    send(messaging_service, text="Hello")
    messaging_service.reset()
    assert messaging_service.launches() == []


def test_nothing_else_is_left(messaging_service):
    assert messaging_service.state()["faults"] == {"rates": {}, "latency_s": 0.0, "injected": {}}


@pytest.mark.parametrize("run", [1, 2])
def test_faults_are_the_same_in_every_test(messaging_service, run):
    messaging_service.set_faults({"500-before": 0.5})
    answers = []
    for _ in range(12):
        try:
            send(messaging_service, text="Hello")
            answers.append(True)
        except OSError:
            answers.append(False)
    seen.append(answers)
    assert seen[0] == answers


def test_simulated_people_answer(messaging_service):
    send(messaging_service, questions=[{"text": "Why?"}])
    assert messaging_service.simulate(response_rate=0)["silent"] == 1
    assert messaging_service.simulate(seed=7, response_rate=1)["results"] == 1


def test_webhooks_are_seen(messaging_service):
    # Nobody listens on the port, whose secret is not shown.
    hook = "http://127.0.0.1:9/hook?token=hidden"
    send(messaging_service, questions=[{"text": "Why?", "webhook": hook}])
    messaging_service.reply(PHONE, "calm")
    (webhook,) = messaging_service.webhooks()
    assert (webhook["receiver"], "hidden" in str(webhook)) == ("127.0.0.1:9", False)
    assert messaging_service.webhooks("DELIVERED") == []


def test_all_pages_are_given(messaging_service):
    for number in range(130):
        send(messaging_service, phone=[f"+1415555{number:04}"], text="Hello")
    assert len({launch["project_launch_guid"] for launch in messaging_service.launches()}) == 130


def test_wait_in_vain_says_how_far_it_came(messaging_service):
    with pytest.raises(Exception, match="results: 0 of 1"):
        messaging_service.wait(results=1, timeout_s=0.01)


def test_credentials_stay_out_of_sight(messaging_service):
    assert messaging_service.api_key not in repr(messaging_service)
"""

NOT_IN_USE = """
import sys

def test_nothing_is_imported():
    assert not {"uvicorn", "starlette", "sqlite3", "runner.sandbox.web.server"} & set(sys.modules)
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run pytest as a process with this plugin only: loading all those of this project takes seconds."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run_pytest(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess("-q", "-p", PLUGIN, *arguments)

    return run_pytest


def test_pytest_finds_the_plugin_by_itself() -> None:
    """The installed package names the plugin where pytest looks for plugins."""
    assert PLUGIN in [each.value for each in entry_points(group="pytest11")]


@pytest.mark.slow
def test_plugin_serves_the_tests_of_others(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    """Tests of another project get a fresh service each, with its handle."""
    pytester.makepyfile(IN_USE)
    run("-W", "error").assert_outcomes(passed=13)


def test_plugin_costs_nothing_where_it_is_not_used(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    """Without the fixture neither the web server nor the database is imported."""
    pytester.makepyfile(NOT_IN_USE)
    run().assert_outcomes(passed=1)
