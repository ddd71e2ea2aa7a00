"""The folder of what belongs to this machine alone: git never takes up what is in it."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from runner.errors import RunnerError
from runner.workflow.workspace.folders import make_state_folder
from tests.cli.inside import run_inside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IGNORES = ".runner/.gitignore"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty git repository, the current folder."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def no_room() -> Iterator[None]:
    """Let no file grow: what a full disk does."""
    # A module that is compiled meanwhile for the first time would be kept in part, for every process.
    is_quiet, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
        sys.dont_write_bytecode = is_quiet


def list_untracked(repository: Path) -> str:
    """Return what git would add."""
    (repository / ".runner/ledger.sqlite").write_bytes(b"texts and answers")
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout


def test_a_full_disk_leaves_no_file_that_ignores_nothing(repository: Path) -> None:
    """The first run says that there is no room; the next one keeps git from the folder all the same."""
    with no_room(), pytest.raises(RunnerError) as caught:
        make_state_folder()
    assert caught.value.message == f"the folder {repository / '.runner'} cannot be made: File too large"
    assert list((repository / ".runner").iterdir()) == []
    make_state_folder()
    assert (repository / IGNORES).read_text(encoding="utf-8") == "*\n"
    assert list_untracked(repository) == ""


CAMPAIGN = """\
version: 1
name: coffee
recipients: [{phone: "+14155550101"}]
messages: [{id: news, text: "Coffee?"}]
"""


def test_a_ledger_that_git_has_brought_is_not_believed(repository: Path) -> None:
    """It could say that nobody was texted, and no line of it is signed; on the sandbox it harms nobody."""
    (repository / "campaigns").mkdir()
    (repository / "campaigns/coffee.yaml").write_text(CAMPAIGN, encoding="utf-8")
    live = {"RUNNER_BASE_URL": "https://sms.example.com", "RUNNER_USERNAME": "ada", "RUNNER_API_KEY": "key"}
    make_state_folder()
    (repository / ".runner/ledger.sqlite").touch()
    assert run_inside("status", cwd=repository, env=live).returncode == 0
    subprocess.run(["git", "add", "--force", ".runner/ledger.sqlite"], cwd=repository, check=True)
    for command in (("status",), ("apply", "--auto-approve"), ("reconcile",)):
        done = run_inside(*command, cwd=repository, env=live)
        assert done.returncode == 1
        assert done.stderr == (
            "Error: .runner/ledger.sqlite is in the git repository: anybody who can change it there could change "
            "who was texted, and nothing signs it\n"
            "  take it out: `git rm -r --cached .runner`, commit, and go on in a new clone; the record in git is "
            "the lockfiles\n"
        )
    assert run_inside("status", cwd=repository).returncode == 0
