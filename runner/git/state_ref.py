"""A ref on a git remote that holds a few files and moves by compare-and-swap.

The remote is the one place that all machines share that send a team's campaigns. The ref is neither branch
nor tag, so that protection rules don't apply and no clone fetches it by default. Each state is a commit: with
a parent it transfers only changes; without one it drops the history and removed data. `git push
--force-with-lease=REF:COMMIT` moves it only if it is still at that commit (git-push(1)): of two machines that
move it at once one fails, and is told.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

from runner.git.command import Git, GitError, UnreachableError, hide_credentials, push_commit
from runner.git.objects import ObjectReader, write_commit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMESPACE = "refs/runner"
_SHA256_DIGITS = 64
TIMEOUT_S = 60.0
"""Time limit of one git command, in seconds: less than a lease lasts."""
_TRIES = 5


class StateRefError(GitError):
    """A ref that cannot be read or moved."""


class RefMovedError(StateRefError):
    """A ref that somebody else has moved. `found` is its commit now; None if it is gone."""

    def __init__(self, message: str, found: str | None) -> None:
        super().__init__(message, hint="run the same command again")
        self.found = found


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the ref.

    Attributes:
        commit: None if there is no ref yet.
        files: blobs by file name.
    """

    commit: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)


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
    """A ref on a remote of a repository.

    Attributes:
        git: commands in the repository.
        remote: the remote's name.
        name: the ref's full name.
        objects: reads what was fetched.
        head: the tip of the remote's default branch, when the ref was last looked for.
        tips: the commits of all targets' refs on the remote then, by ref.
    """

    def __init__(self, git: Git, remote: str, target: str, objects: ObjectReader | None = None) -> None:
        self.git = git
        self.remote = remote
        self.name = name_ref(target)
        self.objects = objects or ObjectReader(git)
        self.head: str | None = None
        self.tips: dict[str, str] = {}
        # An object of the repository: others are named as it is.
        self._like: str | None = None
        self._listed: dict[str, dict[str, str]] = {}
        self._texts: dict[str, str] = {}
        # Texts that no commit has yet, by the blobs that they will be.
        self._waiting: dict[str, str] = {}

    @classmethod
    def open(cls, folder: Path, remote: str, target: str, settings: Mapping[str, str] | None = None) -> Self:
        """Return the ref of a target on a remote of the repository at `folder`.

        `settings` are git's variables beside this process's own.

        Raises:
            GitError: there is no git, no repository, or no such remote.
        """
        git = Git(folder, timeout_s=TIMEOUT_S, settings=settings)
        if git.ask("remote", "get-url", "--", remote).status:
            inside = git.ask("rev-parse", "--git-dir")
            if inside.status:
                raise StateRefError(
                    f"the state cannot be kept on the git remote {hide_credentials(remote)!r}: "
                    f"{inside.reason}",
                    hint="run this in a clone of the repository that the campaigns are kept in",
                )
            known = ", ".join(git.run("remote").split()) or "none"
            raise StateRefError(
                f"there is no git remote {hide_credentials(remote)!r} to keep the state on",
                hint=f"known: {known}; --state-remote and RUNNER_STATE_REMOTE take a remote's name",
            )
        return cls(git, remote, target)

    def __str__(self) -> str:
        return f"{self.name} on {self.remote}"

    def find(self) -> str | None:
        """Return the ref's commit; None if there is no ref.

        Raises:
            GitError: the remote cannot be asked.
        """
        try:
            found = self.git.list_refs(self.remote, f"{NAMESPACE}/*", "HEAD")
        except UnreachableError as error:
            raise self._unusable(error.message) from None
        self.head = found.get("HEAD")
        self.tips = {name: tip for name, tip in found.items() if name.startswith(f"{NAMESPACE}/")}
        return found.get(self.name)

    def read(self) -> Snapshot:
        """Return the ref's state.

        Raises:
            GitError: the remote cannot be asked.
        """
        for _ in range(_TRIES):
            commit = self.find()
            snapshot = Snapshot() if commit is None else self.read_at(commit)
            if snapshot is not None:
                return snapshot
        raise StateRefError(f"{self} moves all the time", hint="run the same command again")

    def read_at(self, commit: str) -> Snapshot | None:
        """Return the ref's state at a commit that it had just now; None if it has moved on.

        Raises:
            GitError: the remote cannot be asked.
        """
        self._like = commit
        if commit not in self._listed and not self._load_all(commit):
            answer = self.git.fetch(self.remote, self.name)
            if answer.status and self.find() == commit:
                raise self._unusable(answer.reason)
            if not self._load_all(commit):
                return None
        return Snapshot(commit, self._listed[commit])

    def _load_all(self, commit: str) -> bool:
        """Read all texts of a commit; return False if something of it is not here."""
        # What a commit here is made of may be gone, as the clone's own refs do not lead to it.
        entries = self.objects.list_folder(commit)
        if entries is None:
            return False
        files = {name: blob for name, (blob, _) in entries.items()}
        for blob in files.values():
            text = self._texts.get(blob) or self.objects.load(blob)
            if text is None:
                return False
            self._texts[blob] = text
        self._listed[commit] = files
        return True

    def load(self, blob: str) -> str:
        """Return the text of a blob of a snapshot that was read here, or of a text that is to be written."""
        return self._texts[blob]

    def store(self, text: str) -> str:
        """Return the blob of a text, which the next commit writes.

        Raises:
            GitError: the repository does not tell how it names its objects.
        """
        if self._like is None:
            self._like = self.git.run("hash-object", "--stdin")
        data, format_ = text.encode(), "sha256" if len(self._like) == _SHA256_DIGITS else "sha1"
        blob = hashlib.new(format_, b"blob %d\0" % len(data) + data).hexdigest()
        self._texts[blob] = self._waiting[blob] = text
        return blob

    def compose(self, files: Mapping[str, str], parent: str | None = None) -> str:
        """Return a new local commit of blobs by file name; without a parent it drops the history.

        Raises:
            GitError: it cannot be written.
        """
        blobs = [blob for blob in dict.fromkeys(files.values()) if blob in self._waiting]
        texts = [self._waiting[blob] for blob in blobs]
        commit = write_commit(self.git, files, parent, texts, f"State of {self.name}", is_whole=True)
        for blob in blobs:
            del self._waiting[blob]
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
        if answer.obstacle is not None:
            raise StateRefError(
                f"{self.name} cannot be made on the git remote {self.remote}: {answer.obstacle} is in its "
                "way",
                hint="remove that one, which runner has not made: "
                f"git push {self.remote} -d {answer.obstacle}",
            )
        if found != old or answer.is_overtaken:
            raise RefMovedError(f"{self} was moved by another run", found)
        if not answer.is_refused:
            raise self._unusable(answer.reason)
        raise StateRefError(
            f"the git remote {self.remote} refuses to move {self.name}: {answer.reason}",
            hint=f"let this user, or the token of CI, push to {NAMESPACE}/* on the remote",
        )

    def _unusable(self, reason: str) -> StateRefError:
        return StateRefError(
            f"the git remote {self.remote} cannot be used: {reason}",
            hint=f"check the network, and that this user may use the remote: git ls-remote {self.remote}",
        )
