"""Files of the record in the repository: suppressions, and lockfiles away from their campaigns.

Such lockfiles were left behind when a campaign was moved, or wait on a branch to be merged.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.load import read_names
from runner.errors import SuppressionsError
from runner.github.workflows import list_folders
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.ledger.people.suppression_file import BookText
from runner.ledger.people.suppressions import Told, absorb_book, is_absorbed, read_told, write_suppressions
from runner.ledger.target_key import KeySource
from runner.source.storage import repository_root
from runner.text.include import include_folder
from runner.workflow.campaigns import DEFAULT_FOLDER, iterate_beside, show_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.record.recorded import Identity


_RESTORE = "restore it with git"
RECORD_ENDINGS = (".lock.json", ".suppressions.json", ".approvals.json")
"""The endings of files that commands write."""
# Keys are sorted, so only a bracket and conflict markers can stand before this one.
_NAME = re.compile(r'"campaign": ("(?:[^"\\]|\\.)*")')
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class SuppressionFiles:
    """Files with a target's opt-outs and paused campaigns; the first of `places` is written to.

    `state_key` is the user's secret, or None.
    """

    target: str
    state_key: str | None = field(repr=False)
    places: tuple[Path, ...]

    @classmethod
    def find(cls, paths: Iterable[Path], target: str, state_key: str | None) -> SuppressionFiles:
        """Return the files of a target for the campaigns of a command."""
        folders = list_homes(paths)
        places = [Path(show_path(folder / f"{target}{SUPPRESSIONS_SUFFIX}")) for folder in folders]
        # An existing file is preferred.
        return cls(target, state_key, tuple(sorted(places, key=lambda place: not place.exists())))

    def read(self, ledger: Ledger | None, waiting: Mapping[Path, str] | None = None) -> Told:
        """Return suppressed recipients and paused campaigns, from ledger and files together.

        `waiting` has texts of unmerged files by future path; files of other kinds and targets are skipped.

        Raises:
            LedgerError: the ledger cannot be read, or its key is missing.
            SuppressionsError: a file cannot be read, or its signature is invalid.
        """
        name = f"{self.target}{SUPPRESSIONS_SUFFIX}"
        texts = self._read_texts()
        texts += [BookText(file, text) for file, text in (waiting or {}).items() if file.name == name]
        if ledger is None:
            return read_told(None, texts, self.target, self.state_key)
        with ledger.reading() as connection:
            return read_told(connection, texts, self.target, self.state_key)

    def are_absorbed(self, ledger: Ledger | None) -> bool:
        """Return whether the ledger has all entries of the files."""
        return all(ledger is not None and self._is_absorbed(ledger, text) for text in self._read_texts())

    def _is_absorbed(self, ledger: Ledger, text: BookText) -> bool:
        with ledger.reading() as connection:
            return is_absorbed(connection, self.target, text)

    def absorb(self, ledger: Ledger) -> None:
        """Add the files' entries to the ledger.

        Raises:
            LedgerError: the ledger cannot be written, or its key is missing.
            SuppressionsError: a file cannot be read, or its signature is invalid.
        """
        for text in self._read_texts():
            self.absorb_text(ledger, text)

    def absorb_text(self, ledger: Ledger, text: BookText) -> None:
        """Add the entries of one file's text to the ledger.

        Raises:
            RunnerError: as for `absorb`.
        """
        with ledger.writing() as connection:
            absorb_book(connection, text, self.target, self.state_key)

    def write(self, ledger: Ledger) -> None:
        """Write the ledger's entries, if there are any.

        Raises:
            LedgerError: as for `absorb`.
            SuppressionsError: the file is no longer readable, or cannot be written.
        """
        home = self.places[0]
        with ledger.writing() as connection:
            # In the transaction, so that the second of two writers sees the first one's work.
            people = KeySource(self.target, self.state_key, secrets.token_hex(16))
            write_suppressions(connection, home, people, _read_text(home))

    def absorb_old(self, ledger: Ledger, old_key: str | None, ask: Callable[[Path], object]) -> None:
        """Add entries of files under an older key, or none, before the ledger moves to this key.

        `old_key` is None if there was none; `ask` is called for each file that its salt alone has signed, and
        may raise.

        Raises:
            RunnerError: as for `absorb`.
        """
        for text in self._read_texts():
            book = text.parse()
            if book.is_written_with(self.target, self.state_key) or self._is_absorbed(ledger, text):
                continue
            secret = old_key
            if book.salt is not None and book.is_written_with(self.target, None):
                ask(text.file)
                secret = None
            with ledger.writing() as connection:
                absorb_book(connection, text, self.target, secret)

    def replace(self, ledger: Ledger) -> list[Path]:
        """Rewrite all files from the ledger under the target's key; return those that changed.

        Raises:
            RunnerError: as for `write`.
        """
        for text in self._read_texts():
            if text.parse().is_written_with(self.target, self.state_key):
                with ledger.writing() as connection:
                    absorb_book(connection, text, self.target, self.state_key)
        changed = []
        for file in [place for place in self.places if place.exists()] or self.places[:1]:
            with ledger.writing() as connection:
                people = KeySource(self.target, self.state_key, secrets.token_hex(16))
                if write_suppressions(connection, file, people, None):
                    changed.append(file)
        return changed

    def _read_texts(self) -> list[BookText]:
        return list(filter(None, map(_read_text, self.places)))


def list_homes(paths: Iterable[Path]) -> list[Path]:
    """Return the folders for files of suppressions: `campaigns` above paths, else the paths' own.

    Without paths, this is the default folder.
    """
    root = repository_root(Path.cwd())
    folders = [path if path.is_dir() else path.parent for path in paths]
    homes = [_find_home(folder.absolute(), root) for folder in folders]
    # An opt-out from the campaigns of one folder holds for all.
    others = [folder / DEFAULT_FOLDER for folder in list_folders(root)]
    return list(dict.fromkeys([*homes, DEFAULT_FOLDER.absolute(), *others]))


def _find_home(folder: Path, root: Path) -> Path:
    for above in (folder, *folder.parents):
        if above.name == DEFAULT_FOLDER.name and above.is_relative_to(root):
            return above
    return folder


def _read_text(file: Path) -> BookText | None:
    try:
        return BookText(file, file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SuppressionsError(f"{file} cannot be read: {error.strerror}", hint=_RESTORE) from None
    except UnicodeDecodeError:
        raise SuppressionsError(f"{file} is not UTF-8", hint=_RESTORE) from None


class OtherRecords:
    """Search for lockfiles by the campaign that they name.

    `waiting` has the texts of unmerged record files, by future path.
    """

    def __init__(self, target: str) -> None:
        self._ending = f".{target}{RECORD_ENDINGS[0]}"
        self._found: dict[Path, dict[str, list[Path]]] = {}
        self.waiting: dict[Path, str] = {}

    def find_left_behind(self, campaign: Campaign, identity: Identity) -> tuple[Path, ...]:
        """Return a campaign's lockfiles elsewhere in its repository that belong to no other campaign."""
        folder = _find_search_folder(campaign)
        if folder not in self._found:
            self._found[folder] = self._find_lockfiles(folder)
        by_name = self._found[folder]
        candidates = [file for name in identity.names for file in by_name.get(name, ())]
        # Lockfiles of former names beside the campaign are found anyway.
        beside = [identity.lockfile.with_name(f"{name}{self._ending}") for name in identity.names[1:]]
        read = {file.resolve() for file in (identity.lockfile, *beside)}
        place = campaign.file.resolve()
        return tuple(
            Path(show_path(file))
            for file in dict.fromkeys(candidates)
            if file.resolve() not in read and not _is_claimed(file, identity.target, identity.names, place)
        )

    def find_waiting(self, identity: Identity) -> dict[Path, str]:
        """Return the texts of a campaign's unmerged lockfiles, by future path."""
        return {
            file: text
            for file, text in self.waiting.items()
            if file.name.endswith(self._ending) and read_campaign_name(text) in identity.names
        }

    def _find_lockfiles(self, folder: Path) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for file in _iterate_files(folder, self._ending):
            name = read_campaign_name(_read_head(file))
            if name is not None:
                found.setdefault(name, []).append(file)
        return found


def _find_search_folder(campaign: Campaign) -> Path:
    folder = campaign.file.absolute().parent
    root = repository_root(folder)
    if (root / ".git").exists():
        return root
    # Outside of a repository a folder may be a home folder, so only `campaigns` is searched.
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


def read_campaign_name(text: str) -> str | None:
    """Return the campaign that a lockfile names, from the beginning of its text; None if it names none."""
    found = _NAME.search(text[:_HEAD_BYTES])
    try:
        name = json.loads(found[1]) if found else None
    except ValueError:
        return None
    return name if isinstance(name, str) else None


def _is_claimed(lockfile: Path, target: str, names: tuple[str, ...], asking: Path) -> bool:
    """Return whether a lockfile stands beside another campaign with one of the names."""
    return any(
        file.resolve() != asking and not set(names).isdisjoint(read_names(file, current=Path.cwd()))
        for file in iterate_beside(lockfile, target)
    )
