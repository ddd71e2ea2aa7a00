"""What doesn't go with `runner apply --cluster`, and what only goes with it, is refused before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

CLUSTER = ("--cluster", "local:2")


@pytest.mark.parametrize("as_variable", [False, True])
def test_a_state_remote_is_refused(run: Run, folder: Path, *, as_variable: bool) -> None:
    """Where all machines share a ledger there is nothing to share over git: naming both is a mistake."""
    arguments = () if as_variable else ("--state-remote", "origin")
    environment = {"RUNNER_STATE_REMOTE": "origin"} if as_variable else {}
    done = run("apply", *CLUSTER, *arguments, cwd=folder, env=environment)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == (
        "Error: --state-remote doesn't go with --cluster: the ledger is what all machines share\n"
        "  leave out --state-remote, and unset RUNNER_STATE_REMOTE\n"
    )


def test_a_folder_that_is_no_plan_set_is_refused(run: Run, folder: Path) -> None:
    """A folder that `runner plan --out` has not written says how to write one."""
    (folder / "set").mkdir()
    done = run("apply", "--plan", "set", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ("Error: set is no plan set\n  make one with `runner plan --cluster … --out DIR`\n")


def test_a_plan_that_is_not_there_is_refused(run: Run, folder: Path) -> None:
    """A path that names nothing is a mistake of the command line."""
    done = run("apply", "--plan", "set", cwd=folder)
    assert (done.returncode, done.stdout) == (64, "")
    assert "File 'set' does not exist." in done.stderr
