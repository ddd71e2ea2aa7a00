"""The example with an experiment, a reminder and a holdout, run after run as time goes by."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from runner.cli.main import run as run_command
from runner.source.storage import shipped_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    CheckJson = Callable[[str, str], dict[str, Any]]

NAME = "anniversary-survey"
FILE = f"campaigns/{NAME}.yaml"


class Journey:
    """The example in a repository of its own, on a sandbox whose clock is moved forward."""

    def __init__(self, capture: pytest.CaptureFixture[str], check_json: CheckJson) -> None:
        self._capture, self._check_json = capture, check_json

    def do(self, *arguments: str) -> str:
        """Run a command in this process, which spares two dozen starts; return what it wrote."""
        code = run_command(list(arguments))
        output = self._capture.readouterr()
        assert code == 0, output.err
        return output.out

    def go_to(self, moment: str) -> None:
        """Let time pass, on the sandbox's clock, which the runner follows."""
        now = datetime.fromisoformat(json.loads(self.do("sandbox", "clock", "--format", "json"))["time"])
        seconds = (datetime.fromisoformat(moment) - now).total_seconds()
        self.do("sandbox", "clock", f"+{seconds:.0f}s")

    def apply(self) -> int:
        """Send what is due; return how many texts left."""
        applied = self._check_json(self.do("apply", FILE, "--auto-approve", "--format", "json"), "apply")
        return sum(campaign["recipients_sent"] for campaign in applied["campaigns"])

    def plan(self) -> dict[str, dict[str, Any]]:
        (campaign,) = self._check_json(self.do("plan", FILE, "--format", "json"), "plan")["campaigns"]
        return {message["id"]: message for message in campaign["messages"]}

    def count_answered(self) -> int:
        """Read what came in; return how many have answered the question."""
        self.do("reconcile", FILE)
        status = self._check_json(self.do("status", FILE, "--format", "json"), "status")
        answered: int = status["campaigns"][0]["messages"][0]["answered"]
        return answered


@pytest.fixture
def journey(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    check_json: CheckJson,
) -> Journey:
    """The example before anything was sent."""
    (tmp_path / "campaigns").mkdir()
    shutil.copy(shipped_folder("campaigns") / f"{NAME}.yaml", tmp_path / FILE)
    shutil.copytree(shipped_folder("campaigns") / "audience", tmp_path / "campaigns/audience")
    monkeypatch.chdir(tmp_path)
    return Journey(capsys, check_json)


@pytest.mark.slow
def test_the_experiment_runs_its_course(journey: Journey) -> None:
    """Everyone who may be asked is, in an arm and by day; the silent are reminded, the others thanked."""
    journey.go_to("2030-03-04T08:00Z")  # Monday, before `not_before`
    ask = journey.plan()["ask"]
    people, control_group = ask["deferred"], ask["control_group"]
    assert people > 200
    assert 0.03 < control_group / (people + control_group) < 0.08
    assert ask["no_consent"] > 0
    assert journey.apply() == 0

    journey.go_to("2030-03-04T20:00Z")  # the afternoon in North America, night elsewhere
    by_day = journey.plan()["ask"]
    assert by_day["to_send"] + by_day["deferred"] == people
    assert by_day["arms"].keys() == {"warm", "short", "single"}
    assert by_day["arms"]["warm"] > by_day["arms"]["short"]
    assert journey.apply() == by_day["to_send"] > by_day["deferred"] > 0
    journey.do("sandbox", "simulate", "--seed", "3")

    for moment in ("2030-03-05T15:00Z", "2030-03-06T00:00Z", "2030-03-06T04:00Z"):  # as the sun moves
        journey.go_to(moment)
        # Half a day without it is the most that its policy allows.
        journey.do("reconcile", FILE)
        journey.apply()
    assert journey.plan()["ask"]["already_sent"] == people

    journey.go_to("2030-03-08T20:00Z")  # more than two days later
    answered = journey.count_answered()
    nudge = journey.plan()["nudge"]
    # Who has answered that they cancel may mean the texts: a person decides.
    assert 0 < nudge["opt_out_doubtful"] < people / 50
    assert nudge["not_qualified"] == answered - nudge["opt_out_doubtful"]
    assert nudge["to_send"] + nudge["deferred"] == people - answered
    assert journey.apply() == nudge["to_send"] > 0
    journey.do("sandbox", "simulate", "--seed", "4")

    journey.go_to("2030-03-11T20:00Z")  # Monday again; clocks have changed in between
    answered = journey.count_answered()
    thanks = journey.plan()["thanks"]
    assert thanks["not_qualified"] == people - answered
    # Who is in the middle of the survey is not thanked yet: the text would queue behind it.
    assert 0 < thanks["open_session"] < answered / 4
    held = thanks["opt_out_doubtful"] + thanks["open_session"]
    assert thanks["to_send"] + thanks["deferred"] + held == answered
    assert journey.apply() >= thanks["to_send"] > 0

    journey.go_to("2030-03-16T12:00Z")  # after `expires`
    for message in journey.plan().values():
        assert (message["to_send"], message["deferred"], message["control_group"]) == (0, 0, control_group)
    assert journey.apply() == 0
