"""The command as a whole: help, mistakes on the command line, and what it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from runner.cli.main import COMMANDS, cli, show_failure
from runner.source.schema import schema_names

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]


def load(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def test_help_lists_every_command(run_process: Run, tmp_path: Path) -> None:
    """`runner --help` names each command with what it does."""
    helped = run_process("--help", cwd=tmp_path)
    assert helped.returncode == 0
    for name, words in COMMANDS.items():
        assert f"  {name} " in helped.stdout
        assert words in helped.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_shows_an_example(name: str) -> None:
    """Each command's help, and that of its subcommands, has an example of its use."""
    command = load(name)
    commands = command.commands.values() if isinstance(command, click.Group) else [command]
    for each in commands:
        assert each.help
        assert each.epilog
        assert f"runner {name}" in each.epilog


def test_help_imports_no_library_that_it_does_not_need(tmp_path: Path) -> None:
    """`runner --help` starts without YAML, Jinja2, JSON Schema, requests, SQLAlchemy or the web server."""
    code = (
        "import sys; from runner.cli.main import run; run(['--help']); "
        "heavy = {'yaml', 'jinja2', 'jsonschema', 'requests', 'sqlalchemy', 'uvicorn', 'rich', 'phonenumbers'}; "
        "sys.exit(', '.join(heavy & sys.modules.keys()) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["plan", "--nonsense"],
        ["plan", "missing.yaml"],
        ["plan", "--limit", "0"],
        ["preview"],
        ["schema", "x"],
    ],
)
def test_a_wrong_command_line_exits_with_64(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    """A mistake on the command line itself has an exit code of its own, and says what is wrong."""
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 64
    assert "Error: " in done.stderr
    assert done.stdout == ""


def test_version(run_process: Run, tmp_path: Path) -> None:
    """`runner --version` names the program and its version."""
    assert run_process("--version", cwd=tmp_path).stdout == "runner, version 0.1.0\n"


@pytest.mark.parametrize("name", schema_names())
def test_schema_prints_a_schema(run: Run, tmp_path: Path, name: str) -> None:
    """`runner schema NAME` prints a JSON Schema of the draft that the program uses."""
    schema = json.loads(run("schema", name, cwd=tmp_path).stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("command", ["validate", "plan", "apply", "status", "reconcile", "report"])
def test_no_campaigns_is_an_error_with_a_way_on(run: Run, tmp_path: Path, command: str) -> None:
    """In a folder without campaigns, every command says so and what to do."""
    done = run(command, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: there is no campaign in campaigns\n"
        "  write one: `runner schema campaign` prints the format, `runner demo` shows it at work\n"
    )


@pytest.mark.parametrize("command", ["plan", "apply", "status", "reconcile", "report"])
def test_invalid_campaigns_stop_every_command(run: Run, folder: Path, command: str) -> None:
    """A campaign with an error is shown with its place, and nothing else happens."""
    file = folder / "campaigns/pulse.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("recipients:", "recipents:"), encoding="utf-8")
    done = run(command, cwd=folder)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "campaigns/pulse.yaml:5:1: error: `recipents` is not a key: did you mean `recipients`? [key-unknown]\n"
    )
    assert done.stderr.endswith("Error: 1 error: nothing was sent\n")
    assert not (folder / "campaigns/pulse.sandbox.lock.json").exists()


def test_a_bug_is_said_without_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    """An error of the program itself is named with its place alone: values can be secret."""
    with pytest.raises(ValueError, match="secret") as caught:
        int("+14155550101 api_key=secret")
    assert show_failure(caught.value) == 1
    said = capsys.readouterr().err
    assert said.startswith("Internal error: ValueError at test_main.py:")
    assert "secret" not in said
    assert "555" not in said


def test_a_closed_pipe_ends_quietly(folder: Path) -> None:
    """`runner schema campaign | head -1` says nothing about the pipe."""
    command = f"{sys.executable} -m runner schema campaign | head -1"
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S602  a pipe is the point
    assert (done.stdout, done.stderr) == ("{\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    "arguments",
    [("apply", "--auto-approve", "--quiet"), ("plan",), ("status", "--format", "json"), ("--help",)],
)
def test_output_that_finds_no_room_is_said(folder: Path, arguments: tuple[str, ...]) -> None:
    """A full disk under standard output is told in one line, and what was sent is recorded."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "runner", *arguments],
            cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1,
        "Error: the output cannot be written: No space left on device; what was sent is recorded\n",
    )
    assert (folder / "campaigns/pulse.sandbox.lock.json").exists() == (arguments[0] == "apply")


def test_colour_is_off_without_a_terminal(run: Run, folder: Path) -> None:
    """What goes to a file or a pipe has no escape sequences in it."""
    for command in ("validate", "plan", "status", "preview campaigns/pulse.yaml"):
        done = run(*command.split(), cwd=folder)
        assert "\x1b" not in done.stdout + done.stderr
