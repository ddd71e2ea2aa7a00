"""Files that campaign texts include, from below one folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.source.normalize import suggest
from runner.source.stand_in import find_stand_in
from runner.source.storage import HIDDEN, is_hidden_below, is_readable_below

if TYPE_CHECKING:
    from pathlib import Path

    from runner.campaign.model import Campaign


MAX_SOURCE = 50_000
"""The most characters of a text with all that it includes."""


def include_folder(campaign: Campaign) -> Path:
    """Return the folder of included files: the `campaigns` folder above the file, else its own folder."""
    for folder in campaign.file.absolute().parents:
        if folder.name == "campaigns" and folder.is_relative_to(campaign.root.absolute()):
            return folder
    return campaign.file.absolute().parent


def read_included(folder: Path, name: object) -> str | None:
    """Return the text of an included file, by its name in the template; None if there is none to include.

    A file that is too long is read only up to a little more than the limit.
    """
    if not isinstance(name, str) or not name.isprintable():
        return None
    file = folder / name
    try:
        if not is_readable_below(file, (folder,)) or not file.is_file():
            return None
        with file.open(encoding="utf-8", errors="replace") as stream:
            text = stream.read(MAX_SOURCE + 1)
        return None if find_stand_in(text.encode()) else text
    except OSError:
        return None


def explain_missing(folder: Path, name: object) -> tuple[str, str]:
    """Return the reason why `read_included` found nothing, and a hint."""
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
    try:
        stand_in = find_stand_in(file.read_bytes())
    except OSError:
        stand_in = None
    if stand_in is not None:
        return f"the included file {name}: {stand_in.message}", stand_in.hint
    siblings = [str(other.relative_to(folder)) for other in file.parent.glob("*") if other.is_file()]
    return f"there is no file {name} to include{suggest(name, siblings, '{}')}", relative
