"""The README is true: what it shows is run here, as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Run = Callable[..., subprocess.CompletedProcess[str]]

REPOSITORY = Path(__file__).parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def iterate_blocks() -> Iterator[tuple[str, str | None, str]]:
    """Yield language, file name and content of the README's blocks of code."""
    for language, name, content in _BLOCK.findall(README):
        yield language, name or None, content


def iterate_steps(session: str) -> Iterator[tuple[list[str], str]]:
    """Yield the commands of a console session, each with the output that is shown."""
    for step in re.split(r"^\$ runner ", session, flags=re.MULTILINE)[1:]:
        command, _, output = step.partition("\n")
        yield shlex.split(command), output


def test_the_tour_is_true(run: Run, tmp_path: Path) -> None:
    """Every command of the tour writes what the README shows."""
    steps = 0
    for language, name, content in iterate_blocks():
        if name is not None:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(content, encoding="utf-8")
        elif language == "console":
            for command, output in iterate_steps(content):
                done = run(*command, cwd=tmp_path)
                # Notes such as "Wrote …" go to standard error.
                shown = done.stdout + done.stderr
                assert [line.rstrip() for line in shown.splitlines()] == output.splitlines(), command
                steps += 1
    assert steps >= 8


def test_pushing_what_init_wrote_is_all_there_is_to_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The README's way from an empty folder to the forge ends with the workflows on its main."""
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
    settings = tmp_path / "gitconfig"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    blocks = [(language, content) for language, _, content in iterate_blocks() if "acme" in content]
    (_, session), (_, script) = [block for block in blocks if block[0] in {"console", "sh"}]
    for command, _ in iterate_steps(session):
        assert run(*command, cwd=tmp_path).returncode == 0
    (address,) = re.findall(r"git@\S+", script)
    settings.write_text(
        f'[user]\n\tname = Ada\n\temail = ada@example.com\n[url "{remote}"]\n\tinsteadOf = {address}\n',
        encoding="utf-8",
    )
    subprocess.run(["bash", "-eu", "-c", script], cwd=tmp_path, check=True, capture_output=True)
    listed = ["git", "ls-tree", "-r", "--name-only", "main", ".github/workflows"]
    pushed = subprocess.run(listed, cwd=remote, check=True, capture_output=True, text=True).stdout.split()
    assert pushed == [
        ".github/workflows/campaigns-review.yml",
        ".github/workflows/campaigns-send.yml",
    ]


def test_the_two_commands_are_targets_of_make() -> None:
    """`make demo` and `make test` exist, and `make help` names them."""
    helped = subprocess.run(
        ["make", "help"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout
    for target in ("make demo", "make test", "make lint", "make clean", "make help"):
        assert target in helped


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_links_lead_somewhere(path: str) -> None:
    """Every relative link of the README leads to a file or folder of the repository."""
    assert (REPOSITORY / path).exists()


def test_commands_named_in_the_readme_exist() -> None:
    """The README names no command that the program doesn't have."""
    named = set(re.findall(r"(?:`|\$ |^)runner ([a-z]+)\b", README, re.MULTILINE))
    assert len(named) > 5
    assert named <= COMMANDS.keys()
