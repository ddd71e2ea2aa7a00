"""Folders for files that belong to this machine alone, and the folders that share a record."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from runner.atomic_write import save_text
from runner.errors import ConfigurationError, RunnerError, UsageError
from runner.git.command import Git, GitError
from runner.github.workflows import make_slug
from runner.service.target import read_targets
from runner.source.diagnostic import ProblemError
from runner.source.money import Prices
from runner.source.storage import repository_root
from runner.workflow.campaigns import show_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runner.sandbox.rehearsal.simulate import SimulationSummary
    from runner.service.target import Target


def state_folder() -> Path:
    """Return the repository's `.runner` folder for ledger and sandbox; it may not exist yet."""
    return repository_root(Path.cwd()) / ".runner"


def refuse_committed_state() -> None:
    """Check that `.runner` is not from git, since its ledger is trusted."""
    folder = state_folder()
    if not folder.exists() and not folder.is_symlink():
        return
    listed = ""
    # Without git, or outside of a repository, nothing can be from git.
    with suppress(GitError):
        listed = Git(folder.parent).ask("ls-files", "-z", "--", folder.name).output
    if listed:
        raise RunnerError(
            f"{listed.split(chr(0))[0]} is in the git repository: anybody who can change it there could "
            "change who was texted, and nothing signs it",
            hint="take it out: `git rm -r --cached .runner`, commit, and go on in a new clone; the record in "
            "git is the lockfiles",
        )


def make_state_folder(option: str = "--ledger") -> Path:
    """Return the `.runner` folder; create it for this user alone, and ignored by git.

    `option` names another place for what is to be written there.
    """
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        ignore = folder / ".gitignore"
        # So that texts and answers are not committed by accident. A full disk may have left the file empty;
        # one that the user has edited is kept.
        if not ignore.is_file() or not ignore.stat().st_size:
            save_text(ignore, "*\n")
    except OSError as error:
        raise RunnerError(
            f"the folder {folder} cannot be made: {error.strerror}",
            hint=f"check that this user may write there, or name another place with {option}",
        ) from None
    return folder


def name_folder() -> str | None:
    """Return a unique name for the current folder in its repository; None at the top.

    Jobs of several folders use it to keep separate comments and issues.
    """
    below = Path.cwd().relative_to(repository_root(Path.cwd()))
    return make_slug(PurePosixPath(below.as_posix())) or None


def sandbox_database() -> Path:
    """Return the file of the embedded sandbox's database; it may not exist yet."""
    return state_folder() / "sandbox" / "service.sqlite"


def make_sandbox_database() -> Path:
    """Return the file of the embedded sandbox's database; create its folder."""
    make_state_folder("--db")
    return sandbox_database()


def simulate_answers(target: Target, *, seed: int, response_rate: float) -> SimulationSummary:
    """Let simulated participants answer on the embedded sandbox, and advance its clock.

    The same `seed` gives the same participants; `response_rate` (0 to 1) is the share who reply.
    """
    if target.base_url is not None:
        raise UsageError(
            f"the target {target.name!r} is no built-in sandbox: its participants are not simulated",
            hint="leave RUNNER_BASE_URL out of the environment, and take the target `sandbox`",
        )
    # Imported here: only the sandbox needs it.
    from runner.sandbox.rehearsal.participants import Habits
    from runner.sandbox.rehearsal.simulate import simulate
    from runner.sandbox.sandbox_errors import SandboxError

    try:
        return simulate(make_sandbox_database(), seed=seed, habits=Habits(response_rate))
    except SandboxError as error:
        raise RunnerError(str(error)) from None


def require_one_service(
    name: str,
    targets: Mapping[str, Any],
    file: Path,
    others: Iterable[Path],
    environment: Mapping[str, str],
) -> None:
    """Ensure that a target's name stands for one service in a repository.

    `targets` are those of `read_targets` in `file`; `others` are other folders' files, which need not exist.
    """
    written = targets["targets"].get(name, {}).get("base_url", "").rstrip("/")
    for other, settings in _iterate_settings(name, others, environment) if written else ():
        found = settings.get("base_url", written)
        if found.rstrip("/") != written:
            raise ConfigurationError(
                f"{name!r} is {written} in {show_path(file)}, and {found} in {show_path(other)}",
                hint="a repository has one record for a target's name: give one of the two another name",
            )


def find_prices(name: str, files: Iterable[Path], environment: Mapping[str, str]) -> Prices | None:
    """Return the prices of a target by the files `targets.yaml` that hold; None if none of them has any.

    Raises:
        ConfigurationError: they differ, so that rules on the cost would be of the cheapest.
    """
    found: dict[Path, Prices] = {}
    for file, settings in _iterate_settings(name, files, environment):
        if "prices" in settings:
            found[file] = Prices.read(settings["prices"])
    for (file, one), (other, another) in pairwise(found.items()):
        if one != another:
            places = " than in ".join(os.path.relpath(place) for place in (file, other))
            raise ConfigurationError(
                f"{name!r} has other prices in {places}", hint="write them once, or the same in both"
            )
    return next(iter(found.values()), None)


def _iterate_settings(
    name: str, files: Iterable[Path], environment: Mapping[str, str]
) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield a target's settings in files that may be missing; their own commands show what is wrong."""
    for file in files:
        with suppress(ProblemError):
            yield file, read_targets(file, environment)["targets"].get(name, {})
