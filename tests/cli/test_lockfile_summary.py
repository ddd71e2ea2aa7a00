"""`lockfile: summary` on the command line: the ledger is the record, and nothing is sent without it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    Run = Callable[..., subprocess.CompletedProcess[str]]


def set_kind(folder: Path, before: str, after: str) -> None:
    file = folder / "campaigns/pulse.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace(before, after, 1), encoding="utf-8")


def test_the_ledger_alone_knows_who_was_texted(folder: Path, run: Run) -> None:
    """Nobody is texted again; without the ledger every command that goes by the record stops and says why."""
    set_kind(folder, "name: pulse\n", "name: pulse\nlockfile: summary\n")
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    lockfile = folder / "campaigns/pulse.sandbox.lock.json"
    written = lockfile.read_bytes()
    assert json.loads(written)["kind"] == "summary"
    again = run("apply", "--auto-approve", "--format", "json", cwd=folder)
    assert (again.returncode, json.loads(again.stdout)["campaigns"][0]["sent"]) == (0, 0)
    assert lockfile.read_bytes() == written
    for file in (folder / ".runner").glob("ledger.sqlite*"):
        file.rename(folder / file.name)
    for command in (("plan",), ("apply", "--auto-approve"), ("status",), ("reconcile",)):
        refused = run(*command, cwd=folder)
        assert refused.returncode == 1
        assert "the ledger is not the one that the lockfile " in refused.stderr
        assert "fill a new one with `runner ledger copy --from URL`" in refused.stderr
    for file in folder.glob("ledger.sqlite*"):
        file.replace(folder / ".runner" / file.name)
    set_kind(folder, "lockfile: summary", "lockfile: full")
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    assert sum(len(one["recipients"]) for one in json.loads(lockfile.read_bytes())["launches"]) == 4


def test_a_large_lockfile_is_noticed(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a lockfile holds very many launches, it is said once that it need not."""
    monkeypatch.setattr("runner.workflow.workspace.workspace.MANY_LAUNCHES", 0)
    applied = run("apply", "--auto-approve", cwd=folder)
    (line,) = [line for line in applied.stderr.splitlines() if "lockfile" in line]
    assert line.startswith("pulse: its lockfile holds ")
    assert line.endswith(
        " launches. With `lockfile: summary` in the campaign it holds counts and digests instead, and the "
        "ledger the rest."
    )
