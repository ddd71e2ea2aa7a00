"""Files that campaign texts include, from below one folder."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from runner.source.normalize import suggest
from runner.source.stand_in import find_stand_in
from runner.source.storage import is_readable_below

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
        return None if find_stand_in(file, text.encode()) else text
    except OSError:
        return None


def explain_missing(folder: Path, name: object) -> tuple[str, str | None]:
    """Return the words that `read_included` found nothing, and a hint."""
    file = folder / str(name)
    with suppress(OSError, ValueError):
        stand_in = find_stand_in(file, file.read_bytes()) if is_readable_below(file, (folder,)) else None
        if stand_in is not None:
            return f"the included file {name}: {stand_in.message}", stand_in.hint
    others = [str(other.relative_to(folder)) for other in folder.rglob("*") if other.is_file()]
    guess = suggest(str(name), [other for other in others if other != name], "{}")
    hint = f"name a file below {folder.name}/, relative to it, in which no name begins with a dot"
    return f"there is no file {name} to include{guess}", hint
