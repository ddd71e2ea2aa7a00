"""Reports of a campaign that has arms, a reminder and a control group, and of waves that the command does not name."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from scipy import stats

from tests.cli.inside import run_inside as run

if TYPE_CHECKING:
    from pathlib import Path

PEOPLE = 120
CAMPAIGN = """\
version: 1
name: {name}
tag: {name}
series: pulse
recipients: [{{csv: people.csv}}]
messages:
  - id: ask
    questions: [{{tag: ask, text: "From 0 to 10? Reply STOP to opt out.", scale: nps,
      responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]}}]
  - id: remind
    after: {{message: ask, wait: 1s}}
    to: unanswered
    complete_existing_sessions: true
    questions: [{{tag: ask, text: "Still there? From 0 to 10?", scale: nps,
      responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]}}]
variants:
  seed: {name}
  of: ask
  arms: [{{id: short, introduction: Hi.}}, {{id: warm}}]
  holdout: 0.2
"""


def call(folder: Path, *arguments: str) -> str:
    done = run(*arguments, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two waves: first, which has a reminder that was answered, and second, which the reminder did not reach yet."""
    folder = tmp_path_factory.mktemp("waves")
    (folder / "campaigns").mkdir()
    rows = ["phone", *(f"+1415555{number:04}" for number in range(100, 100 + PEOPLE))]
    (folder / "campaigns/people.csv").write_text("\n".join(rows), encoding="utf-8")
    for name in ("first", "second"):
        (folder / f"campaigns/{name}.yaml").write_text(CAMPAIGN.format(name=name), encoding="utf-8")
    for number in range(3):
        file = "campaigns/second.yaml" if number == 2 else "campaigns/first.yaml"
        call(folder, "apply", "--auto-approve", file)
        call(folder, "sandbox", "simulate", "--seed", str(number), "--response-rate", "0.5")
        call(folder, "reconcile")
    return folder


def report(folder: Path, *paths: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(folder, "report", "--format", "json", *paths))
    return found


@pytest.mark.slow
def test_other_waves_are_compared_though_the_command_names_one(folder: Path) -> None:
    """A report of one file has the waves of all, as a report of the folder has them, and none without a series."""
    found = report(folder, "campaigns/second.yaml")["series"]
    call(folder, "report", "--format", "json", "--out", "all")
    assert found == json.loads((folder / "all/second.json").read_bytes())["series"]
    waves = [(one["campaign"], one["answered"], one["texted"]) for one in found["waves"]]
    assert waves == [("first", 86, 92), ("second", 33, 73)]
    response = found["changes"][0]
    assert (response["measure"], response["against"]) == ("response", "first")
    assert response["difference"] == pytest.approx(33 / 73 - 86 / 92, abs=5e-5)
    exact = stats.fisher_exact([[86, 6], [33, 40]]).pvalue
    assert (response["p_value"], response["verdict"]) == (pytest.approx(exact, rel=1e-3), "differs")


def test_a_wave_that_cannot_be_read_is_left_out_and_said(folder: Path, tmp_path: Path) -> None:
    """A broken file of the series keeps no report from being made; one of another series is not looked at."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "campaigns/third.yaml").write_text(
        "version: 1\nseries: pulse\nmessages: none\n", encoding="utf-8"
    )
    (copy / "campaigns/first.yaml").write_text(CAMPAIGN.format(name="first").replace("pulse", "other"))
    done = run("report", "--format", "json", "campaigns/second.yaml", cwd=copy)
    assert done.returncode == 0
    assert [one["campaign"] for one in json.loads(done.stdout)["series"]["waves"]] == ["second"]
    assert "campaigns/third.yaml: 2 errors: if it is of the same series, it is not compared" in done.stderr


def test_verdicts_and_the_split_count_what_came_after_the_reminder(folder: Path) -> None:
    """Answers to the reminder are those of the arm that a person was asked in; the split is of all who were."""
    found = report(folder, "campaigns/first.yaml")
    asked, reminded = found["messages"]
    experiment, people = found["experiment"], found["people"]
    assert (asked["participants_answered"], reminded["participants_answered"]) == (48, 38)
    arms = {one["name"]: (one["answered"], one["texted"]) for one in experiment["arms"]}
    assert arms == {"short": (38, 40), "warm": (48, 52)}
    assert (sum(arm[0] for arm in arms.values()), people["answered"]) == (48 + 38, 86)
    assert {one["measure"] for one in experiment["comparisons"]} == {"response", "score"}
    assert [one["scores"][0]["counted"] for one in experiment["arms"]] == [38, 48]
    assert experiment["comparisons"][0]["difference"] == pytest.approx(48 / 52 - 38 / 40, abs=5e-5)
    expected = stats.chisquare([40, 52]).pvalue
    assert experiment["split"]["p_value"] == pytest.approx(expected, rel=1e-3)
    assert experiment["split"]["is_as_planned"] is True


@pytest.mark.parametrize("format_", ["md", "html"])
def test_the_control_group_is_said_to_have_had_nothing_to_answer(folder: Path, format_: str) -> None:
    """Nobody texted these people, so the report says how many they are, and that there is no response of theirs."""
    said = " ".join(call(folder, "report", "--format", format_, "campaigns/first.yaml").split())
    assert (
        "28 people got no text, as they were drawn to be the control group: "
        "they had nothing to answer, so what they would have said is not known."
    ) in said
