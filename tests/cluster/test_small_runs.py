"""Runs that start their own workers, and runs in one process after one on a cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from runner.ledger.database import Ledger
from runner.ledger.locks.campaign_lock import LockHolder, hold_campaign_lock, read_clock
from runner.ledger.locks.cluster_run import begin_cluster_run, open_round
from runner.ledger.locks.partition_lease import LeaseClaim, LeaseTerms, PartitionLease, acquire_lease
from runner.ledger.tables import partition_leases
from tests.cli.inside import run_inside
from tests.cluster.sending_farm import ending, finish, read_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.postgres import PostgresServer

CAMPAIGN = """\
version: 1
name: pulse
tag: pulse-2026
recipients:
  - {phone: '+14155550101', vars: {name: Ada}}
  - {phone: '+14155550102', vars: {name: Grace}}
messages:
  - {id: ask, text: 'Hello {{ name }}!'}
"""


@pytest.fixture
def ledger_url(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new ledger on a server, in whose folder a campaign is, which the sandbox gets."""
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / "pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
    url = postgres.url(postgres.create_database())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNNER_LEDGER", url)
    return url


def test_a_campaign_goes_from_file_to_report_on_processes_of_this_machine(
    run_process: Callable[..., subprocess.CompletedProcess[str]], ledger_url: str, tmp_path: Path
) -> None:
    """With `local:N` the client runs the sandbox and its workers, and nothing has to be set for either."""
    assert ledger_url
    cluster = ("--quiet", "--cluster", "local:2")
    done = run_process("apply", "--auto-approve", *cluster, cwd=tmp_path, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "pulse: 2 recipients texted in 2 launches.\n",
        "",
    )
    assert (tmp_path / "campaigns" / "pulse.sandbox.lock.json").exists()
    assert run_inside("sandbox", "simulate", cwd=tmp_path).returncode == 0
    done = run_process(
        "report", "--reconcile", "--format", "json", "--out", "out", *cluster, cwd=tmp_path, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    (report,) = json.loads((tmp_path / "out" / "pulse.json").read_text(encoding="utf-8"))["messages"]
    assert (report["sent"], report["recipients"]) == (2, 2)
    assert not list((tmp_path / ".runner" / "cluster").iterdir())


@pytest.mark.slow
def test_a_run_in_one_process_waits_for_tasks_of_a_lost_one(ledger_url: str, tmp_path: Path) -> None:
    """Whoever sends next, with or without a cluster, says for whose lease it waits, and how long at most."""
    holder = LockHolder("ci-1", 41, None, "2026-11-20T12:00:00.000000Z")
    with Ledger(ledger_url) as ledger, ExitStack() as stack:
        ledger.prepare()
        lock = stack.enter_context(hold_campaign_lock(ledger, "sandbox", ["pulse"], holder))
        with ledger.writing() as connection:
            begin_cluster_run(connection, "0123456789abcdef", "sandbox", lock.terms, 30)
            open_round(connection, "0123456789abcdef", 1)
        claim = LeaseClaim("0123456789abcdef", 1, 0, "process 7 on node-1", "partition 0 of pulse")
        # Longer than any machine takes to come to it; it is ended once it is waited for.
        assert isinstance(acquire_lease(ledger, claim, LeaseTerms.lasting(500), read_clock), PartitionLease)
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", "apply", "--auto-approve"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with ending(process):
        said = read_until(process, re.compile("at most\\.\n"))
        words = r"pulse: an earlier run's tasks may still send: waiting for process 7 on node-1, (\d+) s at most\.\n"
        found = re.fullmatch(words, said)
        assert found is not None, said
        assert int(found[1]) <= 500
        assert process.poll() is None
        with Ledger(ledger_url) as ledger, ledger.writing() as connection:
            connection.execute(update(partition_leases).values(expires_at=0.0))
        assert finish(process) == (0, "pulse: 2 recipients texted in 2 launches.\n", "")
