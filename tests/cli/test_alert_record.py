"""`runner ci alert` and the git remote: a record that waits to be merged, and launches that another machine reserved."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING

import pytest

from runner.git.recording import MOST_WAITING
from runner.ledger.files.lockfile import dump_reservation
from runner.ledger.fingerprint import TargetKey
from runner.ledger.locks.campaign_lock import LockHolder
from runner.ledger.model import Reservation, ReservedLaunch
from runner.service.target import Target
from runner.workflow.workspace.state_remote import StateRemote
from tests.cli.test_record import clone, git, isolated_git, protect, remote, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.forge.github_server import GitHub

    Run = Callable[..., CompletedProcess[str]]

__all__ = ["isolated_git", "remote"]
PAGE = "https://github.example/acme/campaigns"
LIVE = {"RUNNER_BASE_URL": "https://survey.example", "RUNNER_TARGET": "live"}


def record_aside(run: Run, remote: Path, folder: Path, *numbers: int) -> Path:
    """Have a machine record launches on the branch aside, since main takes no push."""
    protect(remote, "refs/heads/main")
    here = clone(remote, folder)
    run("ci", "record", "--fetch", cwd=here)
    write(here, *numbers)
    assert run("ci", "record", cwd=here).returncode == 0
    return here


def alert(run: Run, github: GitHub, here: Path, *options: str, **variables: str) -> str:
    """Run the command as a job of main, and return what it said."""
    names = {"GITHUB_REF_TYPE": "branch", "GITHUB_REF_NAME": "main", "GITHUB_JOB": "send"}
    done = run("ci", "alert", *options, cwd=here, env=github.job(here.parent) | names | LIVE | variables)
    assert done.returncode == 0
    return done.stderr


@pytest.mark.parametrize("depth", [pytest.param((), marks=pytest.mark.slow), ("--depth=1",)])
def test_a_record_that_waits_is_listed(
    run: Run, remote: Path, tmp_path: Path, github: GitHub, depth: tuple[str, ...]
) -> None:
    """The issue says since when, which commits, and where to merge them; in a shallow clone, too."""
    record_aside(run, remote, tmp_path / "first", 1)
    record_aside(run, remote, tmp_path / "second", 1, 2)
    here = clone(remote, tmp_path / "third", *depth)
    assert alert(run, github, here).startswith("Issue opened: ")
    (issue,) = github.issues
    assert issue["title"] == "Campaigns on live: the record waits to be merged"
    commits = git(remote, "log", "-2", "--format=%h", "--abbrev=10", "runner/record").split("\n")
    minutes = git(
        remote, "log", "-2", "--date=format-local:%Y-%m-%d %H:%M UTC", "--format=%cd", "runner/record"
    ).split("\n")
    assert (
        f"- [ ] **The record waits to be merged:** 2 commits wait on the branch runner/record, since {minutes[1]}\n"
        in issue["body"]
    )
    assert (
        "#### The record waits to be merged\n\nmain took no push from the run. Merge runner/record into it: "
        f"[open a pull request]({PAGE}/compare/main...runner/record?expand=1). Until then runs go on from runner/record.\n\n"
        "| commit | made | what it records |\n|---|---|---|\n"
        f"| {commits[0]} | {minutes[0]} | Record 2 texts of coffee on live |\n"
        f"| {commits[1]} | {minutes[1]} | Record 2 texts of coffee on live |\n"
    ) in issue["body"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--no-ff", "--squash"])
def test_a_merged_record_waits_no_more(
    run: Run, remote: Path, tmp_path: Path, github: GitHub, how: str
) -> None:
    """However it was merged, the issue is closed; a shallow clone that knows no history closes it, too."""
    record_aside(run, remote, tmp_path / "first", 1)
    alert(run, github, clone(remote, tmp_path / "second"))
    (remote / "hooks/update").unlink()
    merger = clone(remote, tmp_path / "merger")
    git(merger, "merge", "--quiet", how, "origin/runner/record")
    if how == "--squash":
        git(merger, "commit", "--quiet", "-m", "Merge the record (#12)")
    git(merger, "push", "--quiet", "origin", "main")
    here = clone(remote, tmp_path / "third", "--depth=1")
    assert alert(run, github, here, "--outcome", "success").startswith("Issue closed, all is well: ")
    body = github.issues[0]["body"]
    assert "- [x] No job has failed since.\n" in body
    assert "- [x] No record waits to be merged.\n" in body
    assert "Not known here: whether people are held" in body


@pytest.mark.slow
def test_what_was_merged_before_is_not_listed(run: Run, remote: Path, tmp_path: Path, github: GitHub) -> None:
    """Of a branch that is gone on with after a merge, only what is new waits: in a shallow clone as well."""
    record_aside(run, remote, tmp_path / "first", 1)
    (remote / "hooks/update").unlink()
    merger = clone(remote, tmp_path / "merger")
    git(merger, "merge", "--quiet", "--no-ff", "origin/runner/record")
    git(merger, "push", "--quiet", "origin", "main")
    record_aside(run, remote, tmp_path / "second", 1, 2)
    alert(run, github, clone(remote, tmp_path / "third", "--depth=1"))
    assert "1 commit waits on the branch runner/record" in github.issues[0]["body"]


def test_a_record_that_the_branch_was_merged_into_still_waits(
    run: Run, remote: Path, tmp_path: Path, github: GitHub
) -> None:
    """The forge's button that updates a pull request's branch hides nothing."""
    record_aside(run, remote, tmp_path / "first", 1)
    (remote / "hooks/update").unlink()
    other = clone(remote, tmp_path / "other")
    git(other, "commit", "--quiet", "--allow-empty", "-m", "Something else")
    git(other, "push", "--quiet", "origin", "main")
    git(other, "checkout", "--quiet", "runner/record")
    git(other, "merge", "--quiet", "--no-ff", "-m", "Merge main", "main")
    git(other, "push", "--quiet", "origin", "runner/record")
    alert(run, github, clone(remote, tmp_path / "second"))
    assert "1 commit waits on the branch runner/record" in github.issues[0]["body"]
    assert "Merge main" not in github.issues[0]["body"]


def test_hundreds_of_commits_that_wait_fit(run: Run, remote: Path, tmp_path: Path, github: GitHub) -> None:
    """Of many commits the last ones are looked at, and ten are shown."""
    record_aside(run, remote, tmp_path / "first", 1)
    here = clone(remote, tmp_path / "other")
    git(here, "checkout", "--quiet", "-B", "aside", "origin/runner/record")
    for number in range(2, 15):
        write(here, *range(1, number + 1))
        git(here, "commit", "--quiet", "-am", f"Record {number} @ada | <b>")
    git(here, "push", "--quiet", "origin", "aside:runner/record")
    alert(run, github, clone(remote, tmp_path / "second"))
    body = github.issues[0]["body"]
    assert "14 commits wait" in body
    assert "\n… and 4 more\n" in body
    assert MOST_WAITING > 14
    assert "@ada" not in body
    assert "<b>" not in body


@pytest.mark.slow
def test_a_commit_of_digits_alone_is_shown_whole(
    run: Run, remote: Path, tmp_path: Path, github: GitHub
) -> None:
    """What may look like a phone number is none: one commit in a hundred begins with ten digits."""
    record_aside(run, remote, tmp_path / "first", 1)
    here = clone(remote, tmp_path / "other")
    git(here, "checkout", "--quiet", "-B", "aside", "origin/runner/record")
    write(here, 1, 2)
    git(here, "add", "--all")
    tree = git(here, "write-tree")
    made = (git(here, "commit-tree", "-p", "HEAD", "-m", f"Record {number}", tree) for number in count())
    commit = next(one for one in made if one[:10].isdigit())
    git(here, "push", "--quiet", "origin", f"{commit}:refs/heads/runner/record")
    alert(run, github, clone(remote, tmp_path / "second"))
    assert f"| {commit[:10]} | " in github.issues[0]["body"]


def test_a_remote_that_cannot_be_reached_is_told_of(
    run: Run, remote: Path, tmp_path: Path, github: GitHub
) -> None:
    """What is not known is not taken for merged, and no password is shown."""
    record_aside(run, remote, tmp_path / "first", 1)
    here = clone(remote, tmp_path / "second")
    alert(run, github, here)
    git(here, "remote", "set-url", "origin", "https://ada:geheim@127.0.0.1:9/x.git")
    assert alert(run, github, here).startswith("Issue edited: ")
    body = github.issues[0]["body"]
    assert "- [ ] **The record waits to be merged** on the branch runner/record\n" in body
    assert (
        "- Not known here: whether the record waits to be merged (the remote origin cannot be reached: "
        in body
    )
    assert "geheim" not in body


def test_a_clone_on_no_branch_is_told_of(run: Run, remote: Path, tmp_path: Path) -> None:
    """Without a branch to compare with it is not known whether the record waits; --branch names it."""
    record_aside(run, remote, tmp_path / "first", 1)
    here = clone(remote, tmp_path / "second")
    git(here, "checkout", "--quiet", "--detach")
    gap = "whether the record waits to be merged (the work tree is not on a branch (a detached HEAD))"
    printed = run("ci", "alert", cwd=here, env=LIVE).stdout
    assert gap in printed
    assert (
        "1 commit waits on the branch runner/record"
        in run("ci", "alert", "--branch", "main", cwd=here, env=LIVE).stdout
    )


def reserve(campaign: str, people: int) -> tuple[StateRemote, LockHolder]:
    """Reserve a launch on the state remote, as a machine does that is about to send it."""
    state = StateRemote.open("origin", Target("live"), 1)
    launch = ReservedLaunch(
        "ask",
        "k" * 20,
        "tag",
        "0" * 32,
        tuple(f"{n:020x}" for n in range(people)),
        "1" * 32,
        "2026-11-20T12:00:00Z",
    )
    text = dump_reservation(Reservation("r1", (launch,)), campaign, TargetKey.of("live", None))
    holder = LockHolder("elsewhere", 1, None, "2026-11-20T12:00:00Z")
    with state.hold(holder, "run", lambda _: False, timeout_s=0, settle_s=0, quiet=True):
        state.add(campaign, text)
    return state, holder


@pytest.mark.slow
def test_launches_that_a_lost_machine_reserved_hold_people(
    run: Run, remote: Path, tmp_path: Path, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --state-remote a machine without a ledger counts them; not while another one is sending."""
    here = clone(remote, tmp_path / "here")
    monkeypatch.chdir(here)
    state, holder = reserve("coffee", 3)
    alert(run, github, here, "--state-remote", "origin")
    body = github.issues[0]["body"]
    assert (
        "| coffee | campaigns/coffee.yaml | ask | 3 | 1 | about to be sent, and no answer proves whether it was |\n"
        in body
    )
    assert "`runner resolve --target live --state-remote origin` lists them" in body
    with state.hold(holder, "run 2", lambda _: False, timeout_s=0, settle_s=0, quiet=True):
        alert(run, github, here, "--state-remote", "origin")
    body = github.issues[0]["body"]
    assert "- [ ] **3 recipients are held** when it was last known: " in body
    assert "(another run is sending: " in body
    assert json.loads(body.split("\n")[1].removeprefix("<!-- state ").removesuffix(" -->"))["held"] == 3
