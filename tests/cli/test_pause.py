"""`runner pause` and `runner resume`: a campaign waits for a person's word, on every machine."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]
    CheckJson = Callable[[str, str], dict[str, Any]]

FILE = "campaigns/sandbox.suppressions.json"
CAMPAIGN = """\
version: 1
recipients: [{phone: "+14155550101"}, {phone: "+14155550102"}]
messages:
  - {id: first, text: Hello}
  - {id: nudge, after: {message: first, wait: 1s}, text: Still there?}
"""
WAITS = "Left out: coffee is paused since {at} UTC: a wrong link; {texts}\n  `runner resume coffee` lets it go on\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Two campaigns of two people each, with a reminder."""
    (tmp_path / "campaigns").mkdir()
    for name in ("coffee", "tea"):
        (tmp_path / f"campaigns/{name}.yaml").write_text(CAMPAIGN, encoding="utf-8")
    return tmp_path


def pause(run: Run, folder: Path, check_json: CheckJson, *options: str) -> str:
    """Pause coffee, and return since when it is, as people read it."""
    done = run(
        "pause", *(options or ("coffee",)), "--reason", "a wrong  link", "--format", "json", cwd=folder
    )
    (item,) = check_json(done.stdout, "pause")["campaigns"]
    assert (item["name"], item["changed"], item["paused"], item["reason"]) == (
        "coffee", True, True, "a wrong link",
    )  # fmt: skip
    moment: str = item["at"]
    return moment[:16].replace("T", " ")


def test_a_paused_campaign_is_counted_as_paused(shop: Path, run: Run, check_json: CheckJson) -> None:
    """Under their own name, with the reason; the others are planned, and the exit code is 7."""
    at = pause(run, shop, check_json)
    done = run("plan", "--format", "json", cwd=shop)
    assert (done.returncode, done.stderr) == (7, WAITS.format(at=at, texts="2 texts wait"))
    coffee, tea = check_json(done.stdout, "plan")["campaigns"]
    first, nudge = coffee["messages"]
    assert (first["recipients"], first["paused"], first["to_send"], first["launches"]) == (2, 2, 0, 0)
    assert (nudge["awaiting"], nudge["paused"]) == (2, 0)
    assert coffee["pause"]["reason"] == "a wrong link"
    assert (tea["pause"], tea["messages"][0]["to_send"]) == (None, 2)
    human = run("plan", "campaigns/coffee.yaml", cwd=shop)
    assert f"  Paused since {at} UTC: a wrong link; 2 texts wait, and reminders with them\n" in human.stdout
    assert (human.returncode, human.stdout.splitlines()[-1]) == (7, "Nothing to send. Paused: coffee.")


@pytest.mark.slow
def test_nothing_of_it_is_sent_and_the_others_go_on(shop: Path, run: Run, check_json: CheckJson) -> None:
    """Nor its reminders; reconciling goes on, and so does the campaign once a person says so."""
    assert (
        run("apply", "campaigns/coffee.yaml", "--only", "first", "--auto-approve", cwd=shop).returncode == 0
    )
    run("sandbox", "clock", "+1h", cwd=shop)
    at = pause(run, shop, check_json)
    done = run("apply", "--auto-approve", cwd=shop)
    assert (done.returncode, done.stdout) == (7, "tea: 2 people texted.\n")
    assert WAITS.format(at=at, texts="2 texts wait") in done.stderr
    reconciled = run("reconcile", "campaigns/coffee.yaml", cwd=shop)
    assert (reconciled.returncode, reconciled.stdout.startswith("coffee: 1 launch;")) == (0, True)
    status = run("status", "--format", "json", cwd=shop)
    paused = {one["name"]: one["pause"] for one in check_json(status.stdout, "status")["campaigns"]}
    assert (paused["coffee"]["reason"], paused["tea"]) == ("a wrong link", None)
    assert f"coffee is paused since {at} UTC: a wrong link.\n" in run("status", cwd=shop).stdout
    assert run("resume", "coffee", "--quiet", cwd=shop).stdout == "coffee on sandbox: goes on.\n"
    assert run("apply", "campaigns/coffee.yaml", "--auto-approve", cwd=shop).returncode == 0
    assert run("resume", "coffee", cwd=shop).stdout == "coffee on sandbox: was not paused.\n"


def test_a_pause_holds_on_a_new_machine(shop: Path, run: Run, check_json: CheckJson) -> None:
    """It stands in the file; renaming the campaign does not end it, and the new name resumes it."""
    pause(run, shop, check_json, "campaigns/coffee.yaml")
    shutil.rmtree(shop / ".runner")
    (shop / "campaigns/coffee.yaml").rename(shop / "campaigns/mocha.yaml")
    text = CAMPAIGN.replace("version: 1\n", "version: 1\nrenamed_from: [coffee]\n")
    (shop / "campaigns/mocha.yaml").write_text(text, encoding="utf-8")
    assert run("plan", cwd=shop).returncode == 7
    assert run("apply", "campaigns/mocha.yaml", "--auto-approve", cwd=shop).returncode == 7
    assert run("resume", "mocha", cwd=shop).returncode == 0
    shutil.rmtree(shop / ".runner")
    assert run("plan", cwd=shop).returncode == 0
    (entry,) = json.loads((shop / FILE).read_text(encoding="utf-8"))["entries"]
    assert (entry["campaign"], entry["state"]) == ("coffee", "resumed")


@pytest.mark.slow
def test_what_was_approved_goes_out_without_what_was_paused_since(
    shop: Path, run: Run, check_json: CheckJson
) -> None:
    """The rest of a saved plan is sent; one that was saved while it was paused never sends more than it says."""
    assert run("plan", "--out", "plan.json", cwd=shop).returncode == 0
    pause(run, shop, check_json)
    assert run("plan", "--out", "later.json", cwd=shop).returncode == 7
    done = run("apply", "--plan", "plan.json", cwd=shop)
    assert (done.returncode, done.stdout) == (7, "tea: 2 people texted.\n")
    assert run("plan", "campaigns/coffee.yaml", "--out", "held.json", cwd=shop).returncode == 7
    done = run("apply", "--plan", "held.json", cwd=shop)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("Left out: coffee is paused since ")
    run("resume", "coffee", cwd=shop)
    refused = run("apply", "--plan", "held.json", cwd=shop)
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        "Error: the plan held.json is out of date: coffee: audience, template, option or who may be texted changed"
    )


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("cofee", "there is no campaign 'cofee' in campaigns\n  known: coffee, tea"),
        ("water", "there is no campaign 'water' in campaigns\n  known: coffee, tea"),
        ("campaigns/water.yaml", "there is no file campaigns/water.yaml"),
    ],
)
def test_a_campaign_that_is_not_there_cannot_be_paused(shop: Path, run: Run, name: str, error: str) -> None:
    """A mistyped name must not look like a pause."""
    done = run("pause", "coffee", name, cwd=shop)
    assert (done.returncode, done.stdout, done.stderr) == (64, "", f"Error: {error}\n")
    assert not (shop / FILE).exists()
