"""Pauses and opt-outs that only a git remote has: `apply` looks there itself, before and while it sends."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.repository.free_ref import leave_free_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

PHONES = [f"+1415555{number:04}" for number in range(100, 140)]
CAMPAIGN = """\
version: 1
name: pulse
recipients: [{csv: people.csv}]
limits: {recipients_per_send: 1}
messages: [{id: ask, text: Hello}]
"""
PROTECTED = "#!/bin/sh\nwhile read old new ref; do [ $ref = refs/heads/main ] && exit 1; done; exit 0\n"


def protect(remote: Path) -> None:
    """Have a remote take no push to main."""
    (remote / "hooks/pre-receive").write_text(PROTECTED, encoding="utf-8")
    (remote / "hooks/pre-receive").chmod(0o755)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def world(tmp_path: Path, serve: Callable[..., Any]) -> Iterator[dict[str, str]]:
    """The environment of a service, and two clones of a repository, `here` and `there`."""
    git(tmp_path, "init", "--quiet", "--bare", "-b", "main", "remote.git")
    git(tmp_path, "clone", "--quiet", "remote.git", "there")
    (tmp_path / "there/campaigns").mkdir()
    (tmp_path / "there/campaigns/pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
    people = "\n".join(["phone", *PHONES])
    (tmp_path / "there/campaigns/people.csv").write_text(people, encoding="utf-8")
    for setting in ("user.name=Ada", "user.email=ada@example.com"):
        git(tmp_path / "there", "config", *setting.split("="))
    git(tmp_path / "there", "checkout", "-q", "-B", "main")
    git(tmp_path / "there", "add", ".")
    git(tmp_path / "there", "commit", "-qm", "Campaign")
    git(tmp_path / "there", "push", "-q", "origin", "main")
    shutil.copytree(tmp_path / "there", tmp_path / "here")
    with serve(tmp_path, "--db", "service.sqlite") as environment:
        yield environment


def wait_for_texts(service: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a run has texted somebody, by the service's own records."""
    texted = 0
    while not texted:
        assert process.poll() is None
        time.sleep(0.05)
        with closing(sqlite3.connect(service)) as connection:
            ((texted,),) = connection.execute("SELECT count(*) FROM session")


def record(run: Run, folder: Path, environment: dict[str, str], *command: str) -> None:
    """Enter something there, and record it on the remote."""
    assert run(*command, cwd=folder, env=environment).returncode == 0
    assert run("ci", "record", cwd=folder, env=environment).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("store", ["main", "ref"])
def test_a_pause_of_another_machine_is_heard(
    tmp_path: Path, world: dict[str, str], run: Run, store: str
) -> None:
    """It stands on main, which was not pulled; or on the state remote, where nobody has to record it."""
    if store == "ref":
        protect(tmp_path / "remote.git")
        leave_free_ref(tmp_path / "there")
        world["RUNNER_STATE_REMOTE"] = "origin"
    record(run, tmp_path / "there", world, "pause", "pulse", "--reason", "a wrong link")
    done = run("apply", "--auto-approve", cwd=tmp_path / "here", env=world)
    assert (done.returncode, done.stdout) == (7, "")
    assert "pulse is paused since " in done.stderr
    record(run, tmp_path / "there", world, "resume", "pulse")
    assert run("apply", "--auto-approve", "--limit", "1", cwd=tmp_path / "here", env=world).returncode == 0


def test_an_opt_out_entered_elsewhere_is_heard(tmp_path: Path, world: dict[str, str], run: Run) -> None:
    """Nobody has to have pulled it."""
    record(run, tmp_path / "there", world, "optouts", "add", *PHONES[1:])
    done = run("apply", "--auto-approve", cwd=tmp_path / "here", env=world)
    assert (done.returncode, done.stdout) == (0, "pulse: 1 person texted.\n")


def test_a_remote_that_cannot_be_asked_stops(tmp_path: Path, world: dict[str, str], run: Run) -> None:
    """What it may have cannot be known; a person may say that this machine's files are enough."""
    (tmp_path / "remote.git").rename(tmp_path / "away.git")
    done = run("apply", "--auto-approve", cwd=tmp_path / "here", env=world)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "Error: the record on the git remote origin cannot be read, and this clone may lack a pause or an opt-out: "
    )
    assert done.stderr.endswith(
        ". Nothing was sent\n  check git and the network; where there is no way to the remote, "
        "`--record-remote none` goes by this machine's files\n"
    )
    told = {**world, "RUNNER_RECORD_REMOTE": "none"}
    assert run("apply", "--auto-approve", "--limit", "1", cwd=tmp_path / "here", env=told).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("store", ["main", "ref"])
def test_a_pause_of_another_machine_stops_a_run(
    tmp_path: Path, world: dict[str, str], run: Run, store: str
) -> None:
    """A run under way looks at the remote every few seconds, and loses nothing of what was added to its ref."""
    if store == "ref":
        leave_free_ref(tmp_path / "there")
        world["RUNNER_STATE_REMOTE"] = "origin"
    campaign = tmp_path / "here/campaigns/pulse.yaml"
    campaign.write_text(CAMPAIGN.replace("limits: {", "limits: {rate: 1/s, "), encoding="utf-8")
    command = [sys.executable, "-m", "runner", "apply", "--auto-approve", "--concurrency", "1"]
    with subprocess.Popen(
        command, cwd=tmp_path / "here", env={**os.environ, **world}, stdout=subprocess.PIPE, text=True
    ) as process:
        wait_for_texts(tmp_path / "service.sqlite", process)
        assert run("pause", "pulse", cwd=tmp_path / "there", env=world).returncode == 0
        if store == "main":
            assert run("ci", "record", cwd=tmp_path / "there", env=world).returncode == 0
        said, _ = process.communicate(timeout=100)
    assert process.returncode == 7
    assert " left for the next run, since this one ended early." in said
    assert run("plan", cwd=tmp_path / "there", env=world).returncode == 7
