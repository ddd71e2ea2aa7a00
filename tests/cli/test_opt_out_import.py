"""`runner optouts import`: what two machines know of opt-outs comes together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from runner.cli.main import run as run_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


ADA, BOB = "+14155550101", "+14155550102"


@pytest.fixture
def run_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, str]]:
    """Run a command on one of several machines; return what it writes to standard output and error."""

    def run(machine: str, *arguments: str) -> tuple[str, str]:
        folder = tmp_path / machine
        (folder / "campaigns").mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(folder)
        assert run_command(arguments) == 0
        out, err = capsys.readouterr()
        return out, err

    return run


def test_an_opt_out_that_is_newer_than_the_decision_here_is_entered(
    run_in: Callable[..., tuple[str, str]],
) -> None:
    """Whoever was let in on two machines, and then opted out on one of them, is texted by neither."""
    run_in("here", "optouts", "add", ADA)
    run_in("here", "optouts", "export", "--out", "../first.jsonl")
    run_in("there", "optouts", "import", "../first.jsonl")
    for machine in ("there", "here"):
        run_in(machine, "optouts", "remove", ADA, "--auto-approve")
    run_in("here", "optouts", "add", ADA)
    run_in("here", "optouts", "export", "--out", "../second.jsonl")
    out, err = run_in("there", "optouts", "import", "../second.jsonl")
    assert out == "1 entry new. sandbox: 1 person has opted out; 0 doubtful replies wait for a decision.\n"
    assert err == ""


def test_what_is_left_out_is_said(run_in: Callable[..., tuple[str, str]]) -> None:
    """Of people who were let in later than the file says anything of them, their number is told."""
    run_in("here", "optouts", "add", ADA, BOB)
    run_in("here", "optouts", "export", "--out", "../first.jsonl")
    run_in("there", "optouts", "import", "../first.jsonl")
    run_in("there", "optouts", "remove", ADA, "--auto-approve")
    out, err = run_in("there", "optouts", "import", "../first.jsonl", "--format", "json", "--quiet")
    assert (json.loads(out)["changed"], json.loads(out)["opted_out"]) == (0, 1)
    assert err == "Warning: 1 entry left out: dismissed here, and the file says nothing newer\n"
