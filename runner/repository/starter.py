"""Writes the files that a repository begins with, and never over anything that is there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from runner.errors import RunnerError, UsageError
from runner.repository.git import Git, GitError, find_work_tree

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BRANCH = "main"
"""The branch that the workflows send from."""
_TOP = PurePosixPath()
_PART = re.compile(r"\w(?:[\w .-]*[\w.-])?")
"""A folder's name that nobody reads as something else: a workflow's filters, a shell, CODEOWNERS."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where campaigns are to be kept.

    Attributes:
        top: the top of the repository, or of what becomes one.
        below: the campaigns' folder, from there; `.` for the top itself.
        has_repository: whether there is a repository already.
    """

    top: Path
    below: PurePosixPath = _TOP
    has_repository: bool = False

    @property
    def is_top(self) -> bool:
        """Whether the campaigns' folder is the top."""
        return self.below == _TOP


@dataclass(frozen=True, slots=True)
class Started:
    """What a start has changed.

    Attributes:
        written: the files that were not there before, or were drafts, from the repository's top.
        has_repository: whether the folder is in a git repository now.
        is_new_repository: whether it has become one.
        branch: the branch that its work tree is on; None if it is on none.
    """

    written: tuple[str, ...]
    has_repository: bool
    is_new_repository: bool
    branch: str | None


def find_place(folder: Path) -> Place:
    """Return where a folder is, which need not be there yet.

    Raises:
        UsageError: its name is none for a folder of campaigns.
        GitError: git doesn't say in which repository it is.
    """
    nearest = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())
    try:
        root = find_work_tree(nearest)
    except GitError as error:
        if "not installed" in error.message:
            return Place(folder)
        raise
    if root is None:
        return Place(folder)
    real = folder.resolve()
    if real == root:
        return Place(folder, has_repository=True)
    below = PurePosixPath(real.relative_to(root).as_posix())
    if not all(map(_PART.fullmatch, below.parts)):
        raise UsageError(
            f"{str(below)!r} is no name for a folder of campaigns in a repository",
            hint="letters, digits and `_`, inside also blanks, `-` and `.`: filters and shells read others "
            "as something else",
        )
    return Place(root, below, has_repository=True)


def start_repository(place: Place, files: Mapping[str, bytes], drafts: Mapping[str, bytes]) -> Started:
    """Write files, and make a git repository around them if there is none.

    Files that are there already and say the same are left alone, so that it may be done again.

    Args:
        place: where; its folders are made if they aren't there.
        files: their contents, by the paths from the repository's top.
        drafts: what files may say that are to be replaced.

    Raises:
        RunnerError: something else is in the way, which is named, all of it; nothing was written then.
    """
    top = place.top
    found = [name for name, content in files.items() if not _is_free(top, name, {content, drafts.get(name)})]
    if found:
        listed = "".join(f"\n    {name}" for name in found)
        raise RunnerError(
            f"nothing was written to {top}: these are there already, and say something else",
            hint=f"keep them and choose another folder, or move them away:{listed}",
        )
    written = [name for name, content in files.items() if _read(top / name) != content]
    try:
        for name in written:
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_bytes(files[name])
    except OSError as error:
        raise RunnerError(f"{error.filename} cannot be written: {error.strerror}") from None
    top.mkdir(parents=True, exist_ok=True)
    is_new = not place.has_repository and _make_repository(top)
    has_repository = is_new or place.has_repository
    branch = None
    if has_repository:
        branch = Git(top).ask("symbolic-ref", "--quiet", "--short", "HEAD").output.strip() or None
    return Started(tuple(written), has_repository, is_new, branch)


def _read(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _is_free(top: Path, name: str, allowed: set[bytes | None]) -> bool:
    file = top / name
    if file.is_symlink() or file.exists():
        return file.is_file() and file.read_bytes() in allowed
    parents = [parent for parent in file.parents if parent.is_relative_to(top)]
    return all(parent.is_dir() or not (parent.exists() or parent.is_symlink()) for parent in parents)


def _make_repository(folder: Path) -> bool:
    try:
        Git(folder).run("init", "--quiet", f"--initial-branch={BRANCH}")
    except GitError as error:
        if "not installed" in error.message:
            return False
        raise
    return True
