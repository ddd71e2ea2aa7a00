"""A renamed campaign on the command line: declared, nobody is texted again; undeclared, it stops."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from runner.ledger.database import Ledger
from runner.ledger.locks.campaign_lock import LockHolder, hold_campaign_lock

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_a_run_under_the_old_name_keeps_the_new_one_out(folder: Path, run: Run, run_process: Run) -> None:
    """While a run from an old checkout sends the campaign, none under its new name begins."""
    file = folder / "campaigns/pulse.yaml"
    renamed = file.read_text(encoding="utf-8").replace(
        "name: pulse", "name: heartbeat\nrenamed_from: [pulse]"
    )
    file.write_text(renamed, encoding="utf-8")
    old = LockHolder("elsewhere", 1, None, "now")
    with Ledger(f"sqlite:///{folder / '.runner/ledger.sqlite'}") as ledger:
        ledger.prepare()
        with hold_campaign_lock(ledger, "sandbox", ["pulse"], old):
            refused = run_process("apply", "--auto-approve", cwd=folder)
    assert refused.returncode == 6
    assert refused.stderr == (
        "Error: pulse on sandbox is being sent by another run: process 1 on elsewhere since now\n"
        "  wait until that run has ended, or have this one wait with --lock-timeout\n"
    )
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0


OPENER = "  - id: opener\n"


def rename_message(folder: Path, *, is_declared: bool) -> None:
    """Give the message `ask` of the campaign the id `opener`."""
    file = folder / "campaigns/pulse.yaml"
    declared = f"{OPENER}    renamed_from: [ask]\n" if is_declared else OPENER
    file.write_text(file.read_text(encoding="utf-8").replace("  - id: ask\n", declared), encoding="utf-8")


@pytest.mark.slow
def test_a_declared_new_id_texts_nobody_again(folder: Path, run: Run) -> None:
    """Whoever got the message under its old id counts as sent in plan, status and report, before and after apply."""
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    assert run("reconcile", cwd=folder).returncode == 0
    rename_message(folder, is_declared=True)
    for _ in range(2):
        plan = run("plan", "--format", "json", cwd=folder)
        (message,) = json.loads(plan.stdout)["campaigns"][0]["messages"]
        assert (message["id"], message["already_sent"], message["to_send"]) == ("opener", 4, 0)
        status = run("status", "--format", "json", cwd=folder)
        (message,) = json.loads(status.stdout)["campaigns"][0]["messages"]
        assert (message["id"], message["sent"], message["queued"] is None) == ("opener", 4, False)
        assert message["reconciled_at"] is not None
        report = run("report", "--format", "json", cwd=folder)
        assert json.loads(report.stdout)["messages"][0]["sent"] == 4
        applied = run("apply", "--auto-approve", cwd=folder)
        assert (applied.stdout, applied.stderr) == ("pulse: nothing sent.\n", "")
    lockfile = (folder / "campaigns/pulse.sandbox.lock.json").read_bytes()
    assert b'"message": "ask"' not in lockfile
    shutil.rmtree(folder / ".runner")
    plan = run("plan", "--detailed-exitcode", cwd=folder)
    assert plan.returncode == 0
    assert (folder / "campaigns/pulse.sandbox.lock.json").read_bytes() == lockfile


def test_status_goes_on_showing_a_message_that_is_gone(
    folder: Path, run: Run, check_json: Callable[[str, str], dict[str, Any]]
) -> None:
    """After an undeclared new id nothing is sent, and status has the old one's recipients."""
    with (folder / "campaigns/pulse.yaml").open("a", encoding="utf-8") as stream:
        stream.write("policy: {open_session: queue}\n")  # else the open survey would hold the message
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    rename_message(folder, is_declared=False)
    assert run("apply", "--auto-approve", cwd=folder).returncode == 4
    document = check_json(run("status", "--format", "json", cwd=folder).stdout, "status")
    new, old = document["campaigns"][0]["messages"]
    assert (new["id"], new["planned"], new["sent"]) == ("opener", None, 0)
    assert (old["id"], old["tag"], old["planned"], old["sent"]) == ("ask", None, None, 4)
    assert "  ask " in run("status", cwd=folder).stdout


def test_a_new_id_stops_an_old_checkout(folder: Path, run: Run) -> None:
    """Once the ledger knows the new id, a job that runs an older commit does not text everyone under the old one."""
    file = folder / "campaigns/pulse.yaml"
    before = file.read_text(encoding="utf-8")
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    rename_message(folder, is_declared=True)
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    file.write_text(before, encoding="utf-8")
    applied = run("apply", "--auto-approve", cwd=folder)
    assert applied.returncode == 1
    assert applied.stderr.startswith("Error: the ledger knows the message 'ask' as 'opener' now\n")
