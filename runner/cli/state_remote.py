"""`--state-remote`: the git remote as the lock of all machines, and as their record of what is being sent.

One ref for each target (see `runner.repository.state_ref`) holds, beside who holds it:

- `<campaign>.lock.json`: the campaign's lockfile, as it was after the last run;
- `<campaign>.<number>.reserved.json`: launches that a run was about to send, and of which the remote doesn't
  know what became. They are there before the first of them leaves.

A machine that takes the ref finds what no branch may have yet: an old commit that is run again, a lockfile
that a protected branch refused, or a run that was killed between its sends and its commit.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cli.console import note, warn
from runner.errors import LockfileError
from runner.ledger.line_macs import LineMacs
from runner.ledger.lock import LockHolder, read_clock
from runner.ledger.shared import Reservation, SharedRecord, is_signed_reservation, parse_reservation
from runner.repository.holder import STATE_FILE, advise_removal, damaged, read_state
from runner.repository.lease import Clocks, LeaseTerms
from runner.repository.state_ref import StateRef
from runner.repository.taking import Patience, advise_timeout, hold_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from runner.errors import RunnerError
    from runner.repository.lease import Lease
    from runner.service.target import Target

_LOCKFILE = ".lock.json"
_RESERVED = re.compile(r"(?P<campaign>.+)\.(?P<number>[0-9]+)\.reserved\.json", re.DOTALL)
_CLOCKS = Clocks(read_clock, time.sleep)


class StateRemote:
    """What the remote says of one target's campaigns, for one command.

    Args:
        ref: the target's ref.
        terms: how long this run's hold on it lasts.
        target: the target's name.
        state_key: the user's secret, which must have signed what is there; None to take it as it is.

    Attributes:
        is_behind: whether the remote could not be told of something in the end.
    """

    def __init__(self, ref: StateRef, terms: LeaseTerms, target: str, state_key: str | None) -> None:
        self.ref = ref
        self._terms = terms
        self._target = target
        self._state_key = state_key
        self._lease: Lease | None = None
        self._seen: Mapping[str, str] | None = None
        self._texts: dict[str, str] = {}
        self._reservations: dict[str, tuple[str, Reservation]] = {}
        self.is_behind = False

    @classmethod
    def open(cls, remote: str, target: Target, lease_s: float) -> StateRemote:
        """Return the state of a target on a remote of the repository in the current folder.

        Args:
            remote: `--state-remote`.
            target: the target.
            lease_s: how long a hold lasts that is not renewed, in seconds.

        Raises:
            GitError: there is no git, no repository, or no such remote.
        """
        ref = StateRef.open(Path.cwd(), remote, target.name)
        return cls(ref, LeaseTerms.lasting(lease_s), target.name, target.state_key)

    def tell(self, names: Sequence[str]) -> SharedRecord:
        """Return what the remote says of a campaign.

        The remote is asked once, and again when this run takes hold of the ref.

        Args:
            names: the campaign's name, and those that it had before.

        Raises:
            GitError: the remote cannot be asked, or what it says cannot be read.
        """
        files = self._read_files()
        lockfiles = {name: files[name] for name in (f"{one}{_LOCKFILE}" for one in names) if name in files}
        reserved = {name: blob for name, blob in files.items() if _is_reserved(name, names)}
        return SharedRecord(
            {self._place(name): self._load(blob) for name, blob in lockfiles.items()},
            tuple(self._read_reservation(name, blob) for name, blob in sorted(reserved.items())),
            is_held=self._lease is not None,
            mending=advise_removal(self.ref),
        )

    def tell_others(self, names: Collection[str]) -> dict[Path, str]:
        """Return the texts of the lockfiles of all campaigns but some, by where they are kept.

        Args:
            names: those that are left out.

        Raises:
            GitError: as for `tell`.
        """
        own = {f"{name}{_LOCKFILE}" for name in names}
        files = self._read_files()
        return {
            self._place(file): self._load(blob)
            for file, blob in files.items()
            if file.endswith(_LOCKFILE) and file not in own
        }

    def list_campaigns(self) -> list[str]:
        """Return the names of the campaigns that the remote says something of.

        Raises:
            GitError: as for `tell`.
        """
        found = set()
        for file in self._read_files():
            reserved = _RESERVED.fullmatch(file)
            if reserved is not None:
                found.add(reserved["campaign"])
            elif file.endswith(_LOCKFILE):
                found.add(file.removesuffix(_LOCKFILE))
        return sorted(found)

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
        """Hold the ref while the block lasts: no other run begins, on any machine.

        Args:
            holder: this run.
            run: tells it from every other.
            has_died: returns whether such a run is known for sure to have died.
            timeout_s: for how long to wait for another run, in seconds.
            settle_s: how long the service may take to list a launch, in seconds.
            quiet: say nothing of waiting.

        Raises:
            StateLockedError: another run holds it.
            GitError: the remote cannot be used.
        """
        observe = (lambda _: None) if quiet else self._note_absence
        held = hold_lease(
            self.ref,
            holder.describe(),
            run,
            self._terms,
            _CLOCKS,
            self._note_unreleased,
            has_died=has_died,
            patience=Patience(timeout_s, settle_s, observe),
        )
        with held as lease:
            self._lease = lease
            try:
                yield
            finally:
                self._seen, self._lease = lease.files, None

    def require_held(self) -> None:
        """Make sure that this run holds the ref, and will for a moment: from any thread, before each request.

        Raises:
            RunnerError: it doesn't.
        """
        self._require_lease().require_held()

    def replace(self, names: Sequence[str], lockfile: str | None, reserved: Sequence[str]) -> None:
        """Put on the ref all that there is to say of a campaign.

        Args:
            names: the campaign's name, and those that it had before.
            lockfile: its text; None if there is nothing to say.
            reserved: texts of reservations.

        Raises:
            RunnerError: the ref is lost, or cannot be moved.
        """
        files = {name: blob for name, blob in self._list_files().items() if not _is_of(name, names)}
        if lockfile is not None:
            files[f"{names[0]}{_LOCKFILE}"] = self.ref.store(lockfile)
        for number, text in enumerate(reserved):
            files[f"{names[0]}.{number}.reserved.json"] = self.ref.store(text)
        if files != self._list_files():
            self._require_lease().write(files)

    def add(self, name: str, reserved: str) -> None:
        """Put a further reservation on the ref.

        Args:
            name: the campaign's.
            reserved: the reservation's text.

        Raises:
            RunnerError: the ref is lost, or cannot be moved.
        """
        files = self._list_files()
        number = sum(_is_reserved(file, [name]) for file in files)
        self._require_lease().write({**files, f"{name}.{number}.reserved.json": self.ref.store(reserved)})

    def read_texts(self) -> dict[str, str]:
        """Return all that the ref says of campaigns, by the names of its files.

        Raises:
            GitError: the remote cannot be asked.
        """
        return {name: self._load(blob) for name, blob in self._read_files().items() if name != STATE_FILE}

    def rewrite(self, texts: Mapping[str, str]) -> None:
        """Put other texts in the places of some files, all of them with one push.

        Args:
            texts: by the names of files.

        Raises:
            RunnerError: the ref is lost, or cannot be moved.
        """
        blobs = {name: self.ref.store(text) for name, text in texts.items()}
        self._require_lease().write({**self._list_files(), **blobs})

    def list_reserved(self) -> tuple[list[tuple[str, Reservation]], str | None]:
        """Return the reservations of all campaigns, each with the campaign's name, and who holds the ref.

        As long as somebody holds it, launches are reserved that are just being sent.

        Raises:
            GitError: the remote cannot be asked, or what it says cannot be read.
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
        """Return whether there is anything of a campaign on the ref."""
        return any(_is_of(name, names) for name in self._read_files())

    def _require_lease(self) -> Lease:
        if self._lease is None:
            raise ValueError("the ref is not held")
        return self._lease

    def _list_files(self) -> dict[str, str]:
        return {name: blob for name, blob in self._require_lease().files.items() if name != STATE_FILE}

    def _read_files(self) -> Mapping[str, str]:
        if self._lease is not None:
            return self._lease.files
        if self._seen is None:
            snapshot = self.ref.read()
            read_state(self.ref, snapshot)
            self._seen = snapshot.files
        return self._seen

    def _read_reservation(self, name: str, blob: str) -> Reservation:
        if name not in self._reservations or self._reservations[name][0] != blob:
            text = self.ref.load(blob)
            reservation = parse_reservation(text)
            if reservation is None:
                raise damaged(self.ref, name)
            macs = self.make_macs(campaign_of(name))
            if macs is not None and not is_signed_reservation(text, macs):
                raise LockfileError(
                    f"{self.ref} was changed without the RUNNER_STATE_KEY: {name} in it does not have "
                    "the MAC that it should; or it was written with another RUNNER_STATE_KEY",
                    hint=advise_removal(self.ref),
                )
            self._reservations[name] = (blob, reservation)
        return self._reservations[name][1]

    def make_macs(self, campaign: str) -> LineMacs | None:
        """Return what signs the reservations of a campaign that has this name; None without a state key."""
        return None if self._state_key is None else LineMacs(self._state_key, self._target, campaign)

    def _load(self, blob: str) -> str:
        if blob not in self._texts:
            self._texts[blob] = self.ref.load(blob)
        return self._texts[blob]

    def _place(self, name: str) -> Path:
        return Path(f"{self.ref.remote}:{self.ref.name}", name)

    def _note_unreleased(self, error: RunnerError) -> None:
        self.is_behind = True
        warn(f"{self.ref} could not be let go: {error.message}")
        note(
            "  everything that was sent is recorded here; other machines take the ref over once they have "
            f"seen it unmoved for {self._terms.watch_s:g} s: have them wait with --lock-timeout "
            f"{advise_timeout(self._terms)}"
        )

    def _note_absence(self, seconds: float) -> None:
        note(
            f"There is no {self.ref} yet, or it was deleted: waiting {seconds:g} s before it is made, since "
            "another machine may still be sending."
        )


def campaign_of(reserved: str) -> str:
    """Return the name of the campaign that a file of reservations is of; empty for any other file."""
    found = _RESERVED.fullmatch(reserved)
    return found["campaign"] if found else ""


def _is_reserved(file: str, names: Sequence[str]) -> bool:
    found = _RESERVED.fullmatch(file)
    return found is not None and found["campaign"] in names


def _is_of(file: str, names: Sequence[str]) -> bool:
    return _is_reserved(file, names) or file in {f"{name}{_LOCKFILE}" for name in names}
