"""`policy.frequency_cap`: nobody gets more messages than it allows, whichever campaigns and runs send them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from runner.cli.main import run as run_command
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    CheckJson = Callable[[str, str], dict[str, Any]]

ADA, BOB, CY = "+14155550101", "+14155550102", "+14155550103"
NO_CAP = ""
ONE_A_WEEK = "policy: {frequency_cap: {messages: 1, within: 7d}}"
TWO_A_WEEK = "policy: {frequency_cap: {messages: 2, within: 7d}}"
MEETING = """\
import sys, time
from pathlib import Path
from runner.workflow.delivery.delivery import DeliveryRun
from runner.cli.main import run
from tests.keys import STATE_KEY

deliver, here, there = DeliveryRun.deliver, Path(sys.argv[1]), Path(sys.argv[2])

def deliver_together(self, planned, provenance):
    here.touch()
    while not there.exists():
        time.sleep(0.01)
    return deliver(self, planned, provenance)

DeliveryRun.deliver = deliver_together
sys.exit(run(sys.argv[3:]))
"""
"""A command that, with its plan made, waits for another one before it sends."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did."""

    returncode: int
    stdout: str
    stderr: str


class Campaigns:
    """A repository of campaigns, on one of the databases; commands run inside this process."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], check: CheckJson) -> None:
        self.folder = folder / "campaigns"
        self.folder.mkdir()
        self._capture = capture
        self._check = check

    def write(self, name: str, rule: str, *phones: str, messages: int = 1) -> None:
        """Write a campaign of plain texts."""
        recipients = "".join(f'  - phone: "{phone}"\n' for phone in phones)
        texts = "".join(f"  - {{id: m{number}, text: {name} {number}}}\n" for number in range(messages))
        content = f"version: 1\nrecipients:\n{recipients}messages:\n{texts}{rule}\n"
        self.find(name).write_text(content, encoding="utf-8")

    def find(self, name: str) -> Path:
        """Return where a campaign's file is."""
        return self.folder / f"{name}.yaml"

    def run(self, *arguments: str, code: int = 0) -> Done:
        """Run a command."""
        done = Done(run_command(arguments), *self._capture.readouterr())
        assert done.returncode == code, done.stderr
        return done

    def apply(self, *names: str) -> dict[str, int]:
        """Send campaigns, all of them if none is named, and return how many deliveries each made."""
        paths = [str(self.find(name)) for name in names]
        done = self.run("apply", "--auto-approve", "--format", "json", "--quiet", *paths)
        found = self._check(done.stdout, "apply")["campaigns"]
        return {campaign["name"]: campaign["recipients_sent"] for campaign in found}

    def plan(self, *names: str) -> dict[str, tuple[int, int]]:
        """Return of each message, by campaign and id, who is sent to and who is capped."""
        messages = self._list_messages("plan", *(str(self.find(name)) for name in names))
        return {name: (message["to_send"], message["capped"]) for name, message in messages}

    def status(self) -> dict[str, int]:
        """Return of each message, by campaign and id, who would be sent to by what `status` says."""
        return {name: message["planned"] for name, message in self._list_messages("status")}

    def _list_messages(self, command: str, *paths: str) -> list[tuple[str, dict[str, Any]]]:
        document = self._check(self.run(command, "--format", "json", *paths).stdout, command)
        return [
            (f"{campaign['name']}/{message['id']}", message)
            for campaign in document["campaigns"]
            for message in campaign["messages"]
        ]

    def apply_together(self, *names: str) -> dict[str, dict[str, Any]]:
        """Send two campaigns by a process each; neither sends before both have planned."""
        first, second = names
        command = ["apply", "--auto-approve", "--format", "json", "--quiet", "--concurrency", "1"]
        processes = {
            name: subprocess.Popen(
                [sys.executable, "-c", MEETING, name, other, *command, str(self.find(name))],
                cwd=self.folder.parent,
                env=dict(os.environ),
                stdout=subprocess.PIPE,
                text=True,
            )
            for name, other in ((first, second), (second, first))
        }
        said = {name: process.communicate(timeout=100)[0] for name, process in processes.items()}
        assert [process.returncode for process in processes.values()] == [0, 0]
        return {name: self._check(text, "apply")["campaigns"][0] for name, text in said.items()}

    def count_texts(self) -> Counter[str]:
        """Return how often the service texted whom."""
        query = "SELECT phone FROM session JOIN participant ON participant.id = participant_id"
        with closing(sqlite3.connect(self.folder.parent / ".runner/sandbox/service.sqlite")) as connection:
            return Counter(phone for (phone,) in connection.execute(query))

    def lose_ledger(self) -> None:
        """Remove the ledger, as on a new machine."""
        for file in (self.folder.parent / ".runner").glob("ledger*"):
            file.unlink()


@pytest.fixture
def on_sqlite(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    check_json: CheckJson,
    monkeypatch: pytest.MonkeyPatch,
) -> Campaigns:
    """An empty repository with the ledger in a file, for what is no matter of the database."""
    monkeypatch.chdir(tmp_path)
    return Campaigns(tmp_path, capsys, check_json)


@pytest.fixture(params=["sqlite", "postgresql"])
def campaigns(
    request: pytest.FixtureRequest, on_sqlite: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> Campaigns:
    """An empty repository: every test runs on both databases."""
    if request.param == "postgresql":
        monkeypatch.setenv("RUNNER_LEDGER", request.getfixturevalue("postgres_ledger"))
    return on_sqlite


@pytest.mark.slow
def test_what_another_campaign_sent_counts(campaigns: Campaigns) -> None:
    """In a later run, who got another campaign's message waits; with the week over a later run sends it."""
    campaigns.write("news", NO_CAP, ADA, BOB)
    campaigns.write("pulse", ONE_A_WEEK, ADA, BOB, CY)
    assert campaigns.apply("news") == {"news": 2}
    assert campaigns.plan("pulse") == {"pulse/m0": (1, 2)}
    told = campaigns.run("plan", str(campaigns.find("pulse"))).stdout
    assert "  m0: 2 people have reached the frequency cap: a later run sends\n" in told
    assert campaigns.apply("pulse") == {"pulse": 1}
    campaigns.run("sandbox", "clock", "+167h")
    assert campaigns.apply("pulse") == {"pulse": 0}
    campaigns.run("sandbox", "clock", "+1h10m")
    assert campaigns.apply("pulse") == {"pulse": 2}
    campaigns.run("sandbox", "clock", "+30d")
    assert campaigns.apply() == {"news": 0, "pulse": 0}


@pytest.mark.slow
def test_what_the_same_run_sends_counts(campaigns: Campaigns) -> None:
    """Campaigns of one run count each other, those before with or without a cap of their own."""
    campaigns.write("a-news", NO_CAP, ADA)
    campaigns.write("b-pulse", ONE_A_WEEK, ADA, BOB)
    campaigns.write("c-offer", TWO_A_WEEK, ADA, BOB, CY)
    planned = campaigns.plan()
    assert planned == {"a-news/m0": (1, 0), "b-pulse/m0": (1, 1), "c-offer/m0": (3, 0)}
    assert campaigns.apply() == {"a-news": 1, "b-pulse": 1, "c-offer": 3}
    assert campaigns.apply() == {"a-news": 0, "b-pulse": 0, "c-offer": 0}
    campaigns.run("sandbox", "clock", "+8d")
    assert campaigns.apply() == {"a-news": 0, "b-pulse": 1, "c-offer": 0}


@pytest.mark.slow
def test_a_saved_plan_whose_people_were_texted_meanwhile_is_refused(campaigns: Campaigns) -> None:
    """Who has reached the cap since the plan was made is not texted by it: the plan is not the same any more."""
    campaigns.write("news", NO_CAP, ADA)
    campaigns.write("pulse", ONE_A_WEEK, ADA, BOB)
    pulse = str(campaigns.find("pulse"))
    campaigns.run("plan", "--out", "plan.json", pulse)
    assert campaigns.apply("news") == {"news": 1}
    refused = campaigns.run("apply", "--plan", "plan.json", code=1)
    assert refused.stderr.startswith("Error: the plan plan.json is out of date: pulse: ")
    assert campaigns.apply("pulse") == {"pulse": 1}


@pytest.mark.slow
@pytest.mark.parametrize(("news", "pulse"), [("a-news", "b-pulse"), ("z-news", "b-pulse")])
def test_what_only_a_lockfile_tells_of_counts(on_sqlite: Campaigns, news: str, pulse: str) -> None:
    """On a new machine a campaign's lockfile counts for the others, also for those that come before it.

    To plan enters nothing: it goes by the lockfile itself.
    """
    on_sqlite.write(news, NO_CAP, ADA)
    assert on_sqlite.apply(news) == {news: 1}
    on_sqlite.write(pulse, ONE_A_WEEK, ADA, BOB)
    on_sqlite.lose_ledger()
    assert on_sqlite.plan() == {f"{news}/m0": (0, 0), f"{pulse}/m0": (1, 1)}
    assert not list((on_sqlite.folder.parent / ".runner").glob("ledger*"))
    assert on_sqlite.apply() == {news: 0, pulse: 1}
    assert on_sqlite.count_texts() == {ADA: 1, BOB: 1}


def test_a_lockfile_counts_as_long_as_the_time_of_the_cap(on_sqlite: Campaigns) -> None:
    """What a lockfile tells of was sent at a time, and counts for a week from then."""
    on_sqlite.write("z-news", NO_CAP, ADA)
    on_sqlite.apply()
    on_sqlite.write("b-pulse", ONE_A_WEEK, ADA)
    on_sqlite.lose_ledger()
    on_sqlite.run("sandbox", "clock", "+167h")
    assert on_sqlite.plan("b-pulse", "z-news")["b-pulse/m0"] == (0, 1)
    on_sqlite.run("sandbox", "clock", "+1h10m")
    assert on_sqlite.plan("b-pulse", "z-news")["b-pulse/m0"] == (1, 0)


@pytest.mark.slow
def test_two_processes_at_once_keep_the_cap(campaigns: Campaigns) -> None:
    """Two runs that both planned to text everybody: each person gets exactly one text, whoever sends it."""
    phones = [f"+141555502{number:02}" for number in range(12)]
    for name in ("a", "b"):
        rule = f"{ONE_A_WEEK}\nlimits: {{recipients_per_send: 1}}"
        campaigns.write(name, rule, *phones)
    runs = campaigns.apply_together("a", "b")
    assert campaigns.count_texts() == Counter(phones)
    assert sum(run["recipients_sent"] for run in runs.values()) == len(phones)
    for run in runs.values():
        assert run["recipients_sent"] + run["capped"] == len(phones)
        assert (run["not_tried"], run["deferred"], run["unresolved"]) == (0, 0, 0)


@pytest.mark.slow
def test_a_campaign_of_another_key_cannot_be_counted(
    campaigns: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a record's key is not at hand nobody is taken for one who got nothing: it stops, and says why."""
    campaigns.write("news", NO_CAP, ADA)
    campaigns.write("pulse", ONE_A_WEEK, ADA)
    monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)
    assert campaigns.apply("news") == {"news": 1}
    monkeypatch.delenv("RUNNER_STATE_KEY")
    pulse = str(campaigns.find("pulse"))
    for command in (("plan", pulse), ("apply", "--auto-approve", pulse)):
        assert campaigns.run(*command, code=1).stderr == (
            "Error: the ledger's record of sandbox was written with a RUNNER_STATE_KEY, and none is set\n"
            "  set RUNNER_STATE_KEY to the key it was written with; with another one everyone would look new\n"
        )


@pytest.mark.slow
def test_messages_of_one_campaign_count(campaigns: Campaigns) -> None:
    """Of three messages the first two are sent in the order of the file, the third a week later."""
    campaigns.write("pulse", TWO_A_WEEK, ADA, messages=3)
    assert campaigns.plan() == {"pulse/m0": (1, 0), "pulse/m1": (1, 0), "pulse/m2": (0, 1)}
    assert campaigns.apply() == {"pulse": 2}
    assert campaigns.apply() == {"pulse": 0}
    campaigns.run("sandbox", "clock", "+8d")
    assert campaigns.apply() == {"pulse": 1}


def test_status_counts_other_campaigns_lockfiles(on_sqlite: Campaigns) -> None:
    """On a new machine `status` says the same as `plan` of who has reached the cap."""
    on_sqlite.write("z-news", NO_CAP, ADA)
    on_sqlite.apply()
    on_sqlite.write("b-pulse", ONE_A_WEEK, ADA, BOB)
    on_sqlite.lose_ledger()
    assert on_sqlite.status() == {"b-pulse/m0": 1, "z-news/m0": 0}


def test_what_ledger_and_lockfile_both_know_counts_once(on_sqlite: Campaigns) -> None:
    """Whoever got one message may get a second one, though two records tell of the first."""
    on_sqlite.write("z-news", NO_CAP, ADA)
    on_sqlite.apply()
    on_sqlite.write("b-pulse", TWO_A_WEEK, ADA)
    assert on_sqlite.plan() == {"b-pulse/m0": (1, 0), "z-news/m0": (0, 0)}
    assert on_sqlite.apply() == {"b-pulse": 1, "z-news": 0}


def test_status_counts_what_the_same_run_would_send(on_sqlite: Campaigns) -> None:
    """Who is capped because an earlier campaign texts them in the same run is so in `status`, too."""
    on_sqlite.write("a-news", NO_CAP, ADA)
    on_sqlite.write("b-pulse", ONE_A_WEEK, ADA, BOB)
    assert on_sqlite.plan() == {"a-news/m0": (1, 0), "b-pulse/m0": (1, 1)}
    assert on_sqlite.status() == {"a-news/m0": 1, "b-pulse/m0": 1}


def test_a_saved_plan_for_a_later_date_keeps_the_cap_of_today(on_sqlite: Campaigns) -> None:
    """A plan as of next month does not text today who has reached the cap today."""
    on_sqlite.write("news", NO_CAP, ADA)
    on_sqlite.write("pulse", ONE_A_WEEK, ADA, BOB)
    assert on_sqlite.apply("news") == {"news": 1}
    now = json.loads(on_sqlite.run("sandbox", "clock", "--format", "json").stdout)["time"]
    later = (datetime.fromisoformat(now) + timedelta(days=30)).isoformat()
    on_sqlite.run("plan", "--now", later, "--out", "plan.json", str(on_sqlite.find("pulse")))
    done = on_sqlite.run("apply", "--plan", "plan.json", "--quiet")
    assert done.stdout == ("pulse: 1 person texted, 1 person at the frequency cap meanwhile.\n")
    assert on_sqlite.count_texts() == {ADA: 1, BOB: 1}
