"""SIGINT and SIGTERM, whenever they come: exit code 130, one clear line, and nothing lost."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
PATIENCE_S = 100
LOCKFILE = "campaigns/pulse.sandbox.lock.json"
STOPPING = "Stopping: waiting for the sends in flight. A second interrupt stops at once.\n"
RECORDED = "Error: interrupted; everything that was sent is recorded\n  run the same command again to send the rest\n"
MAIN = "\nfrom runner.__main__ import main\nmain()\n"
SAY_AMID_AUDIENCE = """
import sys, time
from runner.audience.rows import PhoneColumn
read, rows = PhoneColumn.read, iter(range(sys.maxsize))
def read_on(self, *cell):
    row = next(rows)
    if row == 1_000:
        print("amid the audience", file=sys.stderr, flush=True)
    if row >= 1_000:
        time.sleep(0.01)
    return read(self, *cell)
PhoneColumn.read = read_on
"""
"""It is not read to its end before the signal comes, however late that is."""
INTERRUPT = "import os, signal\ndef interrupt(*_): os.kill(os.getpid(), signal.SIGTERM)\n"
AT_EXIT = f"{INTERRUPT}import atexit\natexit.register(interrupt)\n"
AMID_LOCKFILE = f"""{INTERRUPT}
replace = os.replace
def interrupted(source, destination):
    if str(destination).endswith(".lock.json"):
        interrupt()
    replace(source, destination)
os.replace = interrupted
# However long the sends take: how far they are is said after some seconds.
import runner.cli.console
runner.cli.console._LINE_EVERY_S = 600
"""


@contextmanager
def started(folder: Path, *arguments: str, prelude: str = "", until: str) -> Iterator[subprocess.Popen[str]]:
    """Start the command as a process, and wait until it has written a line of standard error."""
    process = subprocess.Popen(
        [sys.executable, "-c", prelude + MAIN, *arguments],
        cwd=folder,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process:
        try:
            lines = iter(process.stderr.readline, "")
            assert any(line.startswith(until) for line in lines)
            yield process
        finally:
            process.kill()


def run_to_end(folder: Path, *arguments: str, prelude: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", prelude + MAIN, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def interrupt(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Send a signal; return what the process wrote to standard error until it ended with 130."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    return err


def edit(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.slow
@pytest.mark.parametrize("command", [["plan"], ["apply", "--auto-approve"], ["status"]])
def test_planning_is_interrupted(folder: Path, command: list[str]) -> None:
    """A large audience need not be read to its end, and no lockfile comes of it."""
    rows = "".join(f"Ada,415 2{row:06}\n" for row in range(60_000))
    (folder / "campaigns/audience/people.csv").write_text(f"first_name,mobile\n{rows}", encoding="utf-8")
    with started(folder, *command, prelude=SAY_AMID_AUDIENCE, until="amid the audience") as process:
        assert interrupt(process, signal.SIGINT) == "Interrupted.\n"
    assert not (folder / LOCKFILE).exists()


@pytest.mark.slow
@SIGNALS
def test_the_settle_window_is_interrupted(folder: Path, run: Run, number: signal.Signals) -> None:
    """What the first list has settled is on record and in the lockfile; the next run waits anew."""
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    edit(
        folder / ".runner/ledger.sqlite",
        "UPDATE launches SET state = 'unknown', project_launch_guid = NULL, outcome_at = NULL",
    )
    edit(
        folder / ".runner/sandbox/service.sqlite",
        "DELETE FROM launch WHERE id = (SELECT max(id) FROM launch)",
    )
    (folder / LOCKFILE).unlink()
    with started(
        folder, "apply", "--auto-approve", "--settle-window", "600s", until="pulse: waiting 600 s"
    ) as process:
        said = interrupt(process, number)
    assert said == f"{STOPPING}pulse: 3 launches of unknown outcome had been sent; recorded.\n{RECORDED}"
    assert len(json.loads((folder / LOCKFILE).read_text(encoding="utf-8"))["launches"]) == 3


@pytest.mark.slow
def test_the_lockfile_is_written_all_the_same(folder: Path) -> None:
    """An interrupt after the last send does not keep what was sent out of the lockfile."""
    done = run_to_end(folder, "apply", "--auto-approve", prelude=AMID_LOCKFILE)
    assert (done.returncode, done.stderr) == (130, STOPPING + RECORDED)
    assert done.stdout == "pulse: 4 people texted.\n"
    assert len(json.loads((folder / LOCKFILE).read_text(encoding="utf-8"))["launches"]) == 4


@pytest.mark.slow
def test_the_demo_is_interrupted_with_its_step(tmp_path: Path) -> None:
    """The step ends before the demo does, one of them says so, and the folder is named."""
    with started(tmp_path, "demo", "--dir", "look", until="$ runner plan") as process:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_S)
    said = [line for line in err.splitlines() if "Interrupted" in line]
    assert (process.returncode, said) == (130, ["Interrupted."])
    assert f"What it has done is in {tmp_path / 'look'}\n" in err


def test_what_is_done_stays_done(tmp_path: Path) -> None:
    """A signal while the process shuts down changes nothing of how the command ended."""
    done = run_to_end(tmp_path, "--version", prelude=AT_EXIT)
    assert (done.returncode, done.stdout.splitlines()[0], done.stderr) == (0, "runner, version 0.1.0", "")
