"""The sandbox's clock: it goes to what is due, and commands follow that of a served one as `sandbox` alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.handle import MessagingService
from tests.patient_server import PatientServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    Serve = Callable[..., Any]

CAMPAIGN = """\
version: 1
name: pulse
recipients:
  - phone: "+14155550101"
messages:
  - {{id: ask, text: "Hello"}}
schedule: {{timezone: UTC, not_before: "{not_before}"}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a campaign that may be sent from tomorrow on."""
    (tmp_path / "campaigns").mkdir()
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M}"
    (tmp_path / "campaigns/pulse.yaml").write_text(CAMPAIGN.format(not_before=tomorrow), encoding="utf-8")
    return tmp_path


def count_planned(run: Run, folder: Path, environment: dict[str, str]) -> tuple[int, int]:
    """Return how many recipients a plan sends to now, and how many later."""
    done = run("plan", "--format", "json", cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    (message,) = json.loads(done.stdout)["campaigns"][0]["messages"]
    return message["to_send"], message["deferred"]


def move_clock(environment: dict[str, str], length: str) -> None:
    MessagingService(
        environment["RUNNER_BASE_URL"], environment["RUNNER_USERNAME"], environment["RUNNER_API_KEY"]
    ).advance(length)


def test_served_sandbox_moves_the_clock_of_commands(folder: Path, run: Run, serve: Serve) -> None:
    """Once its clock is at the campaign's time, a served sandbox is planned for and sent to as of then."""
    with serve(folder, "--db", "service.sqlite") as served:
        environment = {**served, "RUNNER_TARGET": "sandbox"}
        assert count_planned(run, folder, environment) == (0, 1)
        move_clock(environment, "2d")
        assert count_planned(run, folder, environment) == (1, 0)
        done = run("apply", "--auto-approve", cwd=folder, env=environment)
        assert done.stdout == "pulse: 1 person texted.\n"


@pytest.mark.slow
def test_clock_goes_to_the_next_message(folder: Path, run: Run) -> None:
    """`clock next` goes to when a message of the campaigns comes due, says which, and what sends it."""
    asked = run("sandbox", "simulate", cwd=folder)
    assert asked.stderr.startswith(
        "Error: nothing was sent to this project's sandbox yet: nobody is being asked anything\n"
        "  `runner apply` sends what is due, and `runner sandbox clock next` goes to what waits (pulse/ask, 20"
    )
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    moved = run("sandbox", "clock", "next", cwd=folder)
    assert moved.stdout.splitlines()[1:] == [
        "Due from now on: pulse/ask, to up to 1 person. Next: `runner reconcile`, then `runner apply`."
    ]
    assert count_planned(run, folder, {}) == (1, 0)
    asked = run("sandbox", "simulate", cwd=folder)
    assert asked.stdout == "Nobody is being asked anything.\nNext: `runner apply` sends what is due.\n"
    nothing = run("sandbox", "clock", "next", cwd=folder)
    assert (nothing.returncode, nothing.stderr) == (
        1,
        "Error: nothing is due: no session waits for an answer\n",
    )
    (folder / "campaigns/pulse.yaml").write_text(CAMPAIGN.format(not_before="2060-01-01T00:00"), "utf-8")
    far = run("sandbox", "clock", "next", cwd=folder)
    assert far.returncode == 1
    assert far.stderr == (
        "Error: the clock cannot go to 2060-01-01: ten years ahead of this machine's time are the most\n"
    )


def test_no_other_target_moves_the_clock(folder: Path, run: Run, serve: Serve) -> None:
    """A service under any other name moves no clock: commands go by this machine's."""
    with serve(folder, "--db", "service.sqlite") as served:
        move_clock(served, "2d")
        assert count_planned(run, folder, {**served, "RUNNER_TARGET": "staging"}) == (0, 1)
        assert count_planned(run, folder, served) == (0, 1)


@pytest.mark.parametrize(
    "body",
    [
        "no JSON",
        "[]",
        '{"clock_offset_s": null}',
        '{"clock_offset_s": NaN}',
        '{"clock_offset_s": 1e999}',
        '{"clock_offset_s": -172800}',
        '{"clock_offset_s": 900000000}',
    ],
)
def test_what_is_no_clock_moves_nothing(folder: Path, run: Run, body: str) -> None:
    """A service that says nothing sensible of its time, or a time long past all rehearsals, is not followed."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_state = self.path.startswith("/_sandbox/state?")
            answer = body if is_state else '{"objects": [], "meta": {"total_count": 0, "next": null}}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with PatientServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        environment = {
            "RUNNER_TARGET": "sandbox",
            "RUNNER_BASE_URL": f"http://127.0.0.1:{server.server_port}",
            "RUNNER_USERNAME": "ada",
            "RUNNER_API_KEY": "key",
        }
        try:
            assert count_planned(run, folder, environment) == (0, 1)
        finally:
            server.shutdown()
            thread.join()
