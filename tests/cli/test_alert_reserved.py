"""`runner ci alert` and the state remote: launches that another machine reserved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from runner.git.lease import LeasePatience
from runner.ledger.files.lockfile import dump_reservation
from runner.ledger.fingerprint import TargetKey
from runner.ledger.locks.campaign_lock import LockHolder
from runner.ledger.model import ReservedLaunch
from runner.service.target import Target
from runner.workflow.scope import Scope
from runner.workflow.workspace.state_remote import StateRemote
from tests.cli.test_record import clone, isolated_git, remote

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.forge.github_server import GitHub

    Run = Callable[..., CompletedProcess[str]]

__all__ = ["isolated_git", "remote"]
LIVE = {"RUNNER_BASE_URL": "https://survey.example", "RUNNER_TARGET": "live"}


def alert(run: Run, github: GitHub, here: Path, *options: str, **variables: str) -> str:
    """Run the command as a job of main, and return what it said."""
    names = {"GITHUB_REF_TYPE": "branch", "GITHUB_REF_NAME": "main", "GITHUB_JOB": "send"}
    done = run("ci", "alert", *options, cwd=here, env=github.job(here.parent) | names | LIVE | variables)
    assert done.returncode == 0
    return done.stderr


def reserve(campaign: str, people: int) -> tuple[StateRemote, LockHolder]:
    """Reserve a launch on the state remote, as a machine does that is about to send it."""
    state = StateRemote.open("origin", Target("live"), Scope(state_lease_s=1))
    launch = ReservedLaunch(
        "ask",
        "k" * 20,
        "tag",
        "0" * 32,
        tuple(f"{n:020x}" for n in range(people)),
        "1" * 32,
        "2026-11-20T12:00:00Z",
    )
    text = dump_reservation(TargetKey.of("live", None), campaign, [launch], [])
    holder = LockHolder("elsewhere", 1, None, "2026-11-20T12:00:00Z")
    with state.hold(holder.describe(), "run", LeasePatience()):
        state.add_reserved(campaign, text)
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
        "| coffee | campaigns/coffee.yaml | ask | 3 | about to be sent, and no answer proves whether it was |\n"
        in body
    )
    assert "`runner resolve --target live` lists them" in body
    with state.hold(holder.describe(), "run 2", LeasePatience()):
        alert(run, github, here, "--state-remote", "origin")
    body = github.issues[0]["body"]
    assert "- [ ] **3 people are held** when it was last known: " in body
    assert "(another run is sending: " in body
    assert json.loads(body.split("\n")[1].removeprefix("<!-- state ").removesuffix(" -->"))["held"] == 3
