"""`targets.yaml` as a document that fits its schema, and the files of that name that hold for a campaign."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from runner.source.diagnostic import Diagnostic, ProblemError
from runner.source.json_schema import find_problems
from runner.source.storage import is_readable_below, reading_root
from runner.source.yaml import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.source.yaml import YamlDocument

TARGETS_FILE = "targets.yaml"
CAMPAIGNS_FOLDER = "campaigns"
"""The folder of a project's campaigns."""


def read_targets_file(file: Path) -> YamlDocument | None:
    """Return the document of a `targets.yaml`; None if there is none.

    Raises:
        ProblemError: it cannot be read, as when it is a link to nothing, or does not fit the schema.
    """
    if not os.path.lexists(file):
        return None
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        message = f"this file cannot be read: {error}"
        raise ProblemError(Diagnostic("error", "targets-unreadable", message, file, 1, 1)) from None
    root = reading_root(file, current=Path.cwd())
    if file.resolve() != file.absolute() and not is_readable_below(file, (root,)):
        # Diagnostics quote the file, and a link in a pull request may lead to any file.
        message = "this is a link out of the repository, or to a hidden file, and is not read"
        raise ProblemError(Diagnostic("error", "targets-outside", message, file, 1, 1))
    document = read_yaml(text, file)
    if problems := [*document.problems, *find_problems(document, "targets")]:
        raise ProblemError(*problems)
    return document


def list_targets_files(starts: Iterable[Path], current: Path) -> list[Path]:
    """Return where a `targets.yaml` holds for folders, the nearest place first, each file once.

    That is each folder from one of `starts` up to the top of its repository, and `campaigns/` in each.
    """
    found: dict[str, Path] = {}
    for start in starts:
        top = reading_root(start / TARGETS_FILE, current=current).absolute()
        for folder in (one for one in (start, *start.parents) if one.is_relative_to(top)):
            for place in (folder, folder / CAMPAIGNS_FOLDER):
                found.setdefault(os.path.realpath(place / TARGETS_FILE), place / TARGETS_FILE)
    return list(found.values())
