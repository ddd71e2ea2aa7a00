"""Rollouts on the sandbox, as a user meets them: steps open one after the other, and stop by themselves."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from runner.campaign.variants import SHARES, draw_shares
from tests.cli.test_alert import name_job
from tests.cli.world import Project

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.world import CheckJson, Enter
    from tests.forge.github_server import GitHub


YAML = """\
version: 1
recipients: [{csv: people.csv}]
rollout:
  steps: [{share: 10%, hold: 2h}, {share: 30%, hold: 1d}, {share: 100%}]
  guards: {opt_outs: 2%, rejected: 1%}
messages:
  - {id: ask, introduction: Hi, questions: [{tag: why, text: Why?}]}
"""
PHONES = [f"+1415555{number}" for number in range(1000, 1100)]
DRAW = draw_shares("pulse", "rollout")
FIRST = [phone for phone in PHONES if DRAW(phone) < SHARES // 10]
SECOND = [phone for phone in PHONES if DRAW(phone) < 3 * SHARES // 10]


class World(Project):
    """A repository with a rollout to a hundred people."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], check: CheckJson) -> None:
        super().__init__(folder, capture, check)
        (folder / "campaigns/people.csv").write_text("phone\n" + "\n".join(PHONES), encoding="utf-8")
        self.write(YAML)

    def write(self, text: str) -> None:
        (self.folder / "campaigns/pulse.yaml").write_text(text, encoding="utf-8")

    def apply(self, code: int = 0) -> int:
        """Send; return how many people were texted."""
        done = self.check(self.run("apply", "--auto-approve", "--format", "json", code=code), "apply")
        count: int = done["campaigns"][0]["recipients_sent"]
        return count

    def step(self, code: int = 0) -> dict[str, Any]:
        """Return the open step as `plan` shows it; `status` shows the same."""
        (planned,) = self.check(self.run("plan", "--format", "json", code=code), "plan")["campaigns"]
        (status,) = self.check(self.run("status", "--format", "json"), "status")["campaigns"]
        assert status["rollout"] == planned["rollout"]
        found: dict[str, Any] = planned["rollout"]
        return found

    def state(self, code: int = 0) -> tuple[int, str]:
        step = self.step(code)
        return step["number"], step["state"]

    def add(self, phones: list[str]) -> None:
        """Add people to the audience."""
        people = "\n".join([*PHONES, *phones])
        (self.folder / "campaigns/people.csv").write_text(f"phone\n{people}", encoding="utf-8")

    def is_first(self, phone: str) -> bool:
        """Return whether a person is of the first step."""
        return bool(DRAW(phone) < SHARES // 10)

    def watch(self, length: str) -> None:
        """Let time pass, and read what came."""
        self.run("sandbox", "clock", f"+{length}")
        self.run("reconcile")

    def reply_all(self, text: str, *phones: str) -> None:
        """Have people text the service."""
        for phone in phones:
            self.reply(phone, text)


@pytest.fixture
def world(enter: Enter) -> World:
    """A campaign to a hundred people in three steps, with two guards."""
    return enter(World)


@pytest.mark.slow
def test_steps_open_one_after_the_other(world: World) -> None:
    """Each after its hold and a reconcile; people of later steps are counted, and nobody beyond is texted."""
    assert world.state() == (1, "sending")
    (message,) = json.loads(world.run("plan", "--format", "json"))["campaigns"][0]["messages"]
    assert (message["to_send"], message["later_step"]) == (len(FIRST), len(PHONES) - len(FIRST))
    assert world.apply() == len(FIRST)
    assert world.state() == (1, "holding")
    world.run("sandbox", "clock", "+2h1m")
    assert world.state() == (1, "unread")
    assert world.apply() == 0
    world.run("reconcile")
    assert world.state() == (2, "sending")
    assert world.apply() == len(SECOND) - len(FIRST)
    world.run("report", "--format", "json", "--format", "md", "--out", "reports")
    report = world.check((world.folder / "reports/pulse.json").read_text(encoding="utf-8"), "report")
    assert report["rollout"] == {"number": 2, "steps": 3, "share": 0.3, "people": len(SECOND)}
    assert "Step 2 of 3 of the rollout was open" in (world.folder / "reports/pulse.md").read_text("utf-8")
    world.watch("23h")
    assert world.state() == (2, "holding")
    world.watch("2h")
    assert world.state() == (3, "last")
    assert world.apply() == len(PHONES) - len(SECOND)
    assert world.apply() == 0


@pytest.mark.slow
def test_a_fresh_machine_comes_to_the_same_step(world: World) -> None:
    """Without the ledger, files and service say where the rollout is; answers are to be read again."""
    world.apply()
    world.watch("3h")
    shutil.rmtree(world.folder / ".runner/ledger", ignore_errors=True)
    for file in (world.folder / ".runner").glob("*.sqlite*"):
        file.unlink()
    assert world.state() == (1, "unread")
    world.run("reconcile")
    assert world.state() == (2, "sending")
    world.apply()
    for file in (world.folder / ".runner").glob("*.sqlite*"):
        file.unlink()
    assert world.state() == (2, "holding")


@pytest.mark.slow
def test_a_broken_guard_pauses_the_campaign(world: World) -> None:
    """With its figures, also on a fresh machine; a person who resumes accepts them for this step."""
    world.apply()
    world.reply_all("STOP", *FIRST[:3])
    world.watch("3h")
    assert world.state(7) == (1, "broken")
    figures = f"3 of {len(FIRST)} people opted out ({round(300 / len(FIRST), 1):g}%; limit 2%)"
    assert figures in world.run("plan", code=7)
    world.run("apply", "--auto-approve", code=7)
    assert f"rollout step 1 (10%): {figures}" in world.errors
    assert world.state(7) == (1, "paused")
    for file in (world.folder / ".runner").glob("*.sqlite*"):
        file.unlink()
    world.run("apply", "--auto-approve", code=7)
    world.run("reconcile")
    assert world.state(7) == (1, "paused")
    world.run("resume", "pulse")
    assert world.state() == (2, "sending")
    for file in (world.folder / ".runner").glob("*.sqlite*"):
        file.unlink()
    world.run("reconcile")
    assert world.state() == (2, "sending")
    # What was accepted in one wave is not in the next.
    world.write(f"{YAML}wave: next\n")
    # Their surveys are open: a step is not over before anybody has a text.
    assert (world.state(), world.apply()) == ((1, "sending"), 0)
    world.write(f"{YAML}wave: next\npolicy: {{open_session: complete}}\n")
    assert world.apply() == len(FIRST) - 3
    world.watch("3h")
    assert world.state() == (2, "sending")
    world.reply_all("STOP", *FIRST[3:6])
    world.run("reconcile")
    assert world.state(7) == (1, "broken")
    world.write(YAML)


@pytest.mark.slow
def test_the_issue_has_the_figures_and_the_replies(
    world: World, monkeypatch: pytest.MonkeyPatch, github: GitHub
) -> None:
    """A job that plans pauses the campaign; digits are masked, and the issue closes once a person resumes."""
    world.apply()
    world.reply_all("Stop texting me, call 415-555-0199", *FIRST[:3])
    world.watch("3h")
    world.run("apply", "--auto-approve", code=7)
    for name, value in name_job(github, world.folder).items():
        monkeypatch.setenv(name, value)
    world.run("ci", "alert", "--show-replies")
    (issue,) = github.issues
    assert "a rollout stopped itself" in issue["title"]
    figures = f"rollout step 1 (10%): 3 of {len(FIRST)} people opted out"
    assert f"| pulse | {figures}" in issue["body"]
    assert "| pulse | Why? | Stop texting me, call •••-•••-•••• |" in issue["body"]
    assert "0199" not in issue["body"]
    world.run("resume", "pulse")
    world.run("ci", "alert")
    assert issue["state"] == "closed"


@pytest.mark.slow
def test_follow_ups_and_new_rows_close_no_step(world: World) -> None:
    """A reminder that waits, and a few people more, leave the open step open; another seed begins anew."""
    nudge = "  - {id: nudge, after: {message: ask, wait: 2d}, text: Still there?}\n"
    world.write(YAML + nudge)
    world.apply()
    world.watch("3h")
    assert world.state() == (2, "sending")
    world.apply()
    more = [phone for phone in (f"+1415556{number}" for number in range(1000, 1200)) if world.is_first(phone)]
    world.add(more[:1])
    assert world.state() == (2, "sending")
    assert world.apply() == 1
    world.write(YAML.replace("steps:", "seed: other\n  steps:") + nudge)
    assert world.state() == (1, "sending")


@pytest.mark.slow
def test_a_larger_audience_begins_with_the_first_step_again(world: World) -> None:
    """Its new people of the first step are watched before the second one opens again, whoever has a text."""
    world.apply()
    world.run("sandbox", "clock", "+3h")
    world.run("reconcile")
    assert world.apply() == len(SECOND) - len(FIRST)
    more = [f"+1415555{number}" for number in range(2000, 2200)]
    text = "phone\n" + "\n".join((*PHONES, *more))
    (world.folder / "campaigns/people.csv").write_text(text, encoding="utf-8")
    new = sum(DRAW(phone) < SHARES // 10 for phone in more)
    assert world.state() == (1, "sending")
    assert world.apply() == new
    assert world.state() == (1, "holding")
    assert world.apply() == 0


@pytest.mark.slow
def test_refused_texts_are_counted_and_hold_nothing_up(world: World) -> None:
    """Those who were refused are to be sent to again, and the step is judged without waiting for them."""
    world.write(YAML.replace("introduction: Hi", 'introduction: "Hi {{ number }}"'))
    rows = [f"{phone},{number}" for number, phone in enumerate(PHONES)]
    (world.folder / "campaigns/people.csv").write_text("phone,number\n" + "\n".join(rows), encoding="utf-8")
    assert world.apply() == len(FIRST)
    refused = "UPDATE launches SET state = 'rejected', detail = 'HTTP 422: no', project_launch_guid = NULL"
    for number, expected in enumerate([(2, "sending"), (1, "broken")], start=1):
        with closing(sqlite3.connect(world.folder / ".runner/ledger.sqlite")) as ledger, ledger:
            ledger.execute(f"{refused} WHERE id = ?", (number,))
            ledger.execute("UPDATE deliveries SET released = 1 WHERE launch_id = ?", (number,))
        if number == 1:
            world.watch("3h")
        assert world.state(7 if expected[1] == "broken" else 0) == expected
    figures = world.step(7)["guards"][1]
    assert (figures["count"], figures["people"], figures["is_broken"]) == (2, len(FIRST), True)
