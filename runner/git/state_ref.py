"""A ref on a git remote that holds a few files and moves by compare-and-swap.

The remote is the one place that all machines share that send a team's campaigns. The ref is neither branch
nor tag, so that protection rules don't apply and no clone fetches it by default. Each state is a commit: with
a parent it transfers only changes; without one it drops the history and removed data. `git push
--force-with-lease=REF:COMMIT` moves it only if it is still at that commit (git-push(1)): of two machines that
move it at once one fails, and is told.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from runner.git.command import Git, GitError, explain_refusal, find_obstacle, hide_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from runner.git.command import GitAnswer

NAMESPACE = "refs/runner"
TIMEOUT_S = 60.0
"""Time limit of one git command, in seconds: less than a lease lasts."""
_IDENTITY = "runner <runner@localhost>"
"""An identity for commits on CI machines, where git knows no user."""
_SHA1_DIGITS, _SHA256_DIGITS = 40, 64
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


def _quote(name: str) -> str:
    """Return a path as git-fast-import(1) reads it."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class StateRef:
    """A ref on a remote, made by `open`. `name` is the full name of the ref."""

    def __init__(self, git: Git, remote: str, name: str) -> None:
        self._git = git
        self.remote = remote
        self.name = name
        # By what the repository names its objects: `sha1` or `sha256`.
        self._format: str | None = None
        self._listed: dict[str, dict[str, str]] = {}
        self._texts: dict[str, str] = {}
        # Texts that no commit has yet, by the blobs that they will be.
        self._waiting: dict[str, str] = {}

    @classmethod
    def open(cls, folder: Path, remote: str, target: str, *, timeout_s: float = TIMEOUT_S) -> Self:
        """Return the ref of a target on a remote of the repository at `folder`.

        Raises:
            GitError: there is no git, no repository, or no such remote.
        """
        git = Git(folder, timeout_s=timeout_s)
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
        commit = next((commit for commit, name in lines if name == self.name), None)
        if commit is not None:
            self._format = "sha256" if len(commit) == _SHA256_DIGITS else "sha1"
        return commit

    def read(self) -> Snapshot:
        """Return the ref's state.

        Raises:
            GitError: the remote cannot be asked.
        """
        for _ in range(_TRIES):
            commit = self.find()
            if commit is None:
                return Snapshot()
            if commit in self._listed or self._fetch(commit):
                return Snapshot(commit, self._listed[commit])
        raise StateRefError(f"{self} moves all the time", hint="run the same command again")

    def load(self, blob: str) -> str:
        """Return the text of a blob of a snapshot that was read here, or of a text that is to be written.

        Raises:
            GitError: it is gone.
        """
        if blob not in self._texts:
            answer = self._git.ask("cat-file", "blob", blob)
            if answer.status:
                raise StateRefError(f"{self} cannot be read: {answer.reason}")
            self._texts[blob] = answer.output
        return self._texts[blob]

    def store(self, text: str) -> str:
        """Return the blob of a text, which the next commit writes.

        Raises:
            GitError: the repository does not tell how it names its objects.
        """
        data = text.encode()
        if self._format is None:
            self._format = self._git.run("rev-parse", "--show-object-format")
        blob = hashlib.new(self._format, b"blob %d\0" % len(data) + data).hexdigest()
        self._texts[blob] = self._waiting[blob] = text
        return blob

    def compose(self, files: Mapping[str, str], parent: str | None = None) -> str:
        """Return a new local commit of blobs by file name; without a parent it drops the history.

        Raises:
            GitError: it cannot be written.
        """
        draft = f"{NAMESPACE}-draft/{secrets.token_hex(8)}"
        blobs = [blob for blob in dict.fromkeys(files.values()) if blob in self._waiting]
        lines = [f"blob\ndata {len(self._waiting[blob].encode())}\n{self._waiting[blob]}" for blob in blobs]
        message = f"State of {self.name}"
        lines.append(f"commit {draft}\nmark :1\ncommitter {_IDENTITY} now\ndata {len(message)}\n{message}")
        lines += [f"from {parent}"] if parent is not None else []
        lines.append("deleteall")
        lines += [f"M 100644 {blob} {_quote(name)}" for name, blob in sorted(files.items())]
        nothing = "0" * (_SHA256_DIGITS if self._format == "sha256" else _SHA1_DIGITS)
        lines += ["", "get-mark :1", f"reset {draft}", f"from {nothing}", ""]
        text = "\n".join(lines) + "\n"
        commit = self._git.run("fast-import", "--quiet", "--date-format=now", text=text)
        for blob in blobs:
            del self._waiting[blob]
        return commit

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
        # By default git lists only the current folder, which may be below the top.
        listed = self._git.ask("ls-tree", "-z", "--full-tree", commit)
        if listed.status:
            return False
        entries = (line.split("\t", 1) for line in listed.output.split("\0")[:-1])
        self._listed[commit] = {name: entry.split()[2] for entry, name in entries}
        self._load_all(self._listed[commit].values())
        return True

    def _load_all(self, blobs: Iterable[str]) -> None:
        """Read texts with one command; what it cannot tell is read one by one later."""
        wanted = [blob for blob in dict.fromkeys(blobs) if blob not in self._texts]
        answer = self._git.ask("cat-file", "--batch", text="".join(f"{blob}\n" for blob in wanted))
        data, start = answer.output.encode(), 0
        for blob in wanted:
            head, _, _ = data[start:].partition(b"\n")
            found = re.fullmatch(rb"([0-9a-f]+) blob ([0-9]+)", head)
            if found is None or found[1].decode() != blob:
                return
            start += len(head) + 1
            self._texts[blob] = data[start : start + int(found[2])].decode()
            start += int(found[2]) + 1

    def _require_reached(self, answer: GitAnswer) -> None:
        if answer.status:
            raise StateRefError(
                f"the git remote {self.remote} cannot be used: {answer.reason}",
                hint=f"check the network, and that this user may use the remote: git ls-remote {self.remote}",
            )
