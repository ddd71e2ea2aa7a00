"""Writes the files that a repository begins with, and never over anything that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.repository.git import Git, GitError, find_work_tree

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BRANCH = "main"
"""The branch that the workflows send from."""


@dataclass(frozen=True, slots=True)
class Started:
    """What a start has changed.

    Attributes:
        written: the files that were not there before, from the folder's top.
        has_repository: whether the folder is a git repository now.
        is_new_repository: whether it has become one.
        branch: the branch that its work tree is on; None if it is on none.
    """

    written: tuple[str, ...]
    has_repository: bool
    is_new_repository: bool
    branch: str | None


def start_repository(folder: Path, files: Mapping[str, str]) -> Started:
    """Write files into a folder, and make a git repository of it if there is none.

    Files that are there already and say the same are left alone, so that it may be done again.

    Args:
        folder: the folder; it is made if it isn't there.
        files: the texts, by the paths from the folder's top.

    Raises:
        RunnerError: something else is in the way, which is named, all of it; nothing was written then.
    """
    work_tree = _find_repository(folder)
    _refuse_what_is_in_the_way(folder, files)
    written = [name for name in files if not (folder / name).exists()]
    try:
        for name in written:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(files[name], encoding="utf-8")
    except OSError as error:
        raise RunnerError(f"{error.filename} cannot be written: {error.strerror}") from None
    folder.mkdir(parents=True, exist_ok=True)
    is_new = work_tree is None and _make_repository(folder)
    has_repository = is_new or work_tree is not None
    branch = None
    if has_repository:
        branch = Git(folder).ask("symbolic-ref", "--quiet", "--short", "HEAD").output.strip() or None
    return Started(tuple(written), has_repository, is_new, branch)


def _find_repository(folder: Path) -> Path | None:
    """Return the git repository whose top a folder is; None if it is in none.

    Raises:
        RunnerError: it is inside one: workflows are only found at the top.
    """
    nearest = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())
    try:
        root = find_work_tree(nearest)
    except GitError as error:
        if "not installed" in error.message:
            return None
        raise
    if root is not None and root != folder.resolve():
        raise RunnerError(
            f"{folder} is inside the git repository {root}, and workflows are run from the top alone",
            hint="name that folder, or one outside",
        )
    return root


def _refuse_what_is_in_the_way(folder: Path, files: Mapping[str, str]) -> None:
    found = [name for name, text in files.items() if not _is_free(folder, name, text)]
    if found:
        listed = "".join(f"\n    {name}" for name in found)
        raise RunnerError(
            f"nothing was written to {folder}: these are there already, and say something else",
            hint=f"keep them and choose another folder, or move them away:{listed}",
        )


def _is_free(folder: Path, name: str, text: str) -> bool:
    file = folder / name
    if file.is_symlink() or file.exists():
        return file.is_file() and file.read_bytes() == text.encode()
    parents = [parent for parent in file.parents if parent.is_relative_to(folder)]
    return all(parent.is_dir() or not (parent.exists() or parent.is_symlink()) for parent in parents)


def _make_repository(folder: Path) -> bool:
    try:
        Git(folder).run("init", "--quiet", f"--initial-branch={BRANCH}")
    except GitError as error:
        if "not installed" in error.message:
            return False
        raise
    return True
