"""What one machine has learned of people, the next one knows: from the state remote, from files, from both."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from runner.git.command import Git
from tests.repository.free_ref import leave_free_ref

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

ADA, BOB, CY = "+14155550101", "+14155550102", "+14155550103"
KEY = "Zm9yIHRlc3RzIG9ubHksIHJlYWxseSE0"
CAMPAIGN = f"""\
version: 1
name: pulse
recipients:
  - phone: "{ADA}"
  - phone: "{BOB}"
  - phone: "{CY}"
messages:
  - id: hello
    text: "Hi. Reply STOP to opt out."
"""


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A clone of a repository with a campaign, whose remote has a free state ref."""
    Git(tmp_path).run("init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
    Git(tmp_path).run("clone", "--quiet", "remote.git", "first")
    clone = tmp_path / "first"
    (clone / "campaigns").mkdir()
    (clone / "campaigns/pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
    (clone / "campaigns/targets.yaml").write_text(
        "version: 1\ntargets:\n  live:\n    base_url: http://127.0.0.1:9\n    state_remote: origin\n",
        encoding="utf-8",
    )
    git = Git(clone)
    git.run("add", "campaigns")
    git.run("-c", "user.name=A", "-c", "user.email=a@localhost", "commit", "--quiet", "-m", "Begin")
    git.run("push", "--quiet", "origin", "HEAD:main")
    leave_free_ref(clone)
    return clone


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["ref", "files", "both", "ref and old files", "old ref and files"])
def test_decisions_reach_a_new_machine_by_any_store(first: Path, run: Run, kept: str) -> None:
    """Somebody opted out, was let in again, was forgotten, and the campaign was paused: a new clone knows."""
    env = {"RUNNER_STATE_KEY": KEY, "RUNNER_TARGET": "live"}
    book = first / "campaigns/live.suppressions.json"

    def decide(*arguments: str) -> None:
        done = run(*arguments, cwd=first, env=env)
        assert done.returncode == 0, done.stderr

    decide("optouts", "add", ADA, BOB)
    old = book.read_bytes()
    before = Git(first).run("ls-remote", "origin", "refs/runner/live").split()[0]
    decide("optouts", "remove", BOB, "--auto-approve")
    forgotten = run("forget", CY, "--auto-approve", cwd=first, env=env)
    assert forgotten.returncode == 0
    assert forgotten.stderr == ("Other machines learn of it from refs/runner/live on origin.\n")
    decide("pause", "pulse", "--reason", "wait")
    second = first.parent / "second"
    Git(first.parent).run("clone", "--quiet", "remote.git", "second")
    if kept == "old ref and files":
        Git(first).run("push", "--quiet", "--force", "origin", f"{before}:refs/runner/live")
    if kept == "files":
        Git(first).run("push", "--quiet", "origin", "--delete", "refs/runner/live")
    if kept in ("files", "both", "old ref and files"):
        shutil.copy(book, second / "campaigns")
    if kept == "ref and old files":
        (second / "campaigns" / book.name).write_bytes(old)
    plan = run("plan", cwd=second, env=env)
    assert plan.returncode == 7, plan.stderr
    row = next(line.split() for line in plan.stdout.splitlines() if line.startswith("hello"))
    # Rows, opted out, paused, to send.
    assert row[1:5] == ["3", "2", "1", "0"], plan.stdout
    assert not (second / ".runner/ledger.sqlite").exists()


def test_a_decision_that_reached_nobody_is_not_said_to_have(first: Path, run: Run) -> None:
    """The remote takes no push: it is told, and nothing else is claimed."""
    hook = first.parent / "remote.git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    done = run("optouts", "add", ADA, cwd=first, env={"RUNNER_STATE_KEY": KEY, "RUNNER_TARGET": "live"})
    assert done.returncode == 0
    assert "could not be brought to refs/runner/live on origin" in done.stderr
    assert "Other machines learn" not in done.stderr


def test_a_renamed_target_is_held_by_its_ref(first: Path, run: Run) -> None:
    """Where no file is on a branch, opt-outs of the former name are on its ref alone; an empty ref tells nothing."""
    env = {"RUNNER_STATE_KEY": KEY}
    targets = first / "campaigns/targets.yaml"
    targets.write_text(targets.read_text("utf-8").replace("live:", "prod:"), encoding="utf-8")
    plan = run("plan", "--target", "prod", cwd=first, env=env)
    assert plan.returncode == 0, plan.stderr
    targets.write_text(targets.read_text("utf-8").replace("prod:", "live:"), encoding="utf-8")
    added = run("optouts", "add", ADA, "--target", "live", cwd=first, env=env)
    assert added.returncode == 0, added.stderr
    second = first.parent / "second"
    Git(first.parent).run("clone", "--quiet", "remote.git", "second")
    targets = second / "campaigns/targets.yaml"
    targets.write_text(targets.read_text("utf-8").replace("live:", "prod:"), encoding="utf-8")
    plan = run("plan", "--target", "prod", cwd=second, env=env)
    assert plan.returncode == 4, plan.stdout
    assert "the target 'prod' has no record, and there is one of 'live'" in plan.stderr
