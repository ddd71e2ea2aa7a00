"""Reminders that rest on answers read too early: nobody who has answered meanwhile gets one, and it is said."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    CheckJson = Callable[[str, str], dict[str, Any]]

COUNT = 12
UNREAD = "whether they have answered was not read since the `wait` was over: run `runner reconcile` first"
YAML = """\
version: 1
name: pulse
recipients:
  - csv: people.csv
messages:
  - id: ask
    questions:
      - {tag: why, text: "Why, {{ first_name }}?"}
  - id: nudge
    tag: nudge
    after: {message: ask, wait: 2d}
    to: TO
    introduction: "And, {{ first_name }}?"
    questions:
      - {tag: why, text: "Why, {{ first_name }}?"}
    complete_existing_sessions: true
"""


class Pulse:
    """A repository whose first message has been sent, to be followed up after two days."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder = folder
        self._run = run

    def write(self, to: str) -> None:
        """Write the campaign; `to` is the follow-up's."""
        (self.folder / "campaigns").mkdir()
        (self.folder / "campaigns/pulse.yaml").write_text(YAML.replace("TO", to), encoding="utf-8")
        rows = "".join(f"+14155550{number},P{number}\n" for number in range(100, 100 + COUNT))
        (self.folder / "campaigns/people.csv").write_text(f"phone,first_name\n{rows}", encoding="utf-8")

    def append(self, text: str) -> None:
        """Write more into the campaign."""
        with (self.folder / "campaigns/pulse.yaml").open("a", encoding="utf-8") as file:
            file.write(text)

    def run(self, *arguments: str) -> CompletedProcess[str]:
        """Run a command, which must succeed."""
        done = self._run(*arguments, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done

    def answer(self, rate: str) -> None:
        """Let people answer."""
        self.run("sandbox", "simulate", "--seed", "1", "--response-rate", rate)

    def pass_days(self, days: int) -> None:
        """Move the sandbox's clock."""
        self.run("sandbox", "clock", f"+{days}d")

    def plan_nudge(self) -> dict[str, Any]:
        """Return the counts of the follow-up."""
        document = json.loads(self.run("plan", "--format", "json").stdout)
        message: dict[str, Any] = document["campaigns"][0]["messages"][1]
        return message

    def count_answered(self) -> int:
        """Return how many people have answered, as the service has it."""
        with closing(sqlite3.connect(self.folder / ".runner/sandbox/service.sqlite")) as connection:
            query = "SELECT count(DISTINCT participant_id) FROM result"
            count: int = connection.execute(query).fetchone()[0]
        return count


@pytest.fixture
def pulse(tmp_path: Path, run: Run) -> Pulse:
    """A repository, asked about `unanswered`, which was reconciled right after the send."""
    repository = Pulse(tmp_path, run)
    repository.write("unanswered")
    repository.run("apply", "--auto-approve")
    repository.run("reconcile")
    return repository


@pytest.mark.slow
def test_whoever_has_answered_meanwhile_is_not_reminded(pulse: Pulse) -> None:
    """All of them answer after the reading: `apply` sends nothing and says why, until it is reconciled."""
    pulse.answer("1")
    pulse.pass_days(3)
    held = pulse.run("apply", "--auto-approve")
    assert held.stdout == "pulse: nothing sent.\n"
    assert held.stderr == f"Warning: pulse: {COUNT} recipients wait for `nudge`: {UNREAD}\n"
    plan = pulse.plan_nudge()
    assert (plan["awaiting"], plan["to_send"]) == (COUNT, 0)
    assert plan["reasons"] == [{"reason": UNREAD, "recipients": COUNT}]
    assert f"\n    {COUNT}: {UNREAD}\n" in pulse.run("plan").stdout
    pulse.run("reconcile")
    after = pulse.run("apply", "--auto-approve", "--quiet")
    answered = pulse.count_answered()
    assert answered > COUNT / 2
    assert pulse.plan_nudge()["not_qualified"] == answered
    assert after.stderr == ""


@pytest.mark.slow
def test_status_names_what_was_not_read(pulse: Pulse, check_json: CheckJson) -> None:
    """It is the message whose answers are wanted, in every format, until they have been read."""
    said = "A follow-up is due, and waits for answers to be read: pulse/ask. `runner reconcile` reads them.\n"
    assert pulse.run("status").stderr == ""
    pulse.pass_days(3)
    assert pulse.run("status").stderr == said
    done = pulse.run("status", "--format", "json")
    assert (done.stderr, len(check_json(done.stdout, "status")["campaigns"])) == (said, 1)
    assert pulse.run("status", "--quiet").stderr == ""
    pulse.run("reconcile")
    assert pulse.run("status").stderr == ""


@pytest.mark.parametrize(("to", "waiting"), [("answered", COUNT), ("unanswered", COUNT), ("everyone", 0)])
def test_what_was_never_read_is_missed_too(tmp_path: Path, run: Run, to: str, waiting: int) -> None:
    """Whoever forgets to reconcile at all is told so, where the follow-up goes by answers."""
    pulse = Pulse(tmp_path, run)
    pulse.write(to)
    # Else nobody at all would be texted before somebody reconciles.
    pulse.append("policy: {read_replies_within: 7d}\n")
    pulse.run("apply", "--auto-approve")
    pulse.pass_days(3)
    done = pulse.run("apply", "--auto-approve")
    told = f"Warning: pulse: {waiting} recipients wait for `nudge`: {UNREAD}\n" if waiting else ""
    texted = COUNT - waiting
    sent = f"{texted} people texted" if texted else "nothing sent"
    assert (done.stdout, done.stderr) == (f"pulse: {sent}.\n", told)


def test_a_saved_plan_that_rests_on_an_old_reading_holds_them_back(pulse: Pulse) -> None:
    """What is reviewed says it, and what is sent of it warns again."""
    pulse.pass_days(3)
    pulse.run("plan", "--out", "plan.json")
    done = pulse.run("apply", "--plan", "plan.json")
    told = f"Warning: pulse: {COUNT} recipients wait for `nudge`: {UNREAD}\n"
    assert (done.stdout, done.stderr) == ("pulse: nothing sent.\n", told)
