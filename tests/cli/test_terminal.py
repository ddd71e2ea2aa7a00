"""What a person at a terminal sees: a real pseudo-terminal, the real command."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def run_at_terminal(folder: Path, *arguments: str, keys: str = "", columns: int = 200) -> tuple[int, str]:
    """Run the command at a terminal of its own and type `keys`; return exit code and all that it showed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "runner", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {
        "TERM": "xterm",
        "COLUMNS": str(columns),
    }
    process = subprocess.Popen(
        command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    os.write(ours, keys.encode())
    shown = b""
    while True:
        select.select([ours], [], [], 30)
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end is closed: the process has ended
            break
    os.close(ours)
    return process.wait(30), shown.decode()


def test_apply_asks_and_sends_on_yes(folder: Path) -> None:
    """At a terminal, apply says what it would send and asks; on yes it sends."""
    code, shown = run_at_terminal(folder, "apply", keys="y\n")
    assert code == 0
    assert "To send to sandbox: 4 recipients in 4 launches, 8 SMS segments. Send? [y/N]: " in shown
    assert "pulse: 4 recipients texted in 4 launches." in shown


@pytest.mark.parametrize("keys", ["n\n", "\n"])
def test_apply_sends_nothing_without_a_yes(folder: Path, keys: str) -> None:
    """Anything but a yes sends nothing, and is no success."""
    code, shown = run_at_terminal(folder, "apply", keys=keys)
    assert code == 1
    assert "not approved: nothing was sent" in shown
    assert not (folder / "campaigns/pulse.sandbox.lock.json").exists()


def test_a_terminal_gets_colour(folder: Path) -> None:
    """At a terminal without NO_COLOR the verdict is coloured."""
    code, shown = run_at_terminal(folder, "validate")
    assert code == 0
    assert "\x1b[32mValid\x1b[0m" in shown


def test_the_state_folder_is_private_and_ignored(folder: Path) -> None:
    """What a run leaves on the machine is for its user alone, and git doesn't see it."""
    run_at_terminal(folder, "apply", "--auto-approve")
    state = folder / ".runner"
    assert state.stat().st_mode & 0o077 == 0
    assert (state / "ledger.sqlite").stat().st_mode & 0o077 == 0
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    seen = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=folder, check=True, capture_output=True, text=True
    )
    assert ".runner" not in seen.stdout


def test_a_table_too_wide_for_the_terminal_becomes_blocks(folder: Path) -> None:
    """Names of columns never fold inside their words: each row is a block of names and values."""
    code, shown = run_at_terminal(folder, "plan", columns=60)
    assert code == 0
    lines = [line.rstrip() for line in shown.splitlines()]
    assert lines[1:4] == [
        "message: ask  rows: 6  duplicates: 1  excluded: 1",
        "  already sent: 0  unresolved: 0  over limit: 0  to send: 4",
        "  launches: 4  segments: 8",
    ]


def test_a_table_that_fits_stays_one(folder: Path) -> None:
    """A terminal that is wide enough shows a table."""
    _, shown = run_at_terminal(folder, "plan", columns=160)
    assert "already sent" in shown.splitlines()[1]
