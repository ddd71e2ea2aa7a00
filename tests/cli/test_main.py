"""The command as a whole: help, mistakes on the command line, and what it imports."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from runner.cli.command import SYNONYMS, Command, Group
from runner.cli.main import COMMANDS, cli, show_failure
from runner.cli.main import run as run_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Run = Callable[..., subprocess.CompletedProcess[str]]


LONGEST_PAGE = 42


def test_help_imports_no_library_that_it_does_not_need(tmp_path: Path) -> None:
    """`runner --help` starts without YAML, Jinja2, JSON Schema, requests, SQLAlchemy or the web server."""
    code = (
        "import sys; from runner.cli.main import run; run(['--help']); "
        "heavy = {'yaml', 'jinja2', 'jsonschema', 'requests', 'sqlalchemy', 'uvicorn', 'rich', 'phonenumbers', 'msgspec', 'duckdb'}; "
        "sys.exit(', '.join(heavy & sys.modules.keys()) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def iterate_commands(ctx: click.Context, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield each command and group with its command line."""
    yield ctx.command_path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from iterate_commands(click.Context(below, parent=ctx, info_name=name), below)


TOP = click.Context(cli, info_name="runner", **cli.context_settings)
ALL = dict(iterate_commands(TOP, cli))


def test_each_help_page_fits_a_screen_and_shows_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns no page has more than 42 lines; the full one has what the short one leaves out, too."""
    monkeypatch.setenv("COLUMNS", "80")
    for line, command in ALL.items():
        words = line.split()[1:]
        assert run_command([*words, "--help"]) == 0
        shown = capsys.readouterr().out
        assert len(shown.splitlines()) <= LONGEST_PAGE, line
        assert isinstance(command, click.Group) or line in shown.partition("  Example")[2]
        assert words or all(f" {name} " in shown and said in shown for name, said in COMMANDS.items())
        if isinstance(command, (Command, Group)):
            assert run_command([*words, "--help-all"]) == 0
            full = capsys.readouterr().out
            assert all(name in full for one in command.params for name in one.opts if name.startswith("--"))


def test_common_options_stand_anywhere(run: Run, folder: Path) -> None:
    """Before the command's name or after it they mean the same; a later one beats one before."""
    own = ("--ledger", "sqlite:///own.sqlite")
    said = run("plan", "-v", *own, cwd=folder).stderr
    assert "Ledger: sqlite:///own.sqlite" in said
    assert run("-v", *own, "plan", cwd=folder).stderr == said
    assert run("--ledger", "sqlite:///x", "plan", "-v", *own, cwd=folder).stderr == said
    assert run("-q", "status", cwd=folder).stderr == ""


KNOWN = [*(line.removeprefix("runner ") for line in ALL), "--help", "--version"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("plna", "plan"),
        ("simulate", "sandbox simulate"),
        ("optouts lst", "optouts list"),
        ("ci plna", "ci plan"),
        ("sandbox nope", None),
        ("optouts forget", None),
        *((word, line) for word, line in SYNONYMS.items() if line in KNOWN),
        ("xyz", None),
    ],
)
def test_an_unknown_command_is_answered_with_the_one_that_is_meant(
    capsys: pytest.CaptureFixture[str], written: str, meant: str | None
) -> None:
    """By a typing error, or another word for it; and what is named exists."""
    assert run_command(written.split()) == 64
    said = f": did you mean `runner {meant}`?" if meant else ""
    last = written.rsplit(maxsplit=1)[-1]
    assert capsys.readouterr().err.endswith(f"Error: there is no command {last}{said}\n")
    if meant:
        assert run_command([*meant.split(), *([] if meant.startswith("-") else ["--help"])]) == 0


WEB = {"requests", "urllib3", "starlette", "uvicorn"}
FILES = {"duckdb", "pandas", "pyarrow", "fsspec", "dask"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "unneeded"),
    [
        ("validate", WEB | FILES | {"sqlalchemy", "asyncio", "rich", "holidays"}),
        ("plan", WEB | FILES | {"sqlalchemy.dialects.postgresql", "holidays"}),
        ("status", WEB | FILES | {"sqlalchemy.dialects.postgresql", "holidays"}),
        # Reports are counted by DuckDB.
        ("report", WEB | FILES - {"duckdb"} | {"sqlalchemy.dialects.postgresql", "holidays", "runner.plan"}),
    ],
)
def test_a_command_imports_no_library_that_it_does_not_need(
    run: Run, tmp_path: Path, name: str, unneeded: set[str]
) -> None:
    """Commands that people run all day start without what others need, in a new repository."""
    assert run("init", cwd=tmp_path).returncode == 0
    code = (
        f"import sys; from runner.cli.main import run; assert run([{name!r}]) == 0; "
        f"sys.exit(', '.join({unneeded!r} & sys.modules.keys()) or 0)"
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
        ["plan", "--lgder", "x"],
        ["plan", "elsewhere"],
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
    """`runner --version` names the program, Python and the packages that matter, each with its version."""
    own, python, packages = run_process("--version", cwd=tmp_path).stdout.splitlines()
    assert own == "runner, version 0.1.0"
    assert python.startswith(f"Python {platform.python_version()}, ")
    assert f"requests {metadata.version('requests')}, " in packages


@pytest.mark.slow
def test_completion_in_bash(run_process: Run, tmp_path: Path) -> None:
    """In a real bash, `runner re` and Tab offer the commands that begin so."""
    script = run_process("completion", "bash", cwd=tmp_path).stdout
    # Click's script asks for a newer bash than macOS has, on stderr alone: here the function is called by hand.
    typed = 'COMP_WORDS=(runner re); COMP_CWORD=1; _runner_completion runner; echo "${COMPREPLY[@]}"'
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{typed}"],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert sorted(done.stdout.split()) == sorted(name for name in COMMANDS if name.startswith("re"))


@pytest.mark.slow
def test_another_folder_can_be_named(run_process: Run, tmp_path: Path) -> None:
    """`runner -C DIR COMMAND` works as if it was started in DIR."""
    (tmp_path / "shop/campaigns").mkdir(parents=True)
    assert run_process("-C", "shop", "validate", cwd=tmp_path).returncode == 0
    assert run_process("validate", cwd=tmp_path).returncode == 1
    refused = run_process("-C", "nowhere", "validate", cwd=tmp_path)
    assert refused.returncode == 64
    assert "Directory 'nowhere' does not exist" in refused.stderr


@pytest.mark.slow
def test_a_folder_below_a_project_is_refused(run_process: Run, folder: Path) -> None:
    """What is recorded there, such as an opt-out, would be unknown to the project: it is named, with the way."""
    (folder / ".git").mkdir()
    below = folder / "notes"
    below.mkdir()
    for command in ("plan", "optouts add +14155550109", "pause pulse"):
        done = run_process(*command.split(), cwd=below)
        assert done.returncode == 64
        assert "run the command there, or as `runner -C .. …`" in done.stderr
        assert run_process("-C", "..", *command.split(), cwd=below).returncode == 0
    assert list(below.iterdir()) == []


@pytest.mark.parametrize("command", ["validate", "plan", "apply", "status", "reconcile", "report"])
def test_no_campaigns_is_an_error_with_a_way_on(run: Run, tmp_path: Path, command: str) -> None:
    """In a folder without campaigns, every command says so and what to do."""
    done = run(command, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: there is no folder {tmp_path / 'campaigns'}\n"
        "  `runner init` makes a project with a first campaign; in another folder: `runner -C FOLDER …`\n"
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
    ends = "Left out: campaigns/pulse.yaml: 1 error\n", "Error: 1 error: nothing was done\n"
    assert done.stderr.endswith(ends)
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
