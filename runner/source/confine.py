"""Keeps a campaign's reading below its repository.

A campaign in a pull request must not be able to print a file of the machine that checks it.
"""

from __future__ import annotations

import os
from pathlib import Path

HIDDEN = "begins with a dot, or stands in such a folder: files like that are never read"


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
    """Return whether `file`, its links followed, stands below one of `roots` and is not hidden there."""
    return any(not _is_hidden(inner) for inner in _find_below(file, roots))


def is_hidden_below(file: Path, roots: tuple[Path, ...]) -> bool:
    """Return whether `file` stands below one of `roots`, but its name or a folder's begins with a dot.

    Such files hold secrets and settings (`.env`, `.git/config`). A root may be hidden itself.
    """
    below = _find_below(file, roots)
    return bool(below) and all(map(_is_hidden, below))


def is_written_hidden(file: Path, root: Path) -> bool:
    """Return whether a path itself, its links not followed, says that `file` is hidden below `root`."""
    written = Path(os.path.abspath(file))  # noqa: PTH100  takes `..` away without following links
    return written.is_relative_to(root.absolute()) and _is_hidden(written.relative_to(root.absolute()))


def _find_below(file: Path, roots: tuple[Path, ...]) -> list[Path]:
    """Return where `file`, its links followed, stands in each root that it is below."""
    try:
        real = file.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL in the name
        return []
    above = [root.resolve() for root in roots]
    return [real.relative_to(root) for root in above if real.is_relative_to(root)]


def _is_hidden(inner: Path) -> bool:
    return any(part.startswith(".") for part in inner.parts)
