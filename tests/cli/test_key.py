"""`runner key`: state keys, and records that are moved to a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.service.state_key import read_state_key

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


def test_a_new_key_is_a_good_one(run: Run, tmp_path: Path) -> None:
    """Printed alone, so that it can be piped to where secrets are kept; each time another."""
    first, second = (run("key", "new", cwd=tmp_path) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert read_state_key({"KEY": first.stdout.removesuffix("\n")}, "KEY")
    assert first.stdout != second.stdout
    assert len(first.stdout.splitlines()) == 1


def test_a_weak_key_stops_every_command(run: Run, tmp_path: Path) -> None:
    """It is refused where it is read, before anything else; the key is not shown."""
    done = run("optouts", "add", "+14155550101", cwd=tmp_path, env={"RUNNER_STATE_KEY": "hunter2"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: the key in RUNNER_STATE_KEY can be guessed: it has less than 16 random bytes\n"
        "  `runner key new` prints a good one. If something was sent with this one, `runner key rotate` moves "
        "the records, with the new key in RUNNER_STATE_KEY and the old one in RUNNER_OLD_STATE_KEY\n"
    )
