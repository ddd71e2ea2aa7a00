"""A ref on a git remote that holds a few files and moves by compare-and-swap.

The remote is the one place that all machines share that send a team's campaigns. The ref is neither branch
nor tag, so that protection rules don't apply and no clone fetches it by default. Each state is a commit: with
a parent it transfers only changes; without one it drops the history and removed data. `git push
--force-with-lease=REF:COMMIT` moves it only if it is still at that commit (git-push(1)): of two machines that
move it at once one fails, and is told.

Its file `state.json` says who holds it; anybody may add lines to the others.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

from runner.git.command import Git, GitError, hide_credentials, push_commit, refuse_remote
from runner.git.objects import ObjectReader, write_commit
from runner.version import STATE_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

NAMESPACE = "refs/runner"
STATE_FILE = "state.json"
TRIES = 8
"""Pushes tried while others move the ref."""
_DIGITS = 40
TIMEOUT_S = 60.0
"""Time limit of one git command, in seconds: less than a lease lasts."""


class RefMovedError(GitError):
    """A ref that somebody else has moved. `found` is its commit now; None if it is gone."""

    def __init__(self, message: str, found: str | None) -> None:
        super().__init__(message, hint="run the same command again")
        self.found = found


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a ref: in words, by a unique id, and the length of its lease from its last push."""

    who: str
    run: str
    lease_s: float


@dataclass(frozen=True, slots=True)
class State:
    """The content of `state.json`: who holds the ref, if anybody. `moves` makes each commit unique."""

    holder: Holder | None = None
    moves: int = 0

    def dump(self) -> str:
        """Return the content of `state.json`, readable for people too."""
        data = {**asdict(self), "state_version": STATE_VERSION}
        return json.dumps(data, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the ref: its commit, None if there is none yet, and the texts of its files by name."""

    commit: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, str]:
        """The texts of the files that are a record: all but `state.json`."""
        return {name: text for name, text in self.texts.items() if name != STATE_FILE}


def name_ref(target: str) -> str:
    """Return a valid ref for any target name (git-check-ref-format(1)).

    Capitals are escaped too: a remote on a case-insensitive file system would mix up two targets.
    """
    written = "".join(
        chr(byte) if chr(byte) in "abcdefghijklmnopqrstuvwxyz0123456789_-" else f"%{byte:02x}"
        for byte in target.encode()
    )
    return f"{NAMESPACE}/{written}"


def read_target(ref: str) -> str:
    """Return the target of a ref, by its full name."""
    return unquote(ref.removeprefix(f"{NAMESPACE}/"))


class StateRef:
    """A ref on a remote of a repository, by its full name.

    `tips` has the commits of the remote's default branch (`HEAD`), and of all targets' refs, when the ref was
    last looked for.
    """

    def __init__(self, git: Git, remote: str, target: str, objects: ObjectReader | None = None) -> None:
        self.git = git
        self.remote = remote
        self.name = name_ref(target)
        self.objects = objects or ObjectReader(git)
        self.tips: dict[str, str] = {}
        # Texts that the repository has, by blob, and the other way round.
        self._texts: dict[str, str] = {}
        self._blobs: dict[str, str] = {}

    @classmethod
    def open(cls, folder: Path, remote: str, target: str, settings: Mapping[str, str] | None = None) -> Self:
        """Return the ref of a target on a remote of the repository at `folder`.

        `settings` are git's variables beside this process's own.
        """
        git, shown = Git(folder, timeout_s=TIMEOUT_S, settings=settings), hide_credentials(remote)
        answer = git.ask("remote", "get-url", "--", remote)
        if answer.status:
            raise GitError(
                f"the state cannot be kept on the git remote {shown!r}: {answer.reason}",
                hint="--state-remote and RUNNER_STATE_REMOTE take the name of a remote of the clone that the "
                "campaigns are kept in; `git remote` lists them",
            )
        return cls(git, remote, target)

    def __str__(self) -> str:
        return f"{self.name} on {self.remote}"

    def find(self) -> str | None:
        """Return the ref's commit; None if there is no ref."""
        self.tips = self.git.list_refs(self.remote, f"{NAMESPACE}/*", "HEAD")
        return self.tips.get(self.name)

    def read(self) -> Snapshot:
        """Return the ref as it is now."""
        for _ in range(TRIES):
            commit = self.find()
            snapshot = Snapshot() if commit is None else self.read_at(commit)
            if snapshot is not None:
                return snapshot
        raise self._restless()

    def read_at(self, commit: str) -> Snapshot | None:
        """Return the ref at a commit that it had just now; None if it has moved on."""
        texts = self._load_all(commit)
        if texts is None:
            answer = self.git.fetch(self.remote, self.name)
            if answer.status and self.find() == commit:
                raise refuse_remote(self.remote, answer.reason)
            texts = self._load_all(commit)
        return None if texts is None else Snapshot(commit, texts)

    def _load_all(self, commit: str) -> dict[str, str] | None:
        """Return all texts of a commit; None if something of it is not here."""
        # What a commit here is made of may be gone, as the clone's own refs do not lead to it.
        entries = self.objects.list_folder(commit)
        if entries is None:
            return None
        for blob, _ in entries.values():
            text = self._texts.get(blob) or self.objects.load(blob)
            if text is None:
                return None
            self._texts[blob], self._blobs[text] = text, blob
        return {name: self._texts[blob] for name, (blob, _) in entries.items()}

    def read_state(self, snapshot: Snapshot) -> State:
        """Return who holds the ref in a snapshot."""
        if snapshot.commit is None:
            return State()
        try:
            data = json.loads(snapshot.texts[STATE_FILE])
            version, held = int(data["state_version"]), data["holder"]
            if version == STATE_VERSION:
                holder = (
                    Holder(str(held["who"]), str(held["run"]), float(held["lease_s"]))
                    if held is not None
                    else None
                )
                return State(holder, int(data["moves"]))
        except (ValueError, TypeError, LookupError, AttributeError):
            raise GitError(
                f"{self} is damaged: {STATE_FILE} in it cannot be read", hint=self.advise_removal()
            ) from None
        raise GitError(f"{self} was written by another version of runner", hint="update runner")

    def advise_removal(self) -> str:
        """Return the advice for a ref that cannot be read."""
        return (
            "nothing is sent as long as it is unclear who was texted. With the lockfiles at hand, remove it "
            f"(git push {self.remote} --delete {self.name}): `runner apply` asks the service for what they "
            "lack"
        )

    def compose(self, texts: Mapping[str, str], parent: str | None = None) -> str:
        """Return a new local commit of texts by file name; without a parent it drops the history."""
        head = self.objects.read("HEAD")
        nobody = "0" * (_DIGITS if head is None else len(head.id))
        # A lockfile can be large, and is on the ref as it was most of the time.
        commit = write_commit(self.git, texts, self._blobs, parent, f"State of {self.name}", nobody)
        for name, (blob, _) in (self.objects.list_folder(commit) or {}).items():
            self._texts[blob], self._blobs[texts[name]] = texts[name], blob
        return commit

    def swap(self, old: str | None, new: str) -> None:
        """Move the ref from one commit to another; `old` is None for a missing ref.

        After a lost answer the ref is read to learn whether it moved.

        Raises:
            RefMovedError: it was not at `old`.
            GitError: it has not moved, or nobody knows.
        """
        answer = push_commit(
            self.git,
            self.remote,
            new,
            self.name,
            # The user's push settings and hooks are meant for branches.
            "--no-verify",
            "--no-follow-tags",
            "--no-signed",
            "--recurse-submodules=no",
            f"--force-with-lease={self.name}:{old or ''}",
        )
        if answer.is_accepted:
            return
        found = self.find()
        if found == new:
            return
        if found != old or answer.is_overtaken:
            raise RefMovedError(f"{self} was moved by another run", found)
        if not answer.is_refused:
            raise refuse_remote(self.remote, answer.reason)
        raise GitError(
            f"the git remote {self.remote} refuses to move {self.name}: {answer.reason}",
            hint=f"let this user, or the token of CI, push to {NAMESPACE}/* on the remote",
        )

    def append(self, add: Callable[[Snapshot], Mapping[str, str]], seen: Snapshot | None = None) -> bool:
        """Put files on the ref, whoever holds it; return False if there is no ref.

        `add` returns the texts of all files, given the ref as it is, once or more often; a holder unites them
        with its own. `seen` is the ref as it was a moment ago.
        """
        for _ in range(TRIES):
            snapshot, seen = seen or self.read(), None
            state = self.read_state(snapshot)
            if snapshot.commit is None:
                return False
            texts = add(snapshot)
            if texts == snapshot.record:
                return True
            moved = replace(state, moves=state.moves + 1)
            # While nobody holds it, nothing is to stay in its history.
            parent = None if state.holder is None else snapshot.commit
            with suppress(RefMovedError):
                self.swap(snapshot.commit, self.compose({**texts, STATE_FILE: moved.dump()}, parent))
                return True
        raise self._restless()

    def _restless(self) -> GitError:
        return GitError(f"{self} moves all the time", hint="run the same command again")
