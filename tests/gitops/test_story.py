"""A team's whole story: each `run:` of the workflows that `runner init` writes, for real and in order.

The remote is a bare repository, the service the sandbox on a socket, GitHub's comments a small real server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

from runner.sandbox.web.server import running_service
from tests.cli.inside import run_inside
from tests.forge.github_server import running_github
from tests.gitops.actions import Event, Forge, Job, MachineLostError, run_workflow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.forge.github_server import GitHub

NUMBER = 7
CAMPAIGN = """\
version: 1
name: coffee
recipients:
  - csv: audience/guests.csv
messages:
  - id: taste
    introduction: "Hi {{ name }}, one question about your coffee. Reply STOP to opt out."
    questions:
      - {tag: rating, text: "How was it?", responses: ["Great", "Fine", "Not good"]}
    conclusion: "Thank you!"
  - id: nudge
    tag: coffee-nudge
    after: {message: taste, wait: 2d}
    to: unanswered
    complete_existing_sessions: true
    questions:
      - {tag: rating, text: "Still there? How was your coffee?", responses: ["Great", "Fine", "Not good"]}
limits:
  rate: 25/s
"""
LIMITS = """\
    limits:
      settle_window: 1s
"""
LATER = """\
import datetime
import freezegun
later = datetime.timedelta(seconds={seconds})
freezegun.freeze_time(datetime.datetime.now(datetime.UTC) + later, tick=True).start()
"""


LEASE = "--state-lease 6"
"""Seconds instead of minutes, in which the next machine watches the remote's lock."""


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@dataclass
class Team:
    """A team, its repository on the forge, and the service that it texts with."""

    folder: Path
    forge: Forge
    github: GitHub
    service_url: str
    credentials: str
    phones: list[str] = field(default_factory=list)
    passed: timedelta = timedelta()

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    def write_campaign(self, text: str) -> None:
        (self.clone / "campaigns/coffee.yaml").write_text(text, encoding="utf-8")

    def write_audience(self, count: int) -> None:
        self.phones = [f"+1415555{number:04}" for number in range(100, 100 + count)]
        rows = "".join(f"Guest {number},{phone}\n" for number, phone in enumerate(self.phones))
        file = self.clone / "campaigns/audience/guests.csv"
        file.write_text(f"name,phone\n{rows}", encoding="utf-8")

    def commit(self, message: str) -> str:
        git(self.clone, "add", "--all")
        git(self.clone, "commit", "--quiet", "--message", message)
        return git(self.clone, "rev-parse", "HEAD")

    def review(self) -> Job:
        """Push the current branch to its pull request, and run the review on it."""
        ref = f"refs/pull/{NUMBER}/merge"
        git(self.clone, "push", "--quiet", "--force", "origin", f"HEAD:{ref}")
        sha = git(self.clone, "rev-parse", "HEAD")
        repository = {"full_name": self.github.repository}
        request = {"number": NUMBER, "head": {"sha": sha, "repo": repository}, "base": {"repo": repository}}
        self.github.head = sha
        event = Event("pull_request", ref, sha, payload={"pull_request": request})
        jobs = run_workflow(self.workflow("review"), event, self.forge)
        assert jobs is not None
        return jobs["review"]

    def merge(self, branch: str, title: str) -> Event:
        """Merge a branch on the forge, and return what that starts."""
        git(self.clone, "checkout", "--quiet", "main")
        git(self.clone, "pull", "--quiet", "--ff-only")
        before = git(self.clone, "rev-parse", "HEAD")
        git(self.clone, "merge", "--quiet", "--no-ff", "--message", title, branch)
        git(self.clone, "push", "--quiet", "origin", "main")
        after = git(self.clone, "rev-parse", "HEAD")
        paths = git(self.clone, "diff", "--name-only", before, after).splitlines()
        return Event("push", "refs/heads/main", after, tuple(paths))

    def branch(self, name: str) -> None:
        git(self.clone, "checkout", "--quiet", "main")
        git(self.clone, "pull", "--quiet", "--ff-only")
        git(self.clone, "checkout", "--quiet", "-b", name)

    def send(self, event: Event, **during: Any) -> dict[str, Job]:
        jobs = run_workflow(self.workflow("send"), event, self.forge, during)
        assert jobs is not None
        return jobs

    def pass_time(self, time_passed: timedelta) -> None:
        """Let time pass, for the service as for every machine from now on."""
        self.passed += time_passed
        self.ask("/_sandbox/clock", {"advance": f"{time_passed.total_seconds():.0f}s"})
        text = LATER.format(seconds=self.passed.total_seconds())
        (self.folder / "later").mkdir(exist_ok=True)
        (self.folder / "later/sitecustomize.py").write_text(text, encoding="utf-8")
        environment = {**self.forge.environment, "PYTHONPATH": str(self.folder / "later")}
        self.forge = replace(self.forge, environment=environment)

    def shorten_settling(self) -> None:
        """Say that this service lists launches soon."""
        targets = self.clone / "campaigns/targets.yaml"
        targets.write_text(targets.read_text(encoding="utf-8") + LIMITS, encoding="utf-8")

    def shorten_lease(self) -> None:
        """Have jobs wait for seconds until a machine that is lost must have stopped."""
        file = self.workflow("send")
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("runner apply", f"runner apply {LEASE}"), encoding="utf-8")

    def workflow(self, name: str) -> Path:
        return self.clone / f".github/workflows/campaigns-{name}.yml"

    def tip(self) -> str:
        return git(self.forge.remote, "rev-parse", "main")

    def subjects(self) -> list[str]:
        return git(
            self.forge.remote, "log", "--first-parent", "--reverse", "--format=%s", "main"
        ).splitlines()

    def ask(self, path: str, body: Any = None) -> Any:
        """Ask the service."""
        data = None if body is None else json.dumps(body).encode()
        separator = "&" if "?" in path else "?"
        request = Request(f"{self.service_url}{path}{separator}{self.credentials}", data)  # noqa: S310  our own
        with urlopen(request, timeout=30) as answer:  # noqa: S310  our own
            return json.load(answer)

    def texts(self, tag: str) -> Counter[str]:
        """Return how often each phone was accepted under a tag, by the service's own record."""
        found: Counter[str] = Counter()
        offset = 0
        while True:
            page = self.ask(f"/api/stats/?project_tag={tag}&limit=500&offset={offset}")["objects"]
            found.update(session["to"] for launch in page for session in launch["sessions"])
            if len(page) < 500:
                return found
            offset += len(page)


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """A team with an account, an empty repository on GitHub, and an empty folder."""
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(remote, "config", "uploadpack.allowAnySHA1InWant", "true")
    (tmp_path / "machines").mkdir()
    with running_service(tmp_path / "service.sqlite") as service, running_github() as github:
        secrets = {"RUNNER_USERNAME": service.username, "RUNNER_API_KEY": service.api_key}
        forge = Forge(
            remote,
            tmp_path / "machines",
            secrets,
            environment={"GITHUB_API_URL": github.url, "GIT_CONFIG_NOSYSTEM": "1"},
        )
        credentials = f"username={service.username}&api_key={service.api_key}"
        yield Team(tmp_path, forge, github, service.url, credentials)


@pytest.mark.timeout(300)
def test_nobody_is_texted_twice_nobody_is_skipped_and_git_log_tells_the_story(team: Team) -> None:
    """From `runner init` to the report, with a kill and a re-run of an old commit on the way."""
    _start(team)
    _propose_with_an_error(team)
    merged = _merge_and_lose_the_machine(team)
    _run_the_old_commit_again(team, merged)
    _add_recipients(team)
    answered = _let_people_answer(team)
    report = _send_what_is_due_after_two_days(team)
    _find_nothing_to_do(team)

    assert team.texts("coffee") == Counter(team.phones)
    assert team.texts("coffee-nudge") == Counter(set(team.phones) - answered)
    assert {"plan.json", "reports/coffee.html", "reports/coffee.json", "reports/index.html"} <= set(report)
    reminded = len(team.phones) - len(answered)
    assert team.subjects() == [
        "Start campaigns",
        "Merge pull request #7: ask how the coffee was",
        "Say whom to ask about campaigns",
        "Record 40 texts of coffee on live",
        "Merge pull request #7: five more guests",
        "Record 5 texts of coffee on live",
        f"Record {reminded} texts of coffee on live",
    ]
    assert "coffee, nudge: " in git(team.forge.remote, "log", "-1", "--format=%b", "main")


@pytest.mark.timeout(300)
def test_a_main_that_takes_no_push_from_jobs_is_gone_on_with(team: Team) -> None:
    """The record waits on a branch of its own, and each new machine starts from it until it is merged."""
    hook = team.forge.remote / "hooks/update"
    hook.write_text('#!/bin/sh\n[ "$1" != refs/heads/main ] || [ -z "$GITHUB_ACTIONS" ]\n', encoding="utf-8")
    hook.chmod(0o755)
    assert run_inside("init", "clone", "--base-url", team.service_url, cwd=team.folder).returncode == 0
    git(team.clone, "remote", "add", "origin", str(team.forge.remote))
    (team.clone / "campaigns/first-order.yaml").unlink()
    team.shorten_settling()
    team.shorten_lease()
    team.write_campaign(CAMPAIGN)
    for guests in (3, 5):
        team.write_audience(guests)
        sha = team.commit(f"Ask {guests} guests")
        git(team.clone, "push", "--quiet", "--set-upstream", "origin", "main")
        jobs = team.send(Event("push", "refs/heads/main", sha, ("campaigns/audience/guests.csv",)))
        assert jobs["send"].result == "success", jobs["send"].show()
        assert "::warning title=The record is to be merged::main of origin" in jobs["send"].log("Record")
        assert team.texts("coffee") == Counter(team.phones)
        assert team.tip() == sha
    waiting = git(team.forge.remote, "log", "--reverse", "--format=%s", "main..runner/record").splitlines()
    assert waiting == ["Record 3 texts of coffee on live", "Record 2 texts of coffee on live"]
    git(team.clone, "pull", "--quiet", "--no-rebase", "origin", "runner/record")
    git(team.clone, "push", "--quiet", "origin", "main")
    done = run_inside("record", "--fetch", cwd=team.clone)
    assert done.stdout == "Nothing waits on the branch runner/record.\n"


def _start(team: Team) -> None:
    """`runner init` and `git push` are all that there is to do; without a target nothing is sent."""
    assert run_inside("init", "clone", cwd=team.folder).returncode == 0
    git(team.clone, "remote", "add", "origin", str(team.forge.remote))
    sha = team.commit("Start campaigns")
    git(team.clone, "push", "--quiet", "--set-upstream", "origin", "main")
    paths = git(team.clone, "ls-files").splitlines()
    jobs = team.send(Event("push", "refs/heads/main", sha, tuple(paths)))
    assert {name: job.result for name, job in jobs.items()} == {
        "look": "success",
        "send": "skipped",
        "page": "skipped",
    }
    assert "::notice title=Nothing is sent::" in jobs["look"].log("Look")


def _propose_with_an_error(team: Team) -> None:
    """The error stands at its line and in the comment, which says what would be sent once it is mended."""
    team.branch("coffee")
    done = run_inside("init", "--base-url", team.service_url, cwd=team.clone)
    assert "campaigns/targets.yaml" in done.stdout
    team.shorten_settling()
    team.shorten_lease()
    git(team.clone, "rm", "--quiet", "campaigns/first-order.yaml", "campaigns/audience/first-orders.csv")
    (team.clone / "campaigns/audience").mkdir(exist_ok=True)
    team.write_campaign(CAMPAIGN.replace("{{ name }}", "{{ nme }}"))
    team.write_audience(40)
    team.commit("Ask how the coffee was")
    refused = team.review()
    assert refused.outcomes()["Validate"] == "failure"
    assert "::error file=campaigns/coffee.yaml,line=7," in refused.log("Validate")
    (comment,) = team.github.comments
    assert "nme" in comment["body"]
    team.write_campaign(CAMPAIGN)
    team.commit("Spell it right")
    accepted = team.review()
    assert accepted.result == "success", accepted.show()
    (edited,) = team.github.comments
    assert edited["id"] == comment["id"]
    assert "40" in edited["body"]
    assert not any(phone in edited["body"] for phone in team.phones)


def _merge_and_lose_the_machine(team: Team) -> Event:
    """The machine is gone after some texts, before anything could be pushed or recorded by its last steps."""
    event = team.merge("coffee", "Merge pull request #7: ask how the coffee was")

    def lose_machine(process: int) -> None:
        while len(team.texts("coffee")) < 10:
            time.sleep(0.02)
        os.killpg(process, signal.SIGKILL)
        raise MachineLostError

    with pytest.raises(MachineLostError):
        team.send(event, Send=lose_machine)
    assert 10 <= len(team.texts("coffee")) < 40
    assert team.tip() == event.sha
    return event


def _run_the_old_commit_again(team: Team, merged: Event) -> None:
    """Somebody presses "Re-run" after main has moved on: the rest is sent, and recorded on the new tip."""
    (team.clone / "README.md").write_text("Ask Ada.\n", encoding="utf-8")
    sha = team.commit("Say whom to ask about campaigns")
    git(team.clone, "push", "--quiet", "origin", "main")
    assert sha != merged.sha
    jobs = team.send(merged)
    assert jobs["send"].result == "success", jobs["send"].show()
    assert team.texts("coffee") == Counter(team.phones)


def _add_recipients(team: Team) -> None:
    """Only those are texted who are new."""
    team.branch("more-guests")
    team.write_audience(45)
    team.commit("Invite five more")
    event = team.merge("more-guests", "Merge pull request #7: five more guests")
    jobs = team.send(event)
    assert jobs["send"].result == "success", jobs["send"].show()
    assert "5 recipients texted" in jobs["send"].log("Send")


def _let_people_answer(team: Team) -> set[str]:
    """Not quite half of them answer, the first ones; and two days go by."""
    answered = set(team.phones[:20])
    for phone in sorted(answered):
        assert team.ask("/_sandbox/reply", {"phone": phone, "text": "Great"})["was_expected"]
    team.pass_time(timedelta(days=2, hours=1))
    return answered


def _send_what_is_due_after_two_days(team: Team) -> list[str]:
    """The reminder goes to those who have not answered; reports are kept, and published where asked for."""
    team.forge = replace(team.forge, variables={"CAMPAIGNS_PAGE": "true"})
    jobs = team.send(Event("schedule", "refs/heads/main", team.tip()))
    assert jobs["send"].result == "success", jobs["send"].show()
    assert "25 recipients texted" in jobs["send"].log("Send")
    assert jobs["page"].result == "success"
    assert "coffee.html" in jobs["send"].artifacts["github-pages"]
    assert "coffee" in jobs["send"].summary
    return jobs["send"].artifacts["campaigns"]


def _find_nothing_to_do(team: Team) -> None:
    """The next hour there is nothing to send, and nothing to commit."""
    before = team.tip()
    jobs = team.send(Event("schedule", "refs/heads/main", before))
    assert jobs["send"].result == "success", jobs["send"].show()
    assert "nothing sent" in jobs["send"].log("Send")
    assert "Nothing to record" in jobs["send"].log("Record")
    assert team.tip() == before
