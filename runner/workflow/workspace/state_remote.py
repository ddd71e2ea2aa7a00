"""`--state-remote`: a git remote as lock of all machines, and record of everything that they send.

Each target has a ref (see `runner.git.state_ref`) with its holder and these files:

- `<campaign>.lock.json`: the campaign's lockfile after the last run;
- `<target>.suppressions.json`: opt-outs, pauses and holds; `<target>.approvals.json`: approvals;
- `<campaign>.<number>.reserved.json`: launches reserved before the first of them is sent, still without an
  outcome.

So a machine learns of sends that are on no branch yet: after a re-run of an old commit, a push refused by a
protected branch, or a run killed before its commit. Only the holder writes what was sent. Decisions about
people are sets of lines, which any machine adds at any time; a holder unites them with its own.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import LockfileError, RunnerError
from runner.git.command import GitError
from runner.git.lease import Clocks, GitLeaseTerms, LeasePatience, advise_timeout, hold_lease
from runner.git.ref_state import STATE_FILE, State, advise_removal, append, dump_state, read_state
from runner.git.state_ref import Snapshot, StateRef
from runner.github.job import find_git_settings
from runner.ledger.engine import find_sqlite_file
from runner.ledger.files.comparison import unite_files
from runner.ledger.files.lockfile import LOCKFILE_SUFFIX, parse_reservation
from runner.ledger.fingerprint import TargetKey
from runner.ledger.locks.campaign_lock import LockHolder, read_clock
from runner.ledger.model import APPROVALS_SUFFIX, SUPPRESSIONS_SUFFIX
from runner.service.target import leads_elsewhere
from runner.source.storage import repository_root
from runner.workflow.observer import note, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from runner.git.lease import Lease
    from runner.ledger.model import Reservation
    from runner.service.target import Target
    from runner.workflow.scope import Scope

NO_REMOTE = "none"
"""The state remote of a target that one machine alone sends to."""
ORIGIN = "origin"
"""The state remote of a target on another machine that names none, if the repository has it."""
_RESERVED = re.compile(r"(?P<campaign>.+)\.(?P<number>[0-9]+)\.reserved\.json", re.DOTALL)
_ADDED = (SUPPRESSIONS_SUFFIX, APPROVALS_SUFFIX)
_CLOCKS = Clocks(read_clock, time.sleep)


class StateRemote:
    """The state of one target's campaigns on the remote, for one command.

    `is_behind` is True if the last update of the remote failed.
    """

    def __init__(self, ref: StateRef, terms: GitLeaseTerms, target: Target) -> None:
        self.ref = ref
        self._terms = terms
        # The key that has sealed the state.
        self._key = TargetKey.of(target.name, target.state_key)
        self._secret = target.state_key
        self._lease: Lease | None = None
        self._seen: Snapshot | None = None
        self._is_left_out = False
        # Decisions that other machines have added while this run holds the ref.
        self._added: dict[str, str] = {}
        # The texts of suppressions that the ledger has.
        self._known: set[str] = set()
        self._reservations: dict[str, tuple[str, Reservation]] = {}
        self.is_behind = False

    @classmethod
    def choose(cls, scope: Scope, target: Target, ledger_url: str) -> StateRemote | None:
        """Return the state remote of a command; None if it has none.

        Options and `targets.yaml` name it. Otherwise it is `origin` for a target on another machine, if the
        repository has that, and no ledger on a server is what machines share.

        Raises:
            GitError: the remote that was named is not there.
        """
        remote = name_remote(scope, target.state_remote)
        if remote is not None:
            return None if remote == NO_REMOTE else cls.open(remote, target, scope)
        is_clone = (repository_root(Path.cwd()) / ".git").exists()
        if not leads_elsewhere(target) or not is_clone or find_sqlite_file(ledger_url) is None:
            return None
        # Without git, or without an `origin`, this machine is alone.
        with suppress(GitError):
            return cls.open(ORIGIN, target, scope)
        return None

    @classmethod
    def open(cls, remote: str, target: Target, scope: Scope) -> StateRemote:
        """Return the state of a target on a remote of the current folder's repository.

        Raises:
            GitError: there is no git, no repository, or no such remote.
        """
        ref = StateRef.open(Path.cwd(), remote, target.name, find_git_settings(scope.environ))
        return cls(ref, GitLeaseTerms.lasting(scope.state_lease_s), target)

    def read_record_texts(self) -> dict[Path, str]:
        """Return the texts of lockfiles and suppressions, by place.

        The remote is read once, and again when this run takes the ref.

        Raises:
            GitError: the remote cannot be asked, or its state cannot be read.
        """
        endings = (LOCKFILE_SUFFIX, SUPPRESSIONS_SUFFIX)
        files = {name: blob for name, blob in self._read_files().items() if name.endswith(endings)}
        texts = {self._place(name): self.ref.load(blob) for name, blob in files.items()}
        self.note_known(texts)
        return texts

    def read_text(self, name: str) -> str:
        """Return the text of a file on the ref; an empty one if it is not there.

        Raises:
            GitError: as for `read_record_texts`.
        """
        blob = self._read_files().get(name)
        return "" if blob is None else self.ref.load(blob)

    def leave_out(self) -> None:
        """Go on without the remote, which cannot be reached, in a command that only reads or decides."""
        self._seen = Snapshot()
        self._is_left_out = True

    def advise(self, file: Path, error: RunnerError) -> None:
        """Have an error about a damaged file on the ref say what to do about the ref."""
        if file.parent == self._place("") and (error.hint or "").startswith("restore it with git"):
            error.hint = advise_removal(self.ref)

    def name_campaign(self, lockfile: Path) -> str | None:
        """Return the campaign that a lockfile on the ref is of, by its place; None for another one."""
        return lockfile.name.removesuffix(LOCKFILE_SUFFIX) if lockfile.parent == self._place("") else None

    def list_reservations(self, names: Sequence[str], key: TargetKey | None = None) -> list[Reservation]:
        """Return the groups of launches of a campaign that a run was about to send.

        `key` is None for the present one.

        Raises:
            GitError: as for `read_record_texts`.
            LockfileError: one is damaged, or has a wrong seal.
        """
        reserved = {name: blob for name, blob in self._read_files().items() if _is_reserved(name, names)}
        return [self._read_reservation(name, blob, key) for name, blob in sorted(reserved.items())]

    @property
    def is_held(self) -> bool:
        """True while this run holds the ref, so that no other sends the reserved launches."""
        return self._lease is not None

    def exists(self) -> bool:
        """Return whether the remote had the ref when it was last read.

        Raises:
            GitError: as for `read_record_texts`.
        """
        return bool(self._read_files())

    def list_campaigns(self) -> list[str]:
        """Return the names of the campaigns with state on the remote.

        Raises:
            GitError: as for `read_record_texts`.
        """
        found = set()
        for file in self._read_files():
            reserved = _RESERVED.fullmatch(file)
            if reserved is not None:
                found.add(reserved["campaign"])
            elif file.endswith(LOCKFILE_SUFFIX):
                found.add(file.removesuffix(LOCKFILE_SUFFIX))
        return sorted(found)

    def find_targets(self, known: Collection[str]) -> set[str]:
        """Return the targets with a record on the remote, besides `known`; none where it was left out.

        Raises:
            GitError: the remote cannot be asked, or a target's state cannot be read.
        """
        if self._is_left_out:
            return set()
        self._read_files()
        names = self.ref.targets.difference(known)
        refs = {name: StateRef(self.ref.git, self.ref.remote, name) for name in names}
        return {name for name, ref in refs.items() if ref.read().files.keys() - {STATE_FILE}}

    @contextmanager
    def hold(
        self,
        holder: LockHolder,
        run: str,
        has_died: Callable[[str], bool],
        *,
        timeout_s: float,
        settle_s: float,
        quiet: bool,
    ) -> Iterator[None]:
        """Hold the ref while the block lasts, so that no other run begins on any machine.

        Args:
            holder: this run.
            run: its unique id.
            has_died: returns True for a run known to have died.
            timeout_s: longest wait for another run, in seconds.
            settle_s: time the service may take to list a launch, in seconds.
            quiet: hide messages about waiting.

        Raises:
            StateLockedError: another run holds it.
            GitError: the remote cannot be used.
        """
        observers = () if quiet else (self._note_absence, self._note_holder)
        held = hold_lease(
            self.ref,
            holder.describe(),
            run,
            self._terms,
            _CLOCKS,
            self._note_unreleased,
            has_died=has_died,
            patience=LeasePatience(timeout_s, settle_s, *observers),
            seen=self._seen,
            unite=self._take_in,
        )
        with held as lease:
            self._lease = lease
            try:
                yield
            finally:
                self._seen, self._lease = Snapshot(None, lease.files), None

    def start(self) -> bool:
        """Make the ref, free, for somebody who knows that nothing is being sent; return False if it is there.

        Raises:
            GitError: the remote cannot be used.
        """
        if self.ref.find() is not None:
            return False
        self.ref.swap(None, self.ref.compose({STATE_FILE: self.ref.store(dump_state(State()))}))
        return True

    def require_held(self) -> None:
        """Check before each request, from any thread, that this run holds the ref for a moment longer.

        Raises:
            RunnerError: the ref is not held.
        """
        self._require_lease().require_held()

    def replace(
        self,
        names: Sequence[str],
        lockfile: str | None,
        reserved: Sequence[str],
        suppressions: str | None,
        *,
        is_urgent: bool,
    ) -> None:
        """Replace all files of a campaign on the ref, and the suppressions unless they are None.

        What is not urgent goes with the next push, at the latest when the ref is let go.

        Raises:
            RunnerError: the ref is lost, or cannot be moved.
        """
        lease = self._require_lease()
        with lease.turn:
            before = _leave_out_state(lease.files)
            files = {name: blob for name, blob in before.items() if not _is_of(name, names)}
            if lockfile is not None:
                files[f"{names[0]}{LOCKFILE_SUFFIX}"] = self.ref.store(lockfile)
            if suppressions is not None:
                name = f"{self._key.target}{SUPPRESSIONS_SUFFIX}"
                files[name] = self._unite(name, self.ref.store(suppressions))
                self._known.add(suppressions)
            for number, text in enumerate(reserved):
                files[f"{names[0]}.{number}.reserved.json"] = self.ref.store(text)
            if files != before:
                (lease.write if is_urgent else lease.stage)(files)

    def add(self, name: str, reserved: str) -> None:
        """Put a further reservation on the ref.

        Raises:
            RunnerError: the ref is lost, or cannot be moved.
        """
        lease = self._require_lease()
        with lease.turn:
            number = sum(_is_reserved(file, [name]) for file in lease.files)
            file = f"{name}.{number}.reserved.json"
            lease.write({**_leave_out_state(lease.files), file: self.ref.store(reserved)})

    def append(self, texts: Mapping[str, str]) -> bool:
        """Add the lines of record files, by name, to those on the ref; return False if there is no ref.

        Another run may hold it, on any machine, and hears of them.

        Raises:
            RunnerError: the ref cannot be read or moved, or was written with another key.
        """

        def add(there: Mapping[str, str]) -> Mapping[str, str]:
            files = dict(there)
            for name, text in texts.items():
                known = None if name not in there else self.ref.load(there[name])
                files[name] = self.ref.store(self._unite_texts(name, text, known))
            return files

        return append(self.ref, add)

    def read_added(self) -> dict[Path, str]:
        """Look at the ref again, and return the texts of suppressions that are not known (`note_known`).

        Raises:
            GitError: the remote cannot be asked.
        """
        commit = self.ref.find()
        snapshot = None if commit is None else self.ref.read_at(commit)
        files = (snapshot.files if snapshot else {}).items()
        books = {name: blob for name, blob in files if name.endswith(SUPPRESSIONS_SUFFIX)}
        texts = {self._place(name): self.ref.load(blob) for name, blob in books.items()}
        return {file: text for file, text in texts.items() if text not in self._known}

    def note_known(self, texts: Mapping[Path, str]) -> None:
        """Note that the ledger has these texts of suppressions."""
        self._known.update(texts.values())

    def list_reserved(self) -> tuple[list[tuple[str, Reservation]], str | None]:
        """Return all reservations, each with its campaign's name, and the holder of the ref.

        While the ref is held, reserved launches are being sent.

        Raises:
            GitError: the remote cannot be asked, or its state cannot be read.
        """
        snapshot = self.ref.read()
        holder = read_state(self.ref, snapshot).holder
        found = [
            (name["campaign"], self._read_reservation(file, blob))
            for file, blob in sorted(snapshot.files.items())
            if (name := _RESERVED.fullmatch(file)) is not None
        ]
        return found, None if holder is None else holder.who

    def has(self, names: Sequence[str]) -> bool:
        """Return whether the ref has files of a campaign."""
        return any(_is_of(name, names) for name in self._read_files())

    def _require_lease(self) -> Lease:
        if self._lease is None:
            raise ValueError("the ref is not held")
        return self._lease

    def _read_files(self) -> Mapping[str, str]:
        if self._lease is not None:
            return self._lease.files
        if self._seen is None:
            snapshot = self.ref.read()
            read_state(self.ref, snapshot)
            self._seen = snapshot
        return self._seen.files

    def _take_in(self, name: str, ours: str | None, theirs: str) -> str | None:
        """Unite what another machine has added while this run holds the ref; the rest is the holder's."""
        if not name.endswith(_ADDED):
            return ours
        self._added[name] = self.ref.load(theirs)
        return theirs if ours is None else self._unite(name, ours)

    def _unite(self, name: str, blob: str) -> str:
        if name not in self._added:
            return blob
        return self.ref.store(self._unite_texts(name, self.ref.load(blob), self._added[name]))

    def _unite_texts(self, name: str, ours: str, theirs: str | None) -> str:
        return ours if theirs is None else unite_files(self._place(name), ours, theirs, lambda: self._secret)

    def _read_reservation(self, name: str, blob: str, key: TargetKey | None = None) -> Reservation:
        if name not in self._reservations or self._reservations[name][0] != blob:
            found = _RESERVED.fullmatch(name)
            campaign = found["campaign"] if found else ""
            try:
                reservation = parse_reservation(
                    self._place(name), self.ref.load(blob), campaign, key or self._key
                )
            except LockfileError as error:
                raise LockfileError(error.message, hint=advise_removal(self.ref)) from None
            self._reservations[name] = (blob, reservation)
        return self._reservations[name][1]

    def _place(self, name: str) -> Path:
        return Path(f"{self.ref.remote}:{self.ref.name}", name)

    def _note_unreleased(self, error: RunnerError) -> None:
        self.is_behind = True
        warn(f"{self.ref} could not be let go: {error.message}")
        note(
            "  the ledger and the lockfiles here have everything: commit and push them, or run the same "
            "command again here. Other machines take the ref over once they have "
            f"seen it unmoved for {self._terms.watch_s:g} s: have them wait with --lock-timeout "
            f"{advise_timeout(self._terms)}"
        )

    def _note_holder(self, who: str, seconds: float) -> None:
        note(
            f"Waiting for the run that holds {self.ref}: {who}. If that run has died, this one takes over "
            f"once it has seen the ref unmoved for {seconds:g} s."
        )

    def _note_absence(self, seconds: float) -> None:
        command = f"runner ci start --target {self._key.target}"
        command += "" if self.ref.remote == "origin" else f" --remote {self.ref.remote}"
        note(
            f"There is no {self.ref}: it was never made, or was deleted while another machine sends. Waiting "
            f"{seconds:g} s, after which no other run can hold it and the service lists all that it sent. If "
            f"you know that nothing is being sent, `{command}` makes it, and ends this wait."
        )


def name_remote(scope: Scope, setting: str | None) -> str | None:
    """Return the state remote that options, the environment or `setting` name, `none` included; else None."""
    return scope.state_remote or scope.environ.get("RUNNER_STATE_REMOTE") or setting


def _leave_out_state(files: Mapping[str, str]) -> dict[str, str]:
    return {name: blob for name, blob in files.items() if name != STATE_FILE}


def _is_reserved(file: str, names: Sequence[str]) -> bool:
    found = _RESERVED.fullmatch(file)
    return found is not None and found["campaign"] in names


def _is_of(file: str, names: Sequence[str]) -> bool:
    return _is_reserved(file, names) or file in {f"{name}{LOCKFILE_SUFFIX}" for name in names}
