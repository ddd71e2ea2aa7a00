"""Keeps a campaign's reading below its repository.

A campaign in a pull request must not be able to print a file of the machine that checks it
(design: campaign format, reading rules).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def repository_root(start: Path) -> Path:
    """Return the git root that `start` is in, else `start` itself.

    Args:
        start: a folder; links on the way to it are followed only after the root is found, so that
            a linked folder inside a repository cannot lead out of it.
    """
    folder = start.absolute()
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return folder


def reading_root(file: Path, *, current: Path) -> Path:
    """Return the folder below which the campaign `file` may read.

    The git root above the file; outside any repository the current folder, if the file is below
    it; else the file's own folder.
    """
    parent = file.absolute().parent
    root = repository_root(parent)
    if (root / ".git").exists():
        return root
    return current if parent.is_relative_to(current.absolute()) else parent


def is_readable_below(file: Path, roots: tuple[Path, ...]) -> bool:
    """Return whether `file`, its links followed, stands below one of `roots`."""
    try:
        real = file.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL in the name
        return False
    return any(real.is_relative_to(root.resolve()) for root in roots)
