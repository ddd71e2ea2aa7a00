"""The table of settings: options, variables, keywords and keys of the same meaning."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

import runner
from runner.cli.command import COMMON_OPTIONS
from runner.cli.main import cli
from runner.settings import COMMON, SETTINGS, TARGET, Setting, read_settings

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

REPOSITORY = Path(__file__).parents[2]


def test_python_takes_the_same_settings() -> None:
    """`runner.open` has a keyword for each setting of all commands, and no other settings."""
    others = {"campaigns", "environ", "observer", "verbose"}
    assert set(inspect.signature(runner.open).parameters) == {one.name for one in (TARGET, *COMMON)} | others


def test_the_command_line_takes_the_same_settings() -> None:
    """Each setting's option is one of all commands, or of the command that the table names."""
    common = {name for option in COMMON_OPTIONS for name in option.opts}
    for setting in SETTINGS:
        if setting.command:
            command: click.Command | None = cli
            for word in setting.command.split():
                assert isinstance(command, click.Group)
                command = command.get_command(click.Context(cli), word)
            assert command is not None
            assert setting.option in {name for one in command.params for name in one.opts}
        elif setting.option and setting != TARGET:
            assert setting.option in common


def test_each_variable_is_in_the_table() -> None:
    """A RUNNER_ variable that the code names is a setting's."""
    named = {
        name
        for file in (REPOSITORY / "runner").rglob("*.py")
        for name in re.findall(r'"(RUNNER_[A-Z_]*[A-Z])"', file.read_text(encoding="utf-8"))
    }
    known = {one.variable for one in SETTINGS}
    assert named - known <= {
        "RUNNER_SANDBOX_API_KEY",
        "RUNNER_APPROVED_BY",
        "RUNNER_PLAN_DENIED_BY",
        "RUNNER_REVIEWED_BY",
        "RUNNER_PULL_REQUEST",
        "RUNNER_RECORDED",
    }


@pytest.mark.parametrize("setting", [TARGET, *COMMON], ids=lambda one: one.name)
def test_an_option_beats_the_environment(setting: Setting) -> None:
    """A given value is taken as it is, and the variable's otherwise; an empty variable is not set."""
    environ = {setting.variable: "yes"}
    set_there = {"switch": True, "list": ("yes",)}.get(setting.kind, "yes")
    assert read_settings({}, environ)[setting.name] == set_there
    assert read_settings({setting.name: "given"}, environ)[setting.name] == "given"
    assert not read_settings({}, {setting.variable: ""})[setting.name]


def test_further_folders_come_from_the_environment(run: Run, folder: Path) -> None:
    """RUNNER_ALLOW_PATH lists folders with commas between them, as --allow-path names one."""
    campaigns = folder / "project/campaigns"
    campaigns.mkdir(parents=True)
    text = (folder / "campaigns/pulse.yaml").read_text(encoding="utf-8")
    (campaigns / "pulse.yaml").write_text(
        text.replace("audience/people.csv", "../../campaigns/audience/people.csv"), encoding="utf-8"
    )
    project = folder / "project"
    assert run("validate", cwd=project).returncode == 1
    for place in ("../campaigns/audience", f"elsewhere, {folder}/campaigns/audience"):
        assert run("validate", cwd=project, env={"RUNNER_ALLOW_PATH": place}).returncode == 0
    assert run("--allow-path", "../campaigns/audience", "validate", cwd=project).returncode == 0
