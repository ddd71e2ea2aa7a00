"""`runner init`: writes a campaign repository."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.console import count_words, warn
from runner.errors import RunnerError, UsageError
from runner.repository.origin import NAME, Pin, UnknownOriginError, find_pin, parse_requirement
from runner.repository.placing import make_slug, name_workflow, place_workflow
from runner.repository.starter import BRANCH, Place, Started, find_place, start_repository
from runner.service.target import LIVE, require_safe_url
from runner.source.shipped import shipped_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PACKAGE = Path(__file__).resolve().parent.parent
_STARTER = _PACKAGE / "starter"
"""What a new repository begins with."""
_RENAMED = {"gitignore": ".gitignore"}
"""Files that would have a meaning where they are shipped."""
_EXAMPLE = "campaigns/first-order.yaml"
_TARGETS = "campaigns/targets.yaml"
_REQUIREMENTS, _LOCK, _OWNERS = ".github/requirements.txt", ".github/requirements.lock", ".github/CODEOWNERS"
_OWNER = re.compile(r"@[\w.-]+(?:/[\w.-]+)?|[^\s@#\\]+@[^\s@#\\]+")
_ASK_FOR_REQUIREMENT = f"runner init --requirement '{NAME} @ git+https://HOST/PATH@COMMIT'"
_NO_REQUIREMENT = f"""\
# The runner that CI installs, named so that nobody else can supply it: put it in the place of the last line,
# by a commit or by a file with its hash, or have it written: {_ASK_FOR_REQUIREMENT}
Fill in {_REQUIREMENTS}: it does not name the runner yet
"""
_REQUIREMENT_WORDS = "# The runner that CI installs, named so that nobody else can supply it.\n"
_OWNER_WORDS = "# Who has to agree to what CI runs, and to where texts go.\n"
_NO_OWNER_WORDS = (
    f"{_OWNER_WORDS}# Nobody yet: name them here, or have it written: runner init --owner @ORG/TEAM\n"
)


@dataclass(slots=True)
class _Files:
    """What is to be written, by paths from the repository's top.

    Attributes:
        contents: of the files.
        drafts: what they may say that are to be replaced.
        missing: what a person still has to say, as words about what comes next.
    """

    contents: dict[str, bytes] = field(default_factory=dict)
    drafts: dict[str, bytes] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


@click.command(
    epilog="\b\nExamples:\n  runner init campaigns-of-acme --owner @acme/texting\n"
    "  runner init campaigns-of-acme --base-url https://sms.example.com\n  runner init teams/support"
)
@click.argument("folder", default=".", metavar="[DIR]", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--base-url",
    metavar="URL",
    help="Where the service is. Can be said later, by the same command; until then nothing is sent.",
)
@click.option(
    "--owner",
    "owners",
    multiple=True,
    metavar="NAME",
    help="Who has to agree to changes of workflows, pins and targets, as in @acme/texting; may be repeated. "
    "Can be said later.",
)
@click.option(
    "--requirement",
    metavar="TEXT",
    help="The runner that CI installs, by commit or hash. Default: the one that runs here, if it is known "
    "where that came from. Can be said later.",
)
def command(folder: Path, base_url: str | None, owners: tuple[str, ...], requirement: str | None) -> int:
    """Write a campaign repository: an example, its audience, and the workflows that check and send it.

    Makes a git repository of DIR if it is in none. Inside of one, the workflows go to its top, each named
    after DIR, and all else into DIR. No file is ever overwritten; what is there and the same is left alone,
    so that the command may be run again.
    """
    if base_url is not None:
        require_safe_url(base_url, insecure=False)
    for owner in owners:
        if not _OWNER.fullmatch(owner):
            raise UsageError(
                f"{owner!r} is no owner", hint="@NAME, @ORG/TEAM or an address, as CODEOWNERS has them"
            )
    place = find_place(folder)
    files = _Files(dict(_iterate_files(place, base_url)))
    _add_requirement(files, place, requirement)
    _add_owners(files, place, owners)
    started = start_repository(place, dict(sorted(files.contents.items())), files.drafts)
    _report(folder, place, started, files.missing)
    return 0


def _iterate_files(place: Place, base_url: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a new repository by their paths."""
    for file in sorted(_STARTER.rglob("*")):
        if file.is_file():
            name = file.relative_to(_STARTER).as_posix()
            content = _read(file)
            if name == _EXAMPLE and not place.is_top:
                # A campaign's name is taken in the whole repository.
                content = content.replace(
                    b": first-order", f": first-order-{make_slug(place.below)}".encode()
                )
            yield str(place.below / _RENAMED.get(name, name)), content
    # The workflows of this program's own repository, as they are.
    for kind in ("review", "send"):
        text = _read(shipped_folder(".github/workflows") / f"campaigns-{kind}.yml")
        placed = text if place.is_top else place_workflow(text.decode(), place.below).encode()
        yield name_workflow(kind, place.below), placed
    yield _LOCK, _read(shipped_folder(".github") / Path(_LOCK).name)
    if base_url is not None:
        yield str(place.below / _TARGETS), _write_targets(base_url).encode()


def _add_requirement(files: _Files, place: Place, requirement: str | None) -> None:
    """Add how CI installs the runner; what stands there stays, unless something else is asked for."""
    draft = _NO_REQUIREMENT.encode()
    file = place.top / _REQUIREMENTS
    if requirement is None and file.is_file() and file.read_bytes() != draft:
        return
    try:
        pin = find_pin(_PACKAGE) if requirement is None else parse_requirement(requirement)
    except UnknownOriginError as error:
        files.contents[_REQUIREMENTS] = draft
        files.missing.append(
            f"say which runner CI installs: `{_ASK_FOR_REQUIREMENT}`; until then its jobs fail ({error})"
        )
        return
    files.contents |= {_REQUIREMENTS: _write_requirement(pin), **pin.files}
    files.drafts[_REQUIREMENTS] = draft


def _write_requirement(pin: Pin) -> bytes:
    return f"{_REQUIREMENT_WORDS}{pin.line}\n".encode()


def _add_owners(files: _Files, place: Place, owners: Sequence[str]) -> None:
    """Add who has to agree; a file that is there is a person's to change, since its last line wins."""
    folder = "" if place.is_top else f"{place.below}/".replace(" ", "\\ ")
    patterns = ("/.github/", f"/{folder}**/targets.yaml")
    named = [f"{pattern} {' '.join(owners or ('@ORG/TEAM',))}" for pattern in patterns]
    draft = _NO_OWNER_WORDS + "".join(f"# {line} @ORG/TEAM\n" for line in patterns)
    # GitHub reads the first of these alone.
    places = (_OWNERS, "CODEOWNERS", "docs/CODEOWNERS")
    name = next((name for name in places if (place.top / name).is_file()), None)
    found = draft if name is None else (place.top / name).read_text(encoding="utf-8", errors="replace")
    if found != draft:
        known = {line.split("@")[0].rstrip() for line in found.splitlines()}
        new = [line for line, pattern in zip(named, patterns, strict=True) if pattern not in known]
        if new:
            files.missing.append(f"add to {name}, which is there already: {'; '.join(new)}")
        return
    files.drafts[_OWNERS] = draft.encode()
    if owners:
        files.contents[_OWNERS] = "".join((_OWNER_WORDS, *(f"{line}\n" for line in named))).encode()
    else:
        files.contents[_OWNERS] = draft.encode()
        files.missing.append(
            "say who has to agree to changes of workflows and targets: `runner init --owner @ORG/TEAM`"
        )


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise RunnerError(f"{file}, which comes with runner, cannot be read: {error.strerror}") from None


def _write_targets(base_url: str) -> str:
    return (
        "# Where campaigns are sent; `runner schema targets` has every key. Credentials never stand here:\n"
        "# CI has RUNNER_USERNAME and RUNNER_API_KEY as secrets.\n"
        f"version: 1\ntargets:\n  {LIVE}:\n    base_url: {json.dumps(base_url)}\n"
    )


def _report(folder: Path, place: Place, started: Started, missing: Sequence[str]) -> None:
    top = folder if place.is_top else Path(os.path.relpath(place.top))
    if started.written:
        click.echo(f"Wrote {count_words(len(started.written), 'file')} to {top}:")
        for name in started.written:
            click.echo(f"  {name}")
    else:
        click.echo(f"Nothing to write: {top} has it all.")
    if started.is_new_repository:
        click.echo(f"Made a git repository, on the branch {BRANCH}.")
    elif not started.has_repository:
        warn("git is not installed: the folder is no repository yet")
    elif started.branch != BRANCH:
        warn(f"the workflows send from {BRANCH}, and this work tree is on {started.branch or 'no branch'}")
    click.echo("\nNext:")
    for words in _iterate_next(folder, missing):
        click.echo(f"  {words}")


def _iterate_next(folder: Path, missing: Sequence[str]) -> Iterator[str]:
    where = "" if folder.resolve() == Path.cwd() else f"in {folder}, "
    yield f"{where}look around, on the sandbox: `runner plan`, `runner preview campaigns/first-order.yaml`"
    if not (folder / _TARGETS).exists():
        yield "say where the service is: `runner init --base-url URL`; until then nothing is sent for real"
    yield from missing
    yield "commit and push to a repository on GitHub: `git add .`, `git commit`, `git push`"
    yield "there, make the settings that README.md lists: secrets, and who may send"
