"""The record of a target: the union of the lines of all stores, and the ledger that is filled from it.

What one machine has learned, the next one knows: launches of every campaign, opt-outs, pauses and holds. Its
stores are the files beside the campaigns, the ref of the state remote, and, for a run, branches of a git
remote (`RecordRemote`); each gives texts of files by place. Every command fills the ledger first, and then
asks only the ledger. Texts that it has read are known by their digests.
"""

from __future__ import annotations

import os
import shlex
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import LockfileError, RunnerError, SuppressionsError
from runner.git.command import Git, GitError, hide_credentials
from runner.git.objects import ObjectReader
from runner.github.job import find_git_settings
from runner.github.workflows import list_folders
from runner.ledger.database import exclude_others, find_absorbed, note_absorbed
from runner.ledger.files.lockfile import (
    LOCKFILE,
    LOCKFILE_SUFFIX,
    parse_lockfile,
    read_campaign_name,
    read_key_name,
)
from runner.ledger.files.sealed import digest_text
from runner.ledger.files.suppressions import BOOK, parse_book
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.ledger.people.suppressions import absorb_book, compose_suppressions, save_suppressions
from runner.ledger.record.campaign_record import Identity, absorb_lockfile, write_lockfile
from runner.ledger.target_key import require_key
from runner.service.target import SANDBOX
from runner.source.storage import repository_root
from runner.workflow.campaigns import DEFAULT_FOLDER, show_path
from runner.workflow.observer import note, warn
from runner.workflow.workspace.state_remote import NO_REMOTE, ORIGIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.target_key import LedgerConnection
    from runner.workflow.workspace.state_remote import StateRemote


POLL_S = 3.0
"""Time between two looks at a remote during a run, in seconds: with its answer and the check before a send, a
pause of another machine holds within five seconds."""
_TIMEOUT_S = 20.0


@dataclass(slots=True)
class RecordFiles:
    """The record files of a target, for the paths of a command.

    Attributes:
        places: files of suppressions; the first is written to.
        state: the state remote, which has the same files.
        campaigns: the campaigns that lockfiles are of, by absolute path.
        unread: errors of lockfiles that could not be read, each with the campaign that it names, if any.
    """

    key: TargetKey
    paths: tuple[Path, ...]
    places: tuple[Path, ...]
    state: StateRemote | None = None
    campaigns: dict[Path, str] = field(default_factory=dict)
    unread: dict[Path, tuple[str | None, RunnerError]] = field(default_factory=dict)
    _is_kept: bool = False

    @classmethod
    def find(cls, paths: Sequence[Path], key: TargetKey) -> RecordFiles:
        """Return the files of a target for the campaigns of a command."""
        name = f"{key.target}{SUPPRESSIONS_SUFFIX}"
        places = [Path(show_path(folder / name)) for folder in list_homes(paths)]
        # An existing file is preferred.
        return cls(key, tuple(paths), tuple(sorted(places, key=lambda place: not place.exists())))

    def fill(self, ledger: Ledger, *, needs_shared: bool = True) -> None:
        """Enter everything in all stores that the ledger lacks.

        Lockfiles that cannot be read are noted in `unread`: only their campaigns have to stop. Unless it
        `needs_shared`, a state remote that cannot be reached is named and left out.
        """
        self.campaigns.clear()
        self.unread.clear()
        self.absorb(ledger, self.read_texts(needs_shared=needs_shared))

    def absorb(self, ledger: Ledger, texts: Mapping[Path, str]) -> None:
        """Enter texts of record files, by place, that the ledger lacks."""
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
            for file in sorted(new, key=_is_lockfile):
                if self._absorb(connection, file, texts[file]):
                    note_absorbed(connection, [digests[file]])

    def _absorb(self, connection: LedgerConnection, file: Path, text: str) -> bool:
        try:
            if not _is_lockfile(file):
                absorb_book(connection, parse_book(file, text, self.key), self.key)
                return True
            lockfile, is_merged = parse_lockfile(file, text, self.key)
            with connection.begin_nested():
                absorb_lockfile(connection, file, lockfile, self.key)
        except RunnerError as error:
            name = read_campaign_name(text)
            if self.state is not None and file.parent == self.state.place:
                name = name or file.name.removesuffix(LOCKFILE_SUFFIX)
                if (error.hint or "").startswith("restore it with git"):
                    error.hint = self.state.ref.advise_removal()
            if not _is_lockfile(file):
                raise
            self.unread[file] = (name, error)
            return False
        if is_merged:
            warn(
                f"{show_path(file)} was merged by git: the launches of both sides count as sent; the next "
                "`runner apply` or `runner reconcile` writes it clean"
            )
        return True

    def write_suppressions(
        self, ledger: Ledger, file: Path | None = None, *, replaces_old_key: bool = False
    ) -> bool:
        """Write the ledger's opt-outs, pauses and holds, if there are any; return True if the file changed.

        With `replaces_old_key` the ledger has all of a file that was written with another key.
        """
        file = file or self.places[0]
        with ledger.writing() as connection:
            # In the transaction, so that the second of two writers sees the first one's work.
            exclude_others(connection)
            text = BOOK.read(file)
            is_old = replaces_old_key and text is not None and read_key_name(text) != self.key.name
            if text is not None and not is_old and not find_absorbed(connection, [digest_text(text)]):
                absorb_book(connection, parse_book(file, text, self.key), self.key)
            return save_suppressions(connection, file, self.key)

    def rewrite(self, ledger: Ledger, texts: Mapping[Path, str]) -> list[Path]:
        """Write files anew from the ledger, whatever they say now (`texts`); return those that changed."""
        changed = []
        for file, text in texts.items():
            campaign = read_campaign_name(text)
            if not file.exists():
                continue
            if not _is_lockfile(file):
                is_changed = self.write_suppressions(ledger, file, replaces_old_key=True)
            else:
                stem = file.name.removesuffix(f".{self.key.target}{LOCKFILE_SUFFIX}")
                identity = Identity(campaign or "", file.with_name(f"{stem}.yaml"), self.key)
                is_changed = write_lockfile(ledger, identity, keeps_counts='  "counts": [' in text)
            if is_changed:
                changed.append(file)
        return changed

    def share(self, ledger: Ledger, *, is_told: bool = False) -> None:
        """Bring the ledger's opt-outs, pauses and holds to the state remote, if there is one.

        They are in the file of suppressions all the same, and a later run brings them: a failure is a
        warning. With `is_told` it notes where other machines learn of them.
        """
        is_shared = False
        if self.state is not None:
            with ledger.reading() as connection:
                text = compose_suppressions(connection, self.key)
            try:
                # Without a ref everybody would wait until nobody can be sending: `apply` does.
                is_shared = text is not None and self.state.append({self.places[0].name: text})
            except RunnerError as error:
                warn(
                    f"what was decided here could not be brought to {self.state.ref}: {error.message}",
                    "the next command that can brings it; until then other machines do not know it, unless "
                    "`runner ci record` commits it",
                )
                return
        if is_told and is_shared and self.state is not None:
            note(f"Other machines learn of it from {self.state.ref}.")
        elif is_told and self.key.target != SANDBOX:
            note(f"`runner ci record` commits {self.places[0]}: other machines learn of it there.")

    def read_texts(self, *, needs_shared: bool = True) -> dict[Path, str]:
        """Return the texts of all lockfiles and suppressions, by place; unreadable lockfiles are noted."""
        texts = dict(self._read_files())
        try:
            if self.state is not None:
                texts |= self.state.read(LOCKFILE_SUFFIX, SUPPRESSIONS_SUFFIX)
        except GitError as error:
            if needs_shared or self.state is None:
                raise
            self.state.leave_out()
            warn(f"what other machines recorded may be missing: {error.message}")
        for file, text in texts.items():
            # Pauses and holds name campaigns as well.
            if _is_lockfile(file) and (campaign := read_campaign_name(text)) is not None:
                self.campaigns[file.absolute()] = campaign
        return texts

    def _read_files(self) -> Iterator[tuple[Path, str]]:
        for file in (*self.places, *self.list_lockfiles()):
            try:
                text = (LOCKFILE if _is_lockfile(file) else BOOK).read(file)
            except LockfileError as error:
                self.unread[file] = (None, error)
                continue
            # An empty one is damaged, not absent.
            if text is not None:
                yield file, text

    def list_lockfiles(self, *, every_target: bool = False) -> list[Path]:
        """Return the target's lockfiles in the repository, or in `campaigns` or beside campaigns."""
        ending = LOCKFILE_SUFFIX if every_target else f".{self.key.target}{LOCKFILE_SUFFIX}"
        found = {file.resolve(): file for file in _iterate_files(self.paths, ending)}
        return [Path(show_path(file)) for file in sorted(found.values())]


class RecordRemote:
    """A target's suppressions on its state remote and a remote's branches, before a run and while it sends.

    Pauses, opt-outs entered by hand, decisions and forgotten people are carried by git alone: a clone that
    was not updated lacks them. `name` is the remote whose default and current branch are read; None for
    `origin`.
    """

    def __init__(self, files: RecordFiles, name: str | None, environment: Mapping[str, str]) -> None:
        self._files, self._state = files, files.state
        self._root = repository_root(Path.cwd())
        self._name = name or ORIGIN
        self._git = Git(self._root, timeout_s=_TIMEOUT_S, settings=find_git_settings(environment))
        is_clone = files.key.target != SANDBOX and (self._root / ".git").exists()
        self._has_branches = self._name != NO_REMOTE and is_clone and self._is_known()
        # Commits that were read.
        self._seen: set[str] = set()

    def _is_known(self) -> bool:
        if self._state is not None and self._state.ref.remote == self._name:
            return True
        with self._explaining():
            return not self._git.ask("remote", "get-url", "--", self._name).status

    def absorb(self, ledger: Ledger, *, is_first: bool = True) -> None:
        """Add the remote's suppressions to the ledger; files of the work tree stay as they are.

        At first, what the state remote has is in the ledger already.
        """
        with self._explaining():
            is_shared = self._state is not None and not is_first
            texts = self._state.read(SUPPRESSIONS_SUFFIX, is_new=True) if is_shared and self._state else {}
            tips = self._list_tips() if self._has_branches else {}
            new = {ref: tip for ref, tip in tips.items() if tip not in self._seen}
            texts |= self._read_branches(new)
        if texts:
            self._files.absorb(ledger, texts)
        self._seen.update(new.values())

    @contextmanager
    def watching(self, ledger: Ledger) -> Iterator[None]:
        """Look for new suppressions now, and every `POLL_S` while the block lasts.

        Somebody may have thought about the plan for long. Failures of later looks are tried again.
        """
        if self._state is None and not self._has_branches:
            yield
            return
        self.absorb(ledger, is_first=False)
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(POLL_S):
                with suppress(RunnerError):
                    self.absorb(ledger, is_first=False)

        thread = threading.Thread(target=watch, name="record", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _read_branches(self, tips: Mapping[str, str]) -> dict[Path, str]:
        paths = [(Path.cwd() / place).resolve() for place in self._files.places]
        paths = [path.relative_to(self._root) for path in paths if path.is_relative_to(self._root)]
        objects = ObjectReader(self._git) if self._state is None else self._state.ref.objects
        objects.bring(self._name, tips)
        # Its process starts if there is a file to read, as git would write it into the work tree.
        files = ObjectReader(self._git, is_filtered=True)
        found = {}
        for ref, tip in tips.items():
            for path in map(Path.as_posix, paths):
                blob = objects.find(tip, path)
                text = None if blob is None else files.load(blob, path)
                if text is not None:
                    found[Path(f"{self._name}:{ref}", path)] = text
        return found

    def _list_tips(self) -> dict[str, str]:
        """Return the commits of the branches that may have the record, by ref."""
        if self._state is not None and self._state.ref.remote == self._name:
            # Looked for together with the ref, just now.
            tips, refs = self._state.ref.tips, ["HEAD"]
        else:
            branch = self._git.ask("symbolic-ref", "--quiet", "HEAD").output.strip()
            refs = ["HEAD", branch] if branch else ["HEAD"]
            tips = self._git.list_refs(self._name, *refs)
        return {ref: tips[ref] for ref in refs if ref in tips}

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except GitError as error:
            raise GitError(
                f"the record on the git remote {hide_credentials(self._name)} cannot be read, and this clone "
                f"may lack a pause or an opt-out: {error.message.rstrip('.')}. Nothing was sent",
                hint="check git and the network; where there is no way to the remote, `--record-remote none` "
                "goes by this machine's files",
            ) from None


def list_homes(paths: Iterable[Path]) -> list[Path]:
    """Return the folders for files of suppressions: `campaigns` above paths, their own, or the default."""
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


def _is_lockfile(file: Path) -> bool:
    return file.name.endswith(LOCKFILE_SUFFIX)


def _require_kept(name: str) -> None:
    """Ensure that no file of suppressions was removed from the work tree while git still has it."""
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
            yield from walk_files(root, ending)
        elif home.name == DEFAULT_FOLDER.name or folder in {path.absolute() for path in paths}:
            yield from walk_files(home, ending)
        else:
            # Another folder may be a home folder: only below `campaigns` is a deep search safe.
            yield from folder.glob(f"*{ending}")


def walk_files(folder: Path, endings: str | tuple[str, ...]) -> Iterator[Path]:
    """Yield the files below a folder whose names end so, but for hidden ones."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(endings) and not name.startswith("."):
                yield Path(place, name)
