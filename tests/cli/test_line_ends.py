"""Checkouts of one commit whose line ends differ, as those of Git for Windows do."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.inside import run_inside
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    ".gitignore": ".runner/\nplan.json\n",
    "campaigns/people.csv": 'name,phone,note\nAda,+14155550100,"two\nlines"\nBo,+14155550101,one\n',
    "campaigns/leavers.csv": "phone\n+14155550199\n",
    "campaigns/partials/body.j2": "Hi {{ name }},\nhere is the {{ note }}.\nBye",
    "campaigns/pulse.yaml": """\
version: 1
name: pulse
recipients:
  - csv: people.csv
exclude:
  - csv: leavers.csv
messages:
  - id: ask
    text: |
      News!
      {% include "partials/body.j2" %}
""",
}


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def clones(tmp_path: Path) -> list[Path]:
    """Two clones of one repository, with LF and with CRLF."""
    seed = tmp_path / "seed"
    for name, text in FILES.items():
        (seed / name).parent.mkdir(parents=True, exist_ok=True)
        (seed / name).write_text(text, encoding="utf-8")
    git(seed, "init", "-q", "-b", "main")
    git(seed, "add", "--all")
    git(seed, "commit", "-qm", "Start")
    git(tmp_path, "clone", "-q", "--bare", "seed", "remote.git")
    for name, setting in (("lf", "false"), ("crlf", "true")):
        git(tmp_path, "clone", "-q", "-c", f"core.autocrlf={setting}", "remote.git", name)
    assert b"\r\n" in (tmp_path / "crlf/campaigns/people.csv").read_bytes()
    return [tmp_path / "lf", tmp_path / "crlf"]


@pytest.mark.slow
@pytest.mark.parametrize("key", [STATE_KEY, ""])
def test_line_ends_make_no_difference(clones: list[Path], key: str) -> None:
    """One digest, one approval and one record, from texts, included texts, cells and lockfiles."""

    def run(folder: Path, *arguments: str) -> str:
        done = run_inside(*arguments, cwd=folder, env={"RUNNER_STATE_KEY": key})
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def plan_both() -> str:
        said = [run(folder, "plan", "--out", "plan.json") for folder in clones]
        found = {
            tuple(re.findall(r"Plan digest: (\w+)|(To send.*|Nothing to send.*)", text)) for text in said
        }
        assert len(found) == 1
        return said[1]

    lf, crlf = clones
    assert "To send to sandbox: 2 people now" in plan_both()
    run(crlf, "ci", "approve", "--plan", "plan.json", "--by", "ada")
    if key:
        book = "campaigns/sandbox.approvals.json"
        (lf / book).write_bytes((crlf / book).read_bytes().replace(b"\n", b"\r\n"))
        assert "pulse: approved by ada" in run(lf, "plan")
    run(crlf, "apply", "--plan", "plan.json")
    git(crlf, "add", "--all")
    git(crlf, "commit", "-qm", "Record")
    git(crlf, "push", "-q")
    git(lf, "checkout", "-q", ".")
    git(lf, "clean", "-qfd", "campaigns")
    git(lf, "pull", "-q")
    assert "Nothing to send." in plan_both()
