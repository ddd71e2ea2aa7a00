"""The hook that other repositories run before a commit (https://pre-commit.com/#new-hooks)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

import runner
from runner.cli.main import COMMANDS

FILE = Path(runner.__file__).parent.parent / ".pre-commit-hooks.yaml"


def read_hook() -> dict[str, Any]:
    (hook,) = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    assert isinstance(hook, dict)
    return hook


def test_the_hook_runs_the_installed_command() -> None:
    """The hook is Python, is installed from this repository, and runs once for all campaigns."""
    hook = read_hook()
    assert (hook["id"], hook["language"], hook["pass_filenames"]) == ("runner-validate", "python", False)
    program, command = shlex.split(hook["entry"])
    assert program == "runner"
    assert command in COMMANDS


@pytest.mark.parametrize(
    ("path", "matters"),
    [
        ("campaigns/pulse.yaml", True),
        ("campaigns/audience/people.csv", True),
        ("campaigns/partials/footer.j2", True),
        ("marketing/campaigns/eu/pulse.yml", True),
        ("campaigns/pulse.live.lock.json", False),
        ("README.md", False),
        ("old-campaigns/pulse.yaml", False),
    ],
)
def test_the_hook_runs_for_what_campaigns_are_made_of(path: str, *, matters: bool) -> None:
    """A change of an audience or a partial alone runs the hook; a lockfile or another file does not."""
    hook = read_hook()
    is_chosen = re.search(hook["files"], path) and not re.search(hook["exclude"], path)
    assert bool(is_chosen) == matters
