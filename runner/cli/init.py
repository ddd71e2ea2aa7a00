"""`runner init`: writes a campaign repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner import __version__
from runner.cli.console import count_words, warn
from runner.errors import RunnerError
from runner.repository.starter import BRANCH, Started, start_repository
from runner.service.target import LIVE, require_safe_url
from runner.source.shipped import shipped_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_STARTER = Path(__file__).resolve().parent.parent / "starter"
"""What a new repository begins with."""
_RENAMED = {"gitignore": ".gitignore"}
"""Files that would have a meaning where they are shipped."""
_TARGETS = "campaigns/targets.yaml"


@click.command(
    epilog="\b\nExamples:\n  runner init campaigns-of-acme\n"
    "  runner init campaigns-of-acme --base-url https://sms.example.com"
)
@click.argument("folder", default=".", metavar="[DIR]", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--base-url",
    metavar="URL",
    help="Where the service is. Can be said later, by the same command; until then nothing is sent.",
)
def command(folder: Path, base_url: str | None) -> int:
    """Write a campaign repository: an example, its audience, and the workflows that check and send it.

    Makes a git repository of DIR if it is none. No file is ever overwritten; what is there and the same
    is left alone, so that the command may be run again.
    """
    if base_url is not None:
        require_safe_url(base_url, insecure=False)
    files = dict(_iterate_files())
    if base_url is not None:
        files[_TARGETS] = _write_targets(base_url)
    started = start_repository(folder, dict(sorted(files.items())))
    _report(folder, started)
    return 0


def _iterate_files() -> Iterator[tuple[str, str]]:
    """Yield the files of a new repository by their paths."""
    for file in sorted(_STARTER.rglob("*")):
        if file.is_file():
            name = file.relative_to(_STARTER).as_posix()
            yield _RENAMED.get(name, name), _read(file)
    # The workflows of this program's own repository, as they are.
    for file in sorted(shipped_folder(".github/workflows").glob("campaigns-*.yml")):
        yield f".github/workflows/{file.name}", _read(file)
    yield ".github/requirements.txt", f"sms-campaign-runner=={__version__}\n"


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise RunnerError(f"{file}, which comes with runner, cannot be read: {error.strerror}") from None


def _write_targets(base_url: str) -> str:
    return (
        "# Where campaigns are sent; `runner schema targets` has every key. Credentials never stand here:\n"
        "# CI has RUNNER_USERNAME and RUNNER_API_KEY as secrets.\n"
        f"version: 1\ntargets:\n  {LIVE}:\n    base_url: {json.dumps(base_url)}\n"
    )


def _report(folder: Path, started: Started) -> None:
    if started.written:
        click.echo(f"Wrote {count_words(len(started.written), 'file')} to {folder}:")
        for name in started.written:
            click.echo(f"  {name}")
    else:
        click.echo(f"Nothing to write: {folder} has it all.")
    if started.is_new_repository:
        click.echo(f"Made a git repository, on the branch {BRANCH}.")
    elif not started.has_repository:
        warn("git is not installed: the folder is no repository yet")
    elif started.branch != BRANCH:
        warn(f"the workflows send from {BRANCH}, and this work tree is on {started.branch or 'no branch'}")
    click.echo("\nNext:")
    for words in _iterate_next(folder):
        click.echo(f"  {words}")


def _iterate_next(folder: Path) -> Iterator[str]:
    where = "" if folder.resolve() == Path.cwd() else f"in {folder}, "
    yield f"{where}look around, on the sandbox: `runner plan`, `runner preview campaigns/first-order.yaml`"
    if not (folder / _TARGETS).exists():
        yield "say where the service is: `runner init --base-url URL`; until then nothing is sent for real"
    yield "commit and push to a repository on GitHub: `git add .`, `git commit`, `git push`"
    yield "there, make the settings that README.md lists: two secrets, and who may send"
