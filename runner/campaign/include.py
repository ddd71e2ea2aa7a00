"""Files that campaign texts include: read below one folder alone."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from runner.source.confine import HIDDEN, is_hidden_below, is_readable_below

if TYPE_CHECKING:
    from pathlib import Path

    from runner.campaign.model import Campaign


MAX_SOURCE = 50_000
"""Characters that a text may have together with all that it includes."""


def include_folder(campaign: Campaign) -> Path:
    """Return what `{% include %}` reads below: the `campaigns` folder above the file, else its own folder."""
    for folder in campaign.file.absolute().parents:
        if folder.name == "campaigns" and folder.is_relative_to(campaign.root.absolute()):
            return folder
    return campaign.file.absolute().parent


def read_included(folder: Path, name: object) -> str | None:
    """Return an included file's text; None if there is no such file, or if it is outside.

    Of a longer file than a text may include, only the beginning is read.

    Args:
        folder: what included files stand below.
        name: as the text writes it.
    """
    if not isinstance(name, str) or not name.isprintable():
        return None
    file = folder / name
    try:
        if not is_readable_below(file, (folder,)) or not file.is_file():
            return None
        with file.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(MAX_SOURCE + 1)
    except OSError:
        return None


def explain_missing(folder: Path, name: object) -> tuple[str, str]:
    """Return why `read_included` found nothing, and what to do about it."""
    relative = f"the name of an included file is relative to {folder.name}/"
    if not isinstance(name, str) or not name.isprintable():
        return "an included file's name is a text", relative
    file = folder / name
    if is_hidden_below(file, (folder,)):
        return f"the included file {name} {HIDDEN}", "move it where no name begins with a dot"
    if not is_readable_below(file, (folder,)):
        return f"the included file {name} is outside {folder.name}/", (
            f"texts include files below {folder.name}/ alone"
        )
    siblings = [str(other.relative_to(folder)) for other in file.parent.glob("*") if other.is_file()]
    close = difflib.get_close_matches(name, siblings, n=1)
    words = f"there is no file {name} to include" + (f": did you mean {close[0]}?" if close else "")
    return words, relative
