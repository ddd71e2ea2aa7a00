"""The jobs of CI, each as one command: order, exit codes, and what is recorded before the first text leaves."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.forge.github_server import GitHub

    Run = Callable[..., subprocess.CompletedProcess[str]]

CAMPAIGN = """\
version: 1
name: {name}
recipients: [{{phone: "{phone}"}}]
messages: [{{id: hello, text: "Hello! Reply STOP to opt out."}}]
"""
KEYED = {"RUNNER_STATE_KEY": STATE_KEY}


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def write(folder: Path, name: str, number: int, **changes: str) -> None:
    text = CAMPAIGN.format(name=name, phone=f"+1415555{number:04}")
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / f"campaigns/{name}.yaml").write_text(text, encoding="utf-8")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of a repository with two campaigns, whose target is the sandbox."""
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for variable in ("GITHUB_ACTIONS", "GITHUB_REPOSITORY", "GITHUB_EVENT_PATH", "GITHUB_OUTPUT"):
        monkeypatch.delenv(variable, raising=False)
    git(tmp_path, "init", "--quiet", "--bare", "-b", "main", "remote.git")
    git(tmp_path, "clone", "--quiet", "remote.git", "clone")
    folder = tmp_path / "clone"
    git(folder, "checkout", "--quiet", "-B", "main")
    (folder / "campaigns").mkdir()
    write(folder, "coffee", 101)
    write(folder, "tea", 102)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "Start")
    git(folder, "push", "--quiet", "-u", "origin", "main")
    return folder


@pytest.mark.slow
def test_what_nobody_approved_waits_and_the_approval_is_recorded_before_it_is_sent(
    run: Run, clone: Path
) -> None:
    """The story of a campaign outside of GitHub: planned, approved, sent, and then there is nothing to do."""
    planned = run("ci", "plan", "--out", "ci", cwd=clone, env=KEYED)
    assert planned.returncode == 5
    assert "coffee is not approved: nothing was approved yet" in planned.stderr
    assert json.loads((clone / "ci/plan/plan.json").read_text(encoding="utf-8"))["approval"] == "needed"
    assert {"coffee.html", "tea.json", "index.html"} <= {
        file.name for file in (clone / "ci/reports").iterdir()
    }

    refused = run("ci", "send", "--out", "ci", cwd=clone, env=KEYED)
    assert refused.returncode == 64
    assert "nobody is named who approved it" in refused.stderr
    other = run("ci", "send", "--out", "ci", "--expect-digest", "0" * 32, "--by", "ada", cwd=clone, env=KEYED)
    assert other.returncode == 1
    sent = run("ci", "send", "--out", "ci", "--by", "ada", cwd=clone, env=KEYED)
    assert sent.returncode == 0, sent.stderr
    recorded, texted = (sent.stdout.index(words) for words in ("Record the approval", "person texted"))
    assert recorded < texted
    assert "approved_by" in git(clone, "show", "origin/main:campaigns/sandbox.approvals.json")

    again = run("ci", "plan", "--out", "ci", cwd=clone, env=KEYED)
    assert (again.returncode, "Nothing to send." in again.stdout) == (0, True), again.stderr
    assert run("ci", "finish", cwd=clone, env=KEYED).stdout.startswith("Nothing to record")


@pytest.mark.slow
def test_one_campaign_fails_and_the_job_goes_on_to_its_end(run: Run, clone: Path) -> None:
    """What is left out makes the job fail with its exit code; on GitHub a pause, which was asked for, does not."""
    write(clone, "coffee", 101, Hello="Hello {{ nobody }}")
    done = run("ci", "plan", "--out", "ci", "--campaign", "campaigns/tea.yaml", cwd=clone, env=KEYED)
    assert done.returncode == 5
    sent = run("ci", "send", "--out", "ci", "--by", "ada", cwd=clone, env=KEYED)
    assert sent.returncode == 0, sent.stderr
    assert "tea: 1 person texted." in sent.stdout
    assert (clone / "ci/reports/tea.html").is_file()
    done = run("ci", "plan", "--out", "ci", cwd=clone, env=KEYED)
    assert (done.returncode, "Left out: campaigns/coffee.yaml" in done.stderr) == (3, True)
    write(clone, "coffee", 101)
    assert run("pause", "coffee", cwd=clone, env=KEYED).returncode == 0
    for job, code in (({}, 7), ({"GITHUB_OUTPUT": str(clone.parent / "outputs")}, 0)):
        done = run("ci", "plan", "--out", "ci", cwd=clone, env=KEYED | job)
        assert done.returncode == code, done.stderr


@pytest.mark.slow
def test_the_job_that_plans_pauses_a_rollout_whose_guard_is_broken(run: Run, clone: Path) -> None:
    """Although it has nothing to send: the pause is recorded for all machines, with its figures."""
    people = ", ".join(f'{{phone: "+1415555{number}"}}' for number in range(1000, 1060))
    steps = "rollout: {steps: [{share: 50%, hold: 1h}, {share: 100%}], guards: {opt_outs: 2%}}\n"
    asks = 'messages: [{id: ask, questions: [{tag: why, text: "Why?"}]}]\n'
    text = f"version: 1\nname: coffee\nrecipients: [{people}]\n{steps}{asks}"
    (clone / "campaigns/coffee.yaml").write_text(text, encoding="utf-8")
    assert run("apply", "--auto-approve", cwd=clone, env=KEYED).returncode == 0
    with closing(open_store(clone / ".runner/sandbox/service.sqlite")) as store:
        for number in range(1000, 1060):
            Service(store).receive(f"+1415555{number}", "STOP", datetime.now(UTC))
    run("sandbox", "clock", "+2h", cwd=clone)
    done = run("ci", "plan", "--out", "ci", cwd=clone, env=KEYED)
    assert done.returncode == 7, done.stderr
    assert "rollout step 1 (50%): " in git(clone, "show", "origin/main:campaigns/sandbox.suppressions.json")
    # The pause is known to the plan of the next job, whose plan it does not change.
    assert run("ci", "plan", "--out", "ci", cwd=clone, env=KEYED).returncode == 7


@pytest.mark.slow
def test_jobs_set_their_outputs(run: Run, clone: Path, github: GitHub) -> None:
    """In a job of GitHub the plan waits for the job that sends, with what that asks for."""
    outputs = clone.parent / "outputs"
    env = KEYED | github.job(clone.parent, GITHUB_OUTPUT=str(outputs), GITHUB_REF_NAME="main")
    done = run("ci", "plan", "--out", str(clone.parent / "ci"), cwd=clone, env=env)
    assert done.returncode == 0, done.stderr
    said = dict(line.split("=") for line in outputs.read_text(encoding="utf-8").splitlines())
    assert (said["to-send"], said["approval"], said["reports"]) == ("2", "needed", "true")
    assert len(said["plan-digest"]) == 32
    done = run("ci", "finish", "--outcome", "failure", cwd=clone, env=env)
    assert (done.returncode, github.issues[0]["title"]) == (0, "Campaigns on sandbox: a run failed")


@pytest.mark.parametrize(
    "campaign", ["docs/tea.yaml", "campaigns/../docs/tea.yaml", "campaigns/..", "/etc/x"]
)
def test_a_campaign_from_elsewhere_is_refused(run: Run, clone: Path, campaign: str) -> None:
    """The targets.yaml beside it would say where the credentials go."""
    done = run("ci", "plan", "--out", "ci", "--campaign", campaign, cwd=clone)
    assert done.returncode == 64
    assert done.stderr.startswith(f"Error: a job is not about '{campaign}'\n")


@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        ({}, 64, "this is no job of GitHub that somebody has started by hand"),
        ({"action": "send"}, 64, "this is no job of GitHub that somebody has started by hand"),
        ({"action": "pause"}, 64, "pause takes a campaign, and none was named"),
        ({"action": "pause", "campaign": "docs/tea.yaml"}, 64, "a job is not about 'docs/tea.yaml'"),
        ({"action": "adopt-all", "campaign": "campaigns/tea.yaml"}, 5, "nobody approved this run"),
        ({"action": "pause", "campaign": "campaigns/tea.yaml", "reason": "ill"}, 0, ""),
    ],
)
def test_what_a_person_asks_for_takes_consent_and_a_pause_none(
    run: Run, clone: Path, github: GitHub, inputs: dict[str, Any], code: int, said: str
) -> None:
    """What was asked stands in the job's event."""
    env = KEYED | github.job(clone.parent, GITHUB_RUN_ID="42")
    (clone.parent / "event.json").write_text(json.dumps({"inputs": inputs}), encoding="utf-8")
    done = run("ci", "act", cwd=clone, env=env)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    if code == 0:
        assert '"reason":"ill"' in git(clone, "show", "origin/main:campaigns/sandbox.suppressions.json")


def test_without_a_target_nothing_is_done(run: Run, clone: Path) -> None:
    """A new repository's jobs succeed until there is a targets.yaml."""
    env = {"RUNNER_TARGET": "live"}
    done = run("ci", "plan", "--out", "ci", cwd=clone, env=env)
    assert (done.returncode, done.stdout) == (
        0,
        "There is no campaigns/targets.yaml to say where to: nothing is sent.\n",
    )
    assert run("ci", "finish", cwd=clone, env=env).returncode == 0


def test_the_former_names_are_answered_by_the_new_ones(run: Run, clone: Path) -> None:
    """Each part of a job is below `runner ci`."""
    for name in ("comment", "approve", "record", "alert", "replies"):
        assert run("ci", name, "--help", cwd=clone).returncode == 0
    assert run("record", cwd=clone).returncode == 64
