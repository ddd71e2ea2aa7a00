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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import LockfileError, RunnerError
from runner.git.command import GitError
from runner.git.lease import Clocks, GitLeaseTerms, LeasePatience, hold_lease
from runner.git.state_ref import STATE_FILE, Holder, Snapshot, State, StateRef, read_target
from runner.github.job import find_git_settings
from runner.ledger.database import find_sqlite_file
from runner.ledger.files.comparison import Secrets, unite_files
from runner.ledger.files.lockfile import LOCKFILE_SUFFIX, parse_reservation
from runner.ledger.fingerprint import TargetKey
from runner.ledger.locks.campaign_lock import read_clock
from runner.ledger.model import APPROVALS_SUFFIX, SUPPRESSIONS_SUFFIX
from runner.service.target import leads_elsewhere, read_old_state_key
from runner.source.storage import repository_root
from runner.workflow.observer import note, warn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from runner.git.lease import Lease
    from runner.ledger.model import Reservation
    from runner.service.target import Target
    from runner.workflow.scope import Scope

NO_REMOTE = "none"
"""The state remote of a target that one machine alone sends to."""
ORIGIN = "origin"
"""The state remote of a target on another machine that names none, if the repository has it."""
_RESERVED_SUFFIX = ".reserved.json"
_FILE = re.compile(rf"(.+?)({LOCKFILE_SUFFIX}|\.[0-9]+{_RESERVED_SUFFIX})", re.DOTALL)
_ADDED = (SUPPRESSIONS_SUFFIX, APPROVALS_SUFFIX)
_CLOCKS = Clocks(read_clock, time.sleep)


class StateRemote:
    """The state of one target's campaigns on the remote, for one command.

    The remote is read once, and again when this run takes the ref. `is_behind` is True if the last update of
    the remote failed.
    """

    def __init__(
        self, ref: StateRef, terms: GitLeaseTerms, target: Target, old_secret: str | None = None
    ) -> None:
        self.ref = ref
        self.is_behind = False
        self._terms = terms
        # The key that has sealed the state.
        self._key = TargetKey.of(target.name, target.state_key)
        self._secrets = Secrets(target.state_key, old_secret)
        self._lease: Lease | None = None
        self._seen: Snapshot | None = None
        self._is_left_out = False
        # Decisions that other machines have added while this run holds the ref.
        self._added: dict[str, str] = {}
        # By their texts.
        self._reservations: dict[str, Reservation] = {}

    @classmethod
    def choose(cls, scope: Scope, target: Target, ledger_url: str) -> StateRemote | None:
        """Return the state remote of a command; None if it has none.

        Options and `targets.yaml` name it. Otherwise it is `origin` for a target on another machine, if the
        repository has that, and no ledger on a server is what machines share.
        """
        remote = scope.state_remote or target.state_remote
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
        """Return the state of a target on a remote of the current folder's repository."""
        ref = StateRef.open(Path.cwd(), remote, target.name, find_git_settings(scope.environ))
        terms = GitLeaseTerms.lasting(scope.state_lease_s)
        return cls(ref, terms, target, read_old_state_key(scope.environ))

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts of the ref's files, by name."""
        if self._lease is not None:
            return self._lease.texts
        return self._look().record

    def _look(self) -> Snapshot:
        if self._seen is None:
            snapshot = self.ref.read()
            self.ref.read_state(snapshot)
            self._seen = snapshot
        return self._seen

    def read(self, *endings: str, is_new: bool = False) -> dict[Path, str]:
        """Return the texts of files with these endings, by place; with `is_new`, look at the remote again."""
        texts = self.ref.read().record if is_new else self.texts
        return {self.place / name: text for name, text in texts.items() if name.endswith(endings)}

    @property
    def place(self) -> Path:
        """The folder that stands for the ref in the places of its files."""
        return Path(f"{self.ref.remote}:{self.ref.name}")

    def leave_out(self) -> None:
        """Go on without the remote, which cannot be reached, in a command that only reads or decides."""
        self._seen = Snapshot()
        self._is_left_out = True

    def append(self, texts: Mapping[str, str]) -> bool:
        """Add the lines of record files, by name, to those on the ref; return False if there is no ref.

        Another run may hold it, on any machine, and hears of them.
        """

        def add(snapshot: Snapshot) -> Mapping[str, str]:
            there = snapshot.record
            united = {name: self._unite(name, text, there.get(name)) for name, text in texts.items()}
            # What follows in this process begins from here, or looks again.
            self._seen = snapshot if there == {**there, **united} else None
            return {**there, **united}

        return self.ref.append(add)

    @contextmanager
    def hold(self, who: str, run: str, patience: LeasePatience) -> Iterator[None]:
        """Hold the ref while the block lasts, so that no other run begins on any machine.

        `who` and `run` are this run, in words and by its unique id.
        """
        patience = replace(
            patience,
            observe_failure=self._note_unreleased,
            observe_absence=self._note_absence,
            observe_holder=self._note_holder,
        )
        holder = Holder(who, run, self._terms.lease_s)
        held = hold_lease(self.ref, holder, _CLOCKS, patience, seen=self._seen, unite=self._take_in)
        with held as lease:
            self._lease = lease
            try:
                yield
            finally:
                self._seen, self._lease = lease.snapshot, None

    @property
    def is_held(self) -> bool:
        """True while this run holds the ref, so that no other sends the reserved launches."""
        return self._lease is not None

    def require_held(self) -> None:
        """Check before each request, from any thread, that this run holds the ref for a moment longer."""
        self._require_lease().require_held()

    def start(self) -> bool:
        """Make the ref for somebody who knows that nothing is being sent; return False if it is there."""
        if self.ref.find() is not None:
            return False
        self.ref.swap(None, self.ref.compose({STATE_FILE: State().dump()}))
        return True

    def stage_campaign(
        self, names: Sequence[str], lockfile: str | None, reserved: str | None, suppressions: str | None
    ) -> None:
        """Replace all files of a campaign on the ref, and the suppressions unless they are None.

        They go with the next push, at the latest when the ref is let go.
        """
        lease = self._require_lease()
        with lease.turn:
            texts = {name: text for name, text in lease.texts.items() if _find_campaign(name) not in names}
            if lockfile is not None:
                texts[f"{names[0]}{LOCKFILE_SUFFIX}"] = lockfile
            if reserved is not None:
                texts[f"{names[0]}.0{_RESERVED_SUFFIX}"] = reserved
            if suppressions is not None:
                name = f"{self._key.target}{SUPPRESSIONS_SUFFIX}"
                texts[name] = self._unite(name, suppressions, self._added.get(name))
            lease.stage(texts)

    def add_reserved(self, campaign: str, reserved: str) -> None:
        """Put a further reservation on the ref."""
        lease = self._require_lease()
        with lease.turn:
            number = sum(_is_reserved(file) and _find_campaign(file) == campaign for file in lease.texts)
            lease.write({**lease.texts, f"{campaign}.{number}{_RESERVED_SUFFIX}": reserved})

    def list_reservations(self, names: Sequence[str], key: TargetKey | None = None) -> list[Reservation]:
        """Return the launches of a campaign that a run was about to send; `key` is the present one."""
        files = sorted(file for file in self.texts if _is_reserved(file) and _find_campaign(file) in names)
        return [self._parse_reservation(file, key or self._key) for file in files]

    def _parse_reservation(self, file: str, key: TargetKey) -> Reservation:
        text = self.texts[file]
        if text not in self._reservations:
            place, campaign = self.place / file, _find_campaign(file) or ""
            try:
                self._reservations[text] = parse_reservation(place, text, campaign, key)
            except LockfileError as error:
                raise LockfileError(error.message, hint=self.ref.advise_removal()) from None
        return self._reservations[text]

    def list_reserved(self) -> list[tuple[str, Reservation]]:
        """Return all reservations, each with its campaign's name; see `list_reservations`."""
        return [(name, one) for name in self.list_campaigns() for one in self.list_reservations([name])]

    def find_holder(self) -> str | None:
        """Return, in words, the run that holds the ref, and sends what is reserved; None if it is free."""
        holder = self.ref.read_state(self._look()).holder
        return None if holder is None else holder.who

    def is_idle(self, campaigns: Collection[str]) -> bool:
        """Return whether nobody sends, or was stopped while sending, as the remote was last read.

        It has the record of all `campaigns`, then: otherwise a ref with more may have been lost.
        """
        is_reserved = any(map(_is_reserved, self.texts))
        is_free = self.exists() and self.find_holder() is None and not is_reserved
        return is_free and set(campaigns).issubset(self.list_campaigns())

    def exists(self) -> bool:
        """Return whether the remote had the ref when it was last read."""
        return self.is_held or self._look().commit is not None

    def list_campaigns(self) -> list[str]:
        """Return the names of the campaigns with state on the remote."""
        return sorted({name for name in map(_find_campaign, self.texts) if name is not None})

    def find_targets(self, known: Collection[str]) -> set[str]:
        """Return the targets with a record on the remote, besides `known`; none where it was left out."""
        if self._is_left_out:
            return set()
        self._look()
        names = {read_target(name) for name in self.ref.tips if name != "HEAD"}.difference(known)
        return {name for name in names if StateRef(self.ref.git, self.ref.remote, name).read().record}

    def _require_lease(self) -> Lease:
        if self._lease is None:
            raise ValueError("the ref is not held")
        return self._lease

    def _take_in(self, name: str, ours: str | None, theirs: str) -> str | None:
        """Unite what another machine has added while this run holds the ref; the rest is the holder's."""
        if not name.endswith(_ADDED):
            return ours
        self._added[name] = theirs
        return theirs if ours is None else self._unite(name, ours, theirs)

    def _unite(self, name: str, ours: str, theirs: str | None) -> str:
        return ours if theirs is None else unite_files(self.place / name, ours, theirs, lambda: self._secrets)

    def _note_unreleased(self, error: RunnerError) -> None:
        self.is_behind = True
        warn(
            f"{self.ref} could not be let go: {error.message}",
            "run the same command again here: it brings what was sent. Other machines take the ref over "
            f"once they have seen it unmoved for {self._terms.watch_s:g} s: have them wait with "
            f"--lock-timeout {self._terms.advise_timeout()}",
        )

    def _note_holder(self, who: str, seconds: float) -> None:
        note(
            f"Waiting for the run that holds {self.ref}: {who}. If that run has died, this one takes over "
            f"once it has seen the ref unmoved for {seconds:g} s."
        )

    def _note_absence(self, seconds: float) -> None:
        command = f"runner ci start --target {self._key.target}"
        command += "" if self.ref.remote == ORIGIN else f" --remote {self.ref.remote}"
        note(
            f"There is no {self.ref}: it was never made, or was deleted while another machine sends. Waiting "
            f"{seconds:g} s, after which no other run can hold it and the service lists all that it sent. If "
            f"you know that nothing is being sent, `{command}` makes it, and ends this wait."
        )


def _find_campaign(file: str) -> str | None:
    """Return the campaign of a lockfile, or of reserved launches, by its name on the ref; else None."""
    found = _FILE.fullmatch(file)
    return None if found is None else found[1]


def _is_reserved(file: str) -> bool:
    return file.endswith(_RESERVED_SUFFIX)
