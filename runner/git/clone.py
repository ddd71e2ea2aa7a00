"""A clone of a repository: its commits, its files, and the changes of a pull request.

By default a CI job has one commit without history: the merge of the pull request into its base. That commit
names its first parent, which can then be fetched.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.git.command import Git, GitError, hide_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


PATIENCE_S = 300.0
"""Longest wait for another command that works in the same clone, in seconds."""
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Clone:
    """A work tree and its repository. `git` runs at the top, `root`."""

    git: Git
    root: Path

    @contextmanager
    def hold(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        """Keep other commands that change work tree, index or branch out while the block lasts.

        The end of the process frees the lock. Linked work trees don't exclude each other.

        Raises:
            GitError: another command is at work after `patience_s` seconds, or the lock can't be written.
        """
        file = Path(self.git.run("rev-parse", "--absolute-git-dir")) / "runner.lock"
        try:
            descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise GitError(
                f"{file} cannot be written: {error.strerror}", hint="check that this user may write there"
            ) from None
        try:
            deadline = time.monotonic() + patience_s
            while not _try_lock(descriptor):
                if time.monotonic() >= deadline:
                    raise GitError(
                        f"another `runner ci record` has been at work in {self.root} for {patience_s:g} s",
                        hint="wait until it has ended, or end it, then run the same command again",
                    )
                time.sleep(_POLL_S)
            yield
        finally:
            os.close(descriptor)

    def fetch(self, remote: str, branch: str) -> str | None:
        """Fetch a branch and return its tip; None if the remote has no such branch.

        Raises:
            GitError: the remote cannot be reached.
        """
        tip = self.find_tip(remote, branch)
        if tip is not None:
            # --depth would cut off the history of a clone that has it.
            self.git.run("fetch", "--quiet", "--no-tags", "--", remote, f"refs/heads/{branch}")
        # FETCH_HEAD may be overwritten by an editor that fetches at the same moment.
        return tip

    def find_tip(self, remote: str, branch: str) -> str | None:
        """Return the tip of a remote's branch; None if the remote has no such branch.

        Raises:
            GitError: the remote cannot be reached.
        """
        listed = self.git.ask("ls-remote", "--", remote, f"refs/heads/{branch}")
        if listed.status:
            raise GitError(
                f"the remote {hide_credentials(remote)} cannot be reached: {listed.reason}",
                hint="name another one with --remote, or commit without it: --no-push",
            )
        return listed.output.split()[0] if listed.output.strip() else None

    def bring(self, remote: str, commit: str) -> None:
        """Fetch a commit with its files, and as much history as the clone has of others.

        Raises:
            GitError: the remote does not provide it.
        """
        if self.git.ask("cat-file", "-e", f"{commit}^{{commit}}").status == 0:
            return
        is_shallow = self.git.run("rev-parse", "--is-shallow-repository") == "true"
        depth = ["--depth=1"] if is_shallow else []
        self.git.run("fetch", "--quiet", "--no-tags", *depth, "--", remote, commit)

    def read_head(self) -> str:
        """Return the commit that is checked out.

        Raises:
            GitError: there is none yet.
        """
        answer = self.git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if answer.status:
            raise GitError("there is no commit yet to record on", hint="commit the campaigns first")
        return answer.output.strip()

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Return whether a commit is another one, or in its history."""
        return self.git.ask("merge-base", "--is-ancestor", commit, of).status == 0

    def is_merged(self, commit: str, into: str, remote: str) -> bool:
        """Return whether a commit is in another one's history; fetch history that is cut off here."""
        if self.is_ancestor(commit, into):
            return True
        made_at = datetime.fromisoformat(self.git.run("log", "--max-count=1", "--format=%cI", commit))
        # Clocks of machines that commit differ.
        self.deepen(remote, into, (made_at - timedelta(days=1)).isoformat())
        return self.is_ancestor(commit, into)

    def read(self, commit: str, path: str) -> str | None:
        """Return the text of a file in a commit, as it is in a work tree; None if it is not there."""
        listed = self.git.run("ls-tree", "--full-tree", commit, "--", path)
        if not listed:
            return None
        answer = self.git.ask("cat-file", "--filters", f"{commit}:{path}")
        if answer.status:
            raise GitError(f"{path} of commit {commit[:12]} cannot be read: {answer.reason}")
        return answer.output

    def list_files(self, commit: str, endings: tuple[str, ...]) -> dict[str, str]:
        """Return the blobs of a commit's files with these endings, by path."""
        listed = self.git.run("ls-tree", "-r", "-z", "--full-tree", commit).split("\0")
        lines = (line.partition("\t") for line in listed if line.endswith(endings))
        return {path: about.split()[2] for about, _, path in lines}

    def search(self, commit: str, pattern: str, ending: str) -> set[str]:
        """Return the matches of an extended regular expression, within lines, in files with this ending."""
        options = ("--no-color", "--text", "-h", "--only-matching", "--extended-regexp")
        answer = self.git.ask("grep", *options, "-e", pattern, commit, "--", f":(top)*{ending}")
        # 1: nothing matches.
        if answer.status > 1:
            raise GitError(f"`git grep` failed: {answer.reason}")
        return set(answer.output.splitlines())

    def deepen(self, remote: str, commit: str, since: str) -> None:
        """Fetch the history of a commit back to `since` (ISO 8601), as far as the remote provides it."""
        made_at = self.git.run("log", "--max-count=1", "--format=%cI", commit)
        is_cut_off = self.git.run("rev-parse", "--is-shallow-repository") == "true"
        if is_cut_off and datetime.fromisoformat(made_at) >= datetime.fromisoformat(since):
            self.git.ask("fetch", "--quiet", "--no-tags", f"--shallow-since={since}", "--", remote, commit)

    def list_changed(self, commit: str, endings: tuple[str, ...]) -> list[str]:
        """Return the files with these endings that a commit changed against its first parent."""
        listed = self.git.run("log", "-1", "-z", "--first-parent", "-m", "--name-only", "--format=", commit)
        return [path for path in listed.split("\0") if path.endswith(endings)]


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_text(file: Path) -> str:
    """Return the text of a file.

    Raises:
        LockfileError: it cannot be read, or is not text.
    """
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "is not UTF-8"
    raise LockfileError(f"{file} {reason}", hint="restore it with git; nothing was recorded")


_PARENT = re.compile(r"^parent ([0-9a-f]{40,64})$", re.MULTILINE)
_MERGE = re.compile(r"refs/pull/[0-9]+/merge")


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that differs between two commits.

    Attributes:
        former: its path in the former commit, from the top; None if it is new.
        path: its path in the later one; None if it was deleted.
    """

    former: str | None
    path: str | None


def find_base(clone: Clone, remote: str, environment: Mapping[str, str]) -> str | None:
    """Return the commit to compare a pull request with; None if the job is for no pull request.

    The clone is at the pull request's commit, or at its merge into the base.

    Raises:
        GitError: it cannot be found or fetched.
    """
    branch = environment.get("GITHUB_BASE_REF") or environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
    if not branch:
        return None
    head = clone.read_head()
    base = environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA")
    if _MERGE.fullmatch(environment.get("GITHUB_REF", "")) and environment.get("GITHUB_SHA") == head:
        # Read from the commit itself: where history is cut off, git reports no parents.
        parents = _PARENT.findall(clone.git.run("cat-file", "commit", head).partition("\n\n")[0])
        base = parents[0] if len(parents) > 1 else None
    if base is None:
        base = _find_fork(clone, remote, branch, head)
    clone.bring(remote, base)
    return base


def _find_fork(clone: Clone, remote: str, branch: str, head: str) -> str:
    tip = clone.fetch(remote, branch)
    if tip is None:
        raise GitError(f"the remote has no branch {branch}")
    found = clone.git.ask("merge-base", tip, head)
    if found.status:
        raise GitError(
            f"the commit where this one left {branch} is not in this clone",
            hint="check out what actions/checkout does by default, or the history with `fetch-depth: 0`",
        )
    return found.output.strip()


def list_changes(clone: Clone, base: str) -> list[FileChange]:
    """Return the files that differ between a commit and the one that is checked out.

    Raises:
        GitError: they cannot be compared.
    """
    listed = clone.git.run("diff", "--name-status", "-z", "--find-renames", base, "HEAD", "--")
    return list(_read_changes(iter(listed.split("\0"))))


def _read_changes(words: Iterator[str]) -> Iterator[FileChange]:
    for status in words:
        if not status:
            return
        first = next(words)
        if status[0] in "RC":
            yield FileChange(first if status[0] == "R" else None, next(words))
        else:
            yield FileChange(None if status == "A" else first, None if status == "D" else first)
