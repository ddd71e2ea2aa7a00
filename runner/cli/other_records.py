"""Records of a campaign in other places than beside it: left behind when it was moved, or not merged yet."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.include import include_folder
from runner.campaign.load import read_names
from runner.cli.campaigns import DEFAULT_FOLDER, show_path
from runner.source.confine import repository_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Campaign
    from runner.ledger.identity import Identity

RECORD_ENDINGS = (".lock.json", ".suppressions.json", ".approvals.json")
"""What the names of files end in that commands write and people don't."""
# The keys are sorted: nothing but its bracket and a merge's marks stands before this one.
_NAME = re.compile(r'"campaign": ("(?:[^"\\]|\\.)*")')
_HEAD_BYTES = 4096
_CAMPAIGN_ENDINGS = (".yaml", ".yml")


class OtherRecords:
    """Finds lockfiles by the campaign that they name.

    Args:
        target: the target's name.

    Attributes:
        waiting: texts of record files that wait on a branch to be merged, by where they would stand.
    """

    def __init__(self, target: str) -> None:
        self._ending = f".{target}{RECORD_ENDINGS[0]}"
        self._found: dict[Path, dict[str, list[Path]]] = {}
        self.waiting: dict[Path, str] = {}

    def find_left_behind(self, campaign: Campaign, identity: Identity) -> tuple[Path, ...]:
        """Return lockfiles of a campaign that stand elsewhere in its repository, and are no other campaign's.

        Args:
            campaign: the campaign.
            identity: names it, and its own lockfile.
        """
        folder = _find_search_folder(campaign)
        if folder not in self._found:
            self._found[folder] = self._find_lockfiles(folder)
        by_name = self._found[folder]
        candidates = [file for name in identity.names for file in by_name.get(name, ())]
        # Those of old names are looked for beside the campaign anyway.
        beside = [identity.lockfile.with_name(f"{name}{self._ending}") for name in identity.names[1:]]
        read = {file.resolve() for file in (identity.lockfile, *beside)}
        place = campaign.file.resolve()
        return tuple(
            Path(show_path(file))
            for file in dict.fromkeys(candidates)
            if file.resolve() not in read and not _is_claimed(file, self._ending, identity.names, place)
        )

    def find_waiting(self, identity: Identity) -> dict[Path, str]:
        """Return the texts of a campaign's lockfiles that wait, by where they would stand.

        Args:
            identity: the campaign on its target.
        """
        return {
            file: text
            for file, text in self.waiting.items()
            if file.name.endswith(self._ending) and _read_name(text[:_HEAD_BYTES]) in identity.names
        }

    def _find_lockfiles(self, folder: Path) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for file in _iterate_files(folder, self._ending):
            name = _read_name(_read_head(file))
            if name is not None:
                found.setdefault(name, []).append(file)
        return found


def _find_search_folder(campaign: Campaign) -> Path:
    folder = campaign.file.absolute().parent
    root = repository_root(folder)
    if (root / ".git").exists():
        return root
    # Outside of a repository a folder may be anyone's home: only the one of this name has campaigns alone.
    below = include_folder(campaign).absolute()
    return below if below.name == DEFAULT_FOLDER.name else folder


def _iterate_files(folder: Path, ending: str) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(ending) and not name.startswith("."):
                yield Path(place, name)


def _read_head(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _read_name(head: str) -> str | None:
    found = _NAME.search(head)
    try:
        name = json.loads(found[1]) if found else None
    except ValueError:
        return None
    return name if isinstance(name, str) else None


def _is_claimed(lockfile: Path, ending: str, names: tuple[str, ...], asking: Path) -> bool:
    """Return whether a lockfile stands beside another campaign that has one of the names."""
    stem = lockfile.name.removesuffix(ending)
    files = (lockfile.with_name(f"{stem}{suffix}") for suffix in _CAMPAIGN_ENDINGS)
    return any(
        file.is_file()
        and file.resolve() != asking
        and not set(names).isdisjoint(read_names(file, current=Path.cwd()))
        for file in files
    )
