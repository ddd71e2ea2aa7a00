"""Provenance: lockfile and report say which commit, which plan and which job sent a launch."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

JOB = {
    "GITHUB_SERVER_URL": "https://github.example",
    "GITHUB_REPOSITORY": "acme/surveys",
    "GITHUB_RUN_ID": "4711",
    "GITHUB_ACTOR": "ada",
    "GITHUB_TRIGGERING_ACTOR": "bob[bot]",
}
IDENTITY = {
    f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


@pytest.fixture(autouse=True)
def _no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's CI job, whoever runs these tests."""
    for name in [*JOB, "CI_JOB_URL", "GITLAB_USER_LOGIN", "GITHUB_SHA"]:
        monkeypatch.delenv(name, raising=False)


def git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(folder: Path) -> Path:
    """The folder as a repository whose files are all committed."""
    git(folder, "init", "--initial-branch=main")
    (folder / ".gitignore").write_text(".runner/\nplan.json\n", encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-m", "A campaign")
    return folder


def apply(run: Run, folder: Path, *options: str, env: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Send, and return the runs that the lockfile names afterwards."""
    done = run("apply", "--auto-approve", *options, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return read_runs(folder)


def read_runs(folder: Path) -> list[dict[str, Any]]:
    lockfile = json.loads((folder / "campaigns/pulse.sandbox.lock.json").read_text(encoding="utf-8"))
    runs: list[dict[str, Any]] = lockfile.get("runs", [])
    assert {launch.get("run") for launch in lockfile["launches"]} == {one["id"] for one in runs}
    return runs


def test_a_job_is_told_with_its_commit(repository: Path, run: Run) -> None:
    """The commit is the one that is checked out, whatever the job was started for."""
    (one,) = apply(run, repository, env={**JOB, "GITHUB_SHA": "0" * 40})
    told = {"commit", "id", "plan_digest", "run_url", "seal", "started_at", "triggered_by"}
    assert one.keys() == told | {"audience"}
    assert one["commit"] == git(repository, "rev-parse", "HEAD")
    assert one["run_url"] == "https://github.example/acme/surveys/actions/runs/4711"
    assert one["triggered_by"] == "bob[bot]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_dirty"),
    [
        ("pulse.yaml", True),
        ("audience/people.csv", True),
        ("partials/footer.j2", True),
        ("targets.yaml", False),
        ("audience/others.csv", False),
        ("other.lock.json", False),
    ],
)
def test_only_the_campaigns_own_files_make_it_dirty(
    repository: Path,
    run: Run,
    name: str,
    is_dirty: bool,  # noqa: FBT001
) -> None:
    """What differs from the commit is told where it may change what is sent."""
    file = repository / "campaigns" / name
    file.parent.mkdir(exist_ok=True)
    if name != "targets.yaml":
        with file.open("a", encoding="utf-8") as stream:
            stream.write("\n")
    (one,) = apply(run, repository, "campaigns/pulse.yaml")
    assert one.get("dirty", False) is is_dirty


@pytest.mark.slow
def test_a_report_says_how_it_was_sent(
    repository: Path, run: Run, check_json: Callable[[str, str], dict[str, Any]]
) -> None:
    """Each run stands there with what it has sent, in every document."""
    apply(run, repository, "--limit", "1", env=JOB)
    first, second = apply(run, repository)
    report = check_json(run("report", "--format", "json", cwd=repository).stdout, "report")
    assert [(one["id"], one["launches"], one["recipients"]) for one in report["runs"]] == [
        (first["id"], 1, 1),
        (second["id"], 3, 3),
    ]
    assert report["runs"][0]["triggered_by"] == "bob[bot]"
    markdown = run("report", cwd=repository).stdout
    assert "<summary>How it was sent</summary>\n" in markdown
    assert "[open](https://github.example/acme/surveys/actions/runs/4711)" in markdown
    assert "is not on record" not in markdown


@pytest.mark.slow
def test_another_machine_reports_the_same(repository: Path, run: Run) -> None:
    """A ledger that is filled from the lockfile knows the runs, and writes the lockfile as it was."""
    (one,) = apply(run, repository, env=JOB)
    file = repository / "campaigns/pulse.sandbox.lock.json"
    before = file.read_bytes()
    (repository / ".runner/ledger.sqlite").unlink()
    assert run("reconcile", cwd=repository).returncode == 0
    report = json.loads(run("report", "--format", "json", cwd=repository).stdout)
    assert [each["id"] for each in report["runs"]] == [one["id"]]
    assert file.read_bytes() == before


@pytest.mark.slow
def test_branches_unite_their_runs(repository: Path, run: Run, serve: Callable[..., Any]) -> None:
    """Each branch has sent in a run of its own; merged, every launch has the run that sent it."""
    other = repository.parent / f"{repository.name}-other"
    git(repository, "config", "user.email", "a@example.com")
    with serve(repository, "--db", ".runner/service.sqlite") as service:
        environment = {**service, "RUNNER_STATE_KEY": STATE_KEY, "RUNNER_SETTLE_WINDOW": "0.1s"}
        git(repository, "clone", "-q", str(repository), str(other))
        for folder in (repository, other):
            done = run("apply", "--limit", "1", "--auto-approve", cwd=folder, env=environment)
            assert done.returncode == 0, done.stderr
            git(folder, "add", "campaigns")
            git(folder, "commit", "-m", "Sent")
        # The second one has found what the first had sent at the service alone.
        lockfile = json.loads((other / "campaigns/pulse.live.lock.json").read_text(encoding="utf-8"))
        assert [launch.get("run") for launch in lockfile["launches"]].count(None) == 1
        git(other, "fetch", "-q")
        with pytest.raises(subprocess.CalledProcessError):
            git(other, "merge", "origin/main")
        assert run("reconcile", cwd=other, env=environment).returncode == 0
    merged = json.loads((other / "campaigns/pulse.live.lock.json").read_text(encoding="utf-8"))
    assert len(merged["runs"]) == len(merged["launches"]) == 2
    assert {launch["run"] for launch in merged["launches"]} == {one["id"] for one in merged["runs"]}
