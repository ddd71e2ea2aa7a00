"""Files that change while a run waits: what was reviewed is what is sent, or nothing is."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

CAMPAIGN = """\
version: 1
name: pulse
tag: pulse-2026
recipients: [{csv: people.csv}]
messages:
  - {id: ask, text: "Hello {{ first_name }}{% include 'end.txt' %}"}
  - {id: bye, text: "See you"}
"""
TARGETS = "version: 1\ntargets: {live: {base_url: 'BASE'}}\n"
EDITS = {
    "campaigns/pulse.yaml": CAMPAIGN.replace("See you", "Never reviewed"),
    "campaigns/people.csv": "phone,first_name\n+14155550102,Eve\n",
    "campaigns/end.txt": ", never reviewed",
    "campaigns/targets.yaml": TARGETS.replace("live", "other"),
}


@pytest.fixture
def world(tmp_path: Path, serve: Callable[..., Any]) -> Iterator[dict[str, str]]:
    """The environment of a service, and in the folder a campaign that includes a file."""
    (tmp_path / "campaigns").mkdir()
    with serve(tmp_path, "--db", "service.sqlite") as environment:
        base = TARGETS.replace("BASE", environment["RUNNER_BASE_URL"])
        (tmp_path / "campaigns/targets.yaml").write_text(base, encoding="utf-8")
        (tmp_path / "campaigns/pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
        (tmp_path / "campaigns/people.csv").write_text(
            "phone,first_name\n+14155550101,Ada\n", encoding="utf-8"
        )
        (tmp_path / "campaigns/end.txt").write_text("!", encoding="utf-8")
        yield {**environment, "RUNNER_SETTLE_WINDOW": "1s"}


@contextmanager
def running_apply(folder: Path, environment: dict[str, str], *options: str) -> Iterator[tuple[Any, int]]:
    """Run `apply` at a terminal while the block lasts; yield the process and our end of the terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", "apply", *options],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **environment, "NO_COLOR": "1", "COLUMNS": "200"},
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, end: str | None) -> str:
    """Return what a terminal shows until the words `end`, or until the process has ended."""
    shown = ""
    while end is None or end not in shown:
        try:
            shown += os.read(terminal, 65536).decode()
        except OSError:  # the process has ended
            assert end is None, shown
            break
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("file", EDITS)
def test_a_file_that_changes_in_the_wait_is_not_sent(
    tmp_path: Path, world: dict[str, str], run: Run, file: str
) -> None:
    """After the plan was checked, a new machine waits for the service's list: what changes then stops the run."""
    assert run("plan", "--out", "plan.json", cwd=tmp_path, env=world).returncode == 0
    with running_apply(tmp_path, world, "--plan", "plan.json") as (process, terminal):
        assert "waiting" in read_until(terminal, "what it already got.")
        (tmp_path / file).write_text(EDITS[file], encoding="utf-8")
        shown = read_until(terminal, None)
        assert process.wait() == 1
    assert "texted" not in shown
    assert f"pulse: {file} has changed since it was planned" in shown
    assert "nothing was sent; make a new plan, as with `runner plan --out FILE`, and review that" in shown
    assert not list((tmp_path / "campaigns").glob("*.lock.json"))


@pytest.mark.slow
@pytest.mark.parametrize("file", EDITS)
def test_a_file_that_changes_at_the_question_is_not_sent(
    tmp_path: Path, world: dict[str, str], file: str
) -> None:
    """The terminal shows what it would send; if that changes before the answer, nothing is sent."""
    with running_apply(tmp_path, {**world, "RUNNER_SETTLE_WINDOW": "10ms"}) as (process, terminal):
        read_until(terminal, "Send? [y/N]: ")
        (tmp_path / file).write_text(EDITS[file], encoding="utf-8")
        os.write(terminal, b"y\n")
        shown = read_until(terminal, None)
        assert process.wait() == 1
    assert f"pulse: {file} has changed since it was planned" in shown
    assert "nothing was sent; run the same command again" in shown
    assert not list((tmp_path / "campaigns").glob("*.lock.json"))
