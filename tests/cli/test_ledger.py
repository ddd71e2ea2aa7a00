"""`runner ledger`: a lost ledger comes back from its export."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

from runner.source.json_schema import schema_text

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_a_lost_ledger_comes_back(folder: Path, run: Run) -> None:
    """With a lockfile that sums up, a lost ledger is filled from its export; then nobody is texted again."""
    file = folder / "campaigns/pulse.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("name: pulse\n", "name: pulse\nlockfile: summary\n"), encoding="utf-8")
    refused = run("ledger", "export", "backup", cwd=folder)
    assert (refused.returncode, refused.stderr) == (
        1,
        (
            "Error: there is no ledger to export\n"
            "  check --ledger and RUNNER_LEDGER; `runner apply` makes one\n"
        ),
    )
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    assert run("reconcile", cwd=folder).returncode == 0
    exported = run("ledger", "export", "backup", cwd=folder)
    assert exported.stdout.startswith("Wrote backup: 1 campaign, ")
    assert exported.stdout.endswith(", 4 deliveries, 0 results.\n")
    for path in (folder / ".runner").glob("ledger.sqlite*"):
        path.unlink()
    assert run("plan", cwd=folder).returncode == 1
    imported = run("ledger", "import", "backup", "--format", "json", cwd=folder)
    document = json.loads(imported.stdout)
    Draft202012Validator(json.loads(schema_text("ledger"))).validate(document)
    assert (document["command"], document["rows"]["deliveries"]) == ("import", 4)
    applied = run("apply", "--auto-approve", "--format", "json", cwd=folder)
    assert (applied.returncode, json.loads(applied.stdout)["campaigns"][0]["sent"]) == (0, 0)
    options = ("--target", "sandbox", "--ledger", "sqlite:///.runner/ledger.sqlite", "--format", "json")
    chosen = run("ledger", "export", "chosen", "campaigns/pulse.yaml", *options, cwd=folder)
    Draft202012Validator(json.loads(schema_text("ledger"))).validate(json.loads(chosen.stdout))
    again = run("ledger", "export", "chosen", cwd=folder)
    assert again.returncode == 1
    assert again.stderr == ("Error: chosen exists and is not empty\n  name a new folder\n")


def test_a_password_with_an_at_sign_is_not_printed(folder: Path, run: Run) -> None:
    """Nothing of the URL is said where the end of its password cannot be told."""
    for command in (("plan", "-v"), ("apply", "--auto-approve")):
        done = run(*command, cwd=folder, env={"RUNNER_LEDGER": "postgresql://ada:s3@cret@127.0.0.1:9/ledger"})
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "Error: the ledger's URL has more than one `@`, so the end of its password is unclear\n"
            "  write %40 for an `@` in the user's name or the password, in --ledger or RUNNER_LEDGER\n"
        )
