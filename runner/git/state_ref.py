"""A ref on a git remote that holds a few files and moves by compare-and-swap.

The remote is the one place that all machines share that send a team's campaigns. The ref is neither branch
nor tag, so that protection rules don't apply and no clone fetches it by default. Each state is a commit: with
a parent it transfers only changes; without one it drops the history and removed data. `git push
--force-with-lease=REF:COMMIT` moves it only if it is still at that commit (git-push(1)): of two machines that
move it at once one fails, and is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from runner.git.command import Git, GitError, explain_refusal, find_obstacle, hide_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.git.command import GitAnswer

NAMESPACE = "refs/runner"
TIMEOUT_S = 60.0
"""Time limit of one git command, in seconds: less than a lease lasts."""
_IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "runner"), ("EMAIL", "runner@localhost"))
}
"""An identity for commits on CI machines, where git knows no user."""
_TRIES = 5
_REJECTION = re.compile(r"^!\t[^\t]*\t(?:\[[^]]*\] )?\((?P<reason>.*)\)$", re.MULTILINE)
_RACE = re.compile(r"stale info|cannot lock ref|failed to update ref|incorrect old value|fetch first")
"""Git's messages when another machine moves the ref at the same moment."""


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


class StateRef:
    """A ref on a remote, made by `open`. `name` is the full name of the ref."""

    def __init__(self, git: Git, remote: str, name: str) -> None:
        self._git = git
        self.remote = remote
        self.name = name
        # In a partial clone, asking git would fetch a bare commit.
        self._known: set[str] = set()

    @classmethod
    def open(cls, folder: Path, remote: str, target: str, *, timeout_s: float = TIMEOUT_S) -> Self:
        """Return the ref of a target on a remote of the repository at `folder`.

        Raises:
            GitError: there is no git, no repository, or no such remote.
        """
        git = Git(folder, timeout_s=timeout_s)
        inside = git.ask("rev-parse", "--git-dir")
        if inside.status:
            raise StateRefError(
                f"the state cannot be kept on the git remote {hide_credentials(remote)!r}: {inside.reason}",
                hint="run this in a clone of the repository that the campaigns are kept in",
            )
        if git.ask("remote", "get-url", "--", remote).status:
            known = ", ".join(git.run("remote").split()) or "none"
            raise StateRefError(
                f"there is no git remote {hide_credentials(remote)!r} to keep the state on",
                hint=f"known: {known}; --state-remote and RUNNER_STATE_REMOTE take a remote's name",
            )
        return cls(git, remote, name_ref(target))

    def __str__(self) -> str:
        return f"{self.name} on {self.remote}"

    def find(self) -> str | None:
        """Return the ref's commit; None if there is no ref.

        Raises:
            GitError: the remote cannot be asked.
        """
        answer = self._git.ask("ls-remote", "--quiet", self.remote, self.name)
        self._require_reached(answer)
        lines = (line.split("\t") for line in answer.output.splitlines())
        return next((commit for commit, name in lines if name == self.name), None)

    def read(self) -> Snapshot:
        """Return the ref's state.

        Raises:
            GitError: the remote cannot be asked.
        """
        for _ in range(_TRIES):
            commit = self.find()
            if commit is None:
                return Snapshot()
            if commit in self._known or self._fetch(commit):
                self._known.add(commit)
                return Snapshot(commit, self._list(commit))
        raise StateRefError(f"{self} moves all the time", hint="run the same command again")

    def load(self, blob: str) -> str:
        """Return the text of a blob of a snapshot that was read here.

        Raises:
            GitError: it is gone.
        """
        return self._git.run("cat-file", "blob", blob)

    def store(self, text: str) -> str:
        """Store a text locally for a later commit; return its blob.

        Raises:
            GitError: it cannot be written.
        """
        return self._git.run("hash-object", "-w", "--stdin", text=text)

    def compose(self, files: Mapping[str, str], parent: str | None = None) -> str:
        """Return a new local commit of blobs by file name; without a parent it drops the history.

        Raises:
            GitError: it cannot be written.
        """
        entries = (f"100644 blob {blob}\t{name}\0" for name, blob in sorted(files.items()))
        tree = self._git.run("mktree", "-z", text="".join(entries))
        follows = () if parent is None else ("-p", parent)
        message = f"State of {self.name}"
        return self._git.run("commit-tree", tree, *follows, "-m", message, environment=_IDENTITY)

    def count(self, commit: str) -> int:
        """Return the number of commits up to one that was read or composed here.

        Raises:
            GitError: it is gone.
        """
        return int(self._git.run("rev-list", "--count", commit))

    def swap(self, old: str | None, new: str) -> None:
        """Move the ref from one commit to another; `old` is None for a missing ref.

        After a lost answer the ref is read to learn whether it moved.

        Raises:
            RefMovedError: it was not at `old`.
            GitError: it has not moved, or nobody knows.
        """
        answer = self._git.ask(
            "push",
            "--porcelain",
            # The user's push settings and hooks are meant for branches.
            "--no-verify",
            "--no-follow-tags",
            "--no-signed",
            "--recurse-submodules=no",
            f"--force-with-lease={self.name}:{old or ''}",
            self.remote,
            f"{new}:{self.name}",
        )
        if not answer.status:
            return
        found = self.find()
        if found == new:
            return
        if (obstacle := find_obstacle(answer)) is not None:
            raise StateRefError(
                f"{self.name} cannot be made on the git remote {self.remote}: {obstacle} is in its way",
                hint=f"remove that one, which runner has not made: git push {self.remote} -d {obstacle}",
            )
        rejection = _REJECTION.search(answer.output)
        if found != old or (rejection and _RACE.search(f"{rejection['reason']} {answer.complaint}")):
            raise RefMovedError(f"{self} was moved by another run", found)
        if rejection is None:
            self._require_reached(answer)
        reason = explain_refusal(rejection["reason"], answer.complaint) if rejection else answer.reason
        raise StateRefError(
            f"the git remote {self.remote} refuses to move {self.name}: {reason}",
            hint=f"let this user, or the token of CI, push to {NAMESPACE}/* on the remote",
        )

    def _fetch(self, commit: str) -> bool:
        """Fetch the ref's objects; return False if it has moved on meanwhile."""
        answer = self._git.ask(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            # Fetched whole even in a partial clone.
            "--no-filter",
            # No local ref is to follow it.
            "--refmap=",
            self.remote,
            self.name,
        )
        if answer.status and self.find() == commit:
            self._require_reached(answer)
        return not self._git.ask("cat-file", "-e", f"{commit}^{{tree}}").status

    def _list(self, commit: str) -> dict[str, str]:
        files = {}
        # By default git lists only the current folder, which may be below the top.
        for line in self._git.run("ls-tree", "-z", "--full-tree", commit).split("\0")[:-1]:
            entry, name = line.split("\t", 1)
            files[name] = entry.split()[2]
        return files

    def _require_reached(self, answer: GitAnswer) -> None:
        if answer.status:
            raise StateRefError(
                f"the git remote {self.remote} cannot be used: {answer.reason}",
                hint=f"check the network, and that this user may use the remote: git ls-remote {self.remote}",
            )
