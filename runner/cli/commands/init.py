"""`runner init`: a new campaign repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.console import print_prose
from runner.cli.encoding import print_text
from runner.cli.options import FOLDER
from runner.wording import count_words
from runner.workflow.observer import note, warn
from runner.workflow.starting import BRANCH, EXAMPLE, TARGETS, Started, StarterPlace, write_starter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@click.command(cls=Command)
@click.argument("folder", default=".", metavar="[DIR]", type=FOLDER)
@click.option(
    "--base-url",
    metavar="URL",
    help="The URL of the service. It can be set later by the same command; until then nothing is sent.",
)
@click.option(
    "--owner",
    "owners",
    multiple=True,
    metavar="NAME",
    help="A person or team that must approve changes of workflows, pins and targets, such as @acme/texting; "
    "may be repeated. Can be set later.",
)
@click.option(
    "--requirement",
    metavar="TEXT",
    help="The runner that CI installs, by commit or hash. Default: the one that runs here, if its source is "
    "known. Can be set later.",
)
def init(folder: Path, base_url: str | None, owners: tuple[str, ...], requirement: str | None) -> int:
    """Create a campaign repository: an example, its audience, and workflows that check and send it.

    If DIR is not in a git repository, it becomes one. In an existing repository the workflows go to its top
    folder, named after DIR, and everything else goes to DIR. No file is ever overwritten, so the command can
    be run again.

    Examples:
        runner init campaigns-of-acme --owner @acme/texting
        runner init campaigns-of-acme --base-url https://sms.example.com
        runner init teams/support
    """
    place, started, missing = write_starter(folder, base_url, owners, requirement)
    _report(folder, place, started, missing)
    return 0


def _report(folder: Path, place: StarterPlace, started: Started, missing: Sequence[str]) -> None:
    top = folder if place.is_top else Path(os.path.relpath(place.top))
    if started.written:
        print_text(f"Wrote {count_words(len(started.written), 'file')} to {top}:")
        for name in started.written:
            print_text(f"  {name}")
    else:
        print_prose(f"Nothing to write: {top} has everything already.")
    if started.is_new_repository:
        print_text(f"Created a git repository on the branch {BRANCH}.")
    elif not started.has_repository:
        warn("git is not installed: the folder is no repository yet")
    elif started.branch != BRANCH:
        warn(f"the workflows send from {BRANCH}, and this work tree is on {started.branch or 'no branch'}")
        if started.branch == "master":
            note(f"  rename it: `git branch -m {BRANCH}`, and make {BRANCH} the default branch on GitHub")
    print_text("\nNext:")
    is_new = any(name.endswith(EXAMPLE) for name in started.written)
    for words in _iterate_next(folder, missing, is_new=is_new):
        print_prose(f"  {words}")


def _iterate_next(folder: Path, missing: Sequence[str], *, is_new: bool) -> Iterator[str]:
    where = "" if folder.resolve() == Path.cwd() else f"in {folder}, "
    yield f"{where}look around, on the sandbox: `runner plan`, `runner preview campaigns/first-order.yaml`"
    if not (folder / TARGETS).exists():
        if is_new:
            yield "where it is night, texts wait for the morning: `runner sandbox clock next` goes there"
        yield "say where the service is: `runner init --base-url URL`; until then nothing is sent for real"
    yield from missing
    yield "commit and push to a repository on GitHub: `git add .`, `git commit`, `git push`"
    yield "there, make the settings that `runner ci --help` lists: secrets, and who may send"
    yield "once, before the first job: `runner ci start --target live`, so that it does not wait for minutes"
