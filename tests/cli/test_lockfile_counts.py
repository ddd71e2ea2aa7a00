"""`lockfile: counts`: the ledger on PostgreSQL is the record, and nothing is sent without it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.keys import OTHER_STATE_KEY, STATE_KEY

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.postgres import PostgresServer

    Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_only_the_ledger_knows_who_was_texted(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> None:
    """Nobody is texted again, also under a new key; with another ledger every command stops and says why."""
    file = folder / "campaigns/pulse.yaml"
    file.write_text(file.read_text(encoding="utf-8") + "lockfile: counts\n", encoding="utf-8")
    refused = run("apply", "--auto-approve", cwd=folder)
    assert refused.returncode == 1
    assert "`lockfile: counts` needs a ledger on PostgreSQL" in refused.stderr
    monkeypatch.setenv("RUNNER_STATE_KEY", OTHER_STATE_KEY)
    own = postgres.url(postgres.create_ledger())
    monkeypatch.setenv("RUNNER_LEDGER", own)
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    lockfile = folder / "campaigns/pulse.sandbox.lock.json"
    written = lockfile.read_bytes()
    assert "launches" not in json.loads(written)
    assert json.loads(written)["counts"][0]["launches"] > 0
    monkeypatch.setenv("RUNNER_LEDGER", postgres.url(postgres.create_ledger()))
    for command in (("plan",), ("apply", "--auto-approve"), ("status",), ("reconcile",)):
        refused = run(*command, cwd=folder)
        assert refused.returncode == 1, command
        assert "the ledger is not the one that the lockfile " in refused.stderr
        assert "use the ledger that it was written with (RUNNER_LEDGER)" in refused.stderr
    monkeypatch.setenv("RUNNER_LEDGER", own)
    monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)
    monkeypatch.setenv("RUNNER_OLD_STATE_KEY", OTHER_STATE_KEY)
    assert run("key", "rotate", "--auto-approve", cwd=folder).returncode == 0
    assert lockfile.read_bytes() != written
    again = run("apply", "--auto-approve", "--format", "json", cwd=folder)
    assert (again.returncode, json.loads(again.stdout)["campaigns"][0]["sent"]) == (0, 0)
