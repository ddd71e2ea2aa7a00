"""The files of a target's record in the repository, and the ledger that is filled from all of them.

What one machine has learned, the next one knows: launches of every campaign, opt-outs, pauses and holds, from
lockfiles and files of suppressions wherever they lie, and from the state remote. Every command fills the
ledger first, and then asks only the ledger. Files that it has read are known by their digests.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import RunnerError, SuppressionsError
from runner.git.command import Git, GitError
from runner.github.workflows import list_folders
from runner.ledger.database import (
    exclude_others,
    find_absorbed,
    note_absorbed,
)
from runner.ledger.files.lockfile import (
    LOCKFILE_SUFFIX,
    digest_text,
    parse_lockfile,
    read_campaign_name,
    read_key_name,
    read_text,
)
from runner.ledger.files.suppressions import BookText, parse_book
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.ledger.people.suppressions import absorb_book, save_suppressions
from runner.ledger.record.campaign_record import Identity, absorb_lockfile, write_lockfile
from runner.ledger.target_key import LedgerConnection, require_key
from runner.source.storage import repository_root
from runner.workflow.campaigns import DEFAULT_FOLDER, show_path
from runner.workflow.observer import warn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.target_key import LedgerConnection
    from runner.workflow.workspace.state_remote import StateRemote


@dataclass(slots=True)
class RecordFiles:
    """The record files of a target, for the campaigns of a command.

    Attributes:
        key: of the target's fingerprints and seals.
        paths: the command's.
        places: files of suppressions; the first is written to.
        state: the state remote, which has the same files; None without one.
        skips_other_keys: leave out files that were written with another key.
        campaigns: the campaigns that lockfiles are of, by absolute path.
        unread: errors of lockfiles that could not be read, each with the campaign that it names, if any.
    """

    key: TargetKey
    paths: tuple[Path, ...]
    places: tuple[Path, ...]
    state: StateRemote | None = None
    skips_other_keys: bool = False
    campaigns: dict[Path, str] = field(default_factory=dict)
    unread: dict[Path, tuple[str | None, RunnerError]] = field(default_factory=dict)
    _named: dict[str, list[Path]] = field(default_factory=dict)
    _is_kept: bool = False

    @classmethod
    def find(cls, paths: Sequence[Path], key: TargetKey) -> RecordFiles:
        """Return the files of a target for the campaigns of a command."""
        name = f"{key.target}{SUPPRESSIONS_SUFFIX}"
        places = [Path(show_path(folder / name)) for folder in list_homes(paths)]
        # An existing file is preferred.
        return cls(key, tuple(paths), tuple(sorted(places, key=lambda place: not place.exists())))

    def fill(self, ledger: Ledger, *, needs_shared: bool = True) -> None:
        """Enter everything in the files that the ledger lacks.

        Lockfiles that cannot be read are noted in `unread`: only their campaigns have to stop. Unless it
        `needs_shared`, a state remote that cannot be reached is named and left out.

        Raises:
            GitError: the state remote cannot be read.
            LedgerError: the ledger cannot be written, or was written with another key.
            SuppressionsError: a file cannot be read, or a line has a wrong seal.
        """
        self.campaigns.clear()
        self._named.clear()
        self.unread.clear()
        texts = self.read_texts(needs_shared=needs_shared)
        digests = {file: digest_text(text) for file, text in texts.items()}
        with ledger.reading() as connection:
            if not require_key(connection, self.key) and not self._is_kept:
                _require_kept(f"{self.key.target}{SUPPRESSIONS_SUFFIX}")
                self._is_kept = True
            known = find_absorbed(connection, sorted(set(digests.values())))
        new = [file for file in texts if digests[file] not in known]
        if not new:
            return
        with ledger.writing() as connection:
            exclude_others(connection)
            # Opt-outs first: forgotten people are left out of launches.
            for file in sorted(new, key=lambda file: file.name.endswith(LOCKFILE_SUFFIX)):
                if self._absorb(connection, file, texts[file]):
                    note_absorbed(connection, [digests[file]])

    def _absorb(self, connection: LedgerConnection, file: Path, text: str) -> bool:
        try:
            if not file.name.endswith(LOCKFILE_SUFFIX):
                absorb_book(connection, parse_book(file, text, self.key), self.key)
                return True
            lockfile, is_merged = parse_lockfile(file, text, self.key)
            with connection.begin_nested():
                absorb_lockfile(connection, file, lockfile, self.key)
        except RunnerError as error:
            if self.state is not None:
                self.state.advise(file, error)
            if not file.name.endswith(LOCKFILE_SUFFIX):
                raise
            name = read_campaign_name(text)
            if name is None and self.state is not None:
                name = self.state.name_campaign(file)
            self.unread[file] = (name, error)
            return False
        if is_merged:
            warn(
                f"{show_path(file)} was merged by git: the launches of both sides count as sent; the next "
                "`runner apply` or `runner reconcile` writes it clean"
            )
        return True

    def absorb_text(self, ledger: Ledger, text: BookText) -> None:
        """Enter one version of a file of suppressions.

        Raises:
            RunnerError: as for `fill`.
        """
        book = parse_book(text.file, text.text, self.key)
        with ledger.writing() as connection:
            absorb_book(connection, book, self.key)

    def write_suppressions(
        self, ledger: Ledger, file: Path | None = None, *, replaces_old_key: bool = False
    ) -> bool:
        """Write the ledger's opt-outs, pauses and holds, if there are any; return True if the file changed.

        `file` is None for the target's own. With `replaces_old_key` the ledger has all of a file that was
        written with another key.

        Raises:
            LedgerError: the ledger cannot be written.
            SuppressionsError: the file is no longer readable, or cannot be written.
        """
        file = file or self.places[0]
        with ledger.writing() as connection:
            # In the transaction, so that the second of two writers sees the first one's work.
            exclude_others(connection)
            text = _read_suppressions(file)
            is_old = replaces_old_key and text is not None and read_key_name(text.text) != self.key.name
            if text is not None and not is_old and not find_absorbed(connection, [text.digest]):
                absorb_book(connection, parse_book(file, text.text, self.key), self.key)
            return save_suppressions(connection, file, self.key)

    def rewrite(self, ledger: Ledger, texts: Mapping[Path, str]) -> list[Path]:
        """Write files anew from the ledger, whatever they say now (`texts`); return those that changed.

        Raises:
            RunnerError: one cannot be written.
        """
        changed = []
        for file, text in texts.items():
            campaign = read_campaign_name(text)
            if not file.exists():
                continue
            if not file.name.endswith(LOCKFILE_SUFFIX):
                is_changed = self.write_suppressions(ledger, file, replaces_old_key=True)
            else:
                stem = file.name.removesuffix(f".{self.key.target}{LOCKFILE_SUFFIX}")
                identity = Identity(campaign or "", file.with_name(f"{stem}.yaml"), self.key)
                is_changed = write_lockfile(ledger, identity, keeps_counts='  "counts": [' in text)
            if is_changed:
                changed.append(file)
        return changed

    def read_texts(self, *, needs_shared: bool = True) -> dict[Path, str]:
        """Return the texts of all files, by place; unreadable lockfiles are noted.

        Raises:
            GitError: the state remote cannot be read, and it `needs_shared`.
            SuppressionsError: a file of suppressions cannot be read.
        """
        books = (_read_suppressions(place) for place in self.places)
        texts = {book.file: book.text for book in books if book is not None}
        texts.update(self._read_lockfiles())
        try:
            texts.update({} if self.state is None else self.state.read_record_texts())
        except GitError as error:
            if needs_shared or self.state is None:
                raise
            self.state.leave_out()
            warn(f"what other machines recorded may be missing: {error.message}")
        if self.skips_other_keys:
            own = [file for file in texts if read_key_name(texts[file]) == self.key.name]
            texts = {file: texts[file] for file in own}
        for file, text in texts.items():
            # Pauses and holds name campaigns as well.
            is_lockfile = file.name.endswith(LOCKFILE_SUFFIX)
            if is_lockfile and (campaign := read_campaign_name(text)) is not None:
                self.campaigns[file.absolute()] = campaign
                self._named.setdefault(campaign, []).append(file)
        return texts

    def _read_lockfiles(self) -> Iterator[tuple[Path, str]]:
        for file in self.list_lockfiles():
            try:
                text = read_text(file)
            except RunnerError as error:
                self.unread[file] = (None, error)
                continue
            # An empty one is damaged, not absent.
            if text is not None:
                yield file, text

    def find_campaign(self, file: Path) -> str | None:
        """Return the campaign that a lockfile, by its absolute path, is of; None if there is none."""
        return self.campaigns.get(file)

    def list_named(self, names: Iterable[str]) -> list[Path]:
        """Return the lockfiles of a campaign, by its names."""
        return [file for name in names for file in self._named.get(name, ())]

    def list_lockfiles(self, *, every_target: bool = False) -> list[Path]:
        """Return the target's lockfiles in the repository, or in `campaigns` or beside campaigns."""
        ending = LOCKFILE_SUFFIX if every_target else f".{self.key.target}{LOCKFILE_SUFFIX}"
        found = {file.resolve(): file for file in _iterate_files(self.paths, ending)}
        return [Path(show_path(file)) for file in sorted(found.values())]


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


def _read_suppressions(file: Path) -> BookText | None:
    try:
        return BookText(file, file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        hint = "restore it with git"
        raise SuppressionsError(f"{file} cannot be read: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        raise SuppressionsError(f"{file} is not UTF-8", hint="restore it with git") from None


def _require_kept(name: str) -> None:
    """Ensure that no file of suppressions was removed from the work tree while git still has it.

    Raises:
        SuppressionsError: one was: without it nobody would have opted out.
    """
    with suppress(GitError):  # without git there is none to have it
        deleted = Git(Path.cwd()).ask("ls-files", "--deleted", "-z", "--", name, f"*/{name}").output
        if deleted:
            file = deleted.split("\0")[0]
            raise SuppressionsError(
                f"{file} is gone, and git still has it: without it nobody would have opted out",
                hint=f"bring it back with `git checkout -- {shlex.quote(file)}`; or, if it is to go, "
                f"`git rm {shlex.quote(file)}`",
            )


def _iterate_files(paths: Iterable[Path], ending: str) -> Iterator[Path]:
    """Yield files of the repositories of paths; outside of one only below `campaigns`, or in own folders."""
    folders = {(path if path.is_dir() else path.parent).absolute() for path in paths} or {
        DEFAULT_FOLDER.absolute()
    }
    for folder in folders:
        root = repository_root(folder)
        home = _find_home(folder, Path(folder.anchor))
        if (root / ".git").exists():
            yield from _walk(root, ending)
        elif home.name == DEFAULT_FOLDER.name or folder in {path.absolute() for path in paths}:
            yield from _walk(home, ending)
        else:
            # Another folder may be a home folder: only below `campaigns` is a deep search safe.
            yield from folder.glob(f"*{ending}")


def _walk(folder: Path, ending: str) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(ending) and not name.startswith("."):
                yield Path(place, name)
