"""A clone of a repository: its commits, and what files say in them."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.repository.git import Git, GitError, hide_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 300.0
"""For how long to wait for another command that works in the same clone, in seconds."""
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Clone:
    """A work tree with the repository that it is of.

    Attributes:
        git: runs git at its top.
        root: its top.
    """

    git: Git
    root: Path

    @contextmanager
    def hold(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        """Keep other commands that change work tree, index or branch out while the block lasts.

        The end of the process frees it, too. Linked work trees don't exclude each other.

        Args:
            patience_s: for how long to wait for another command, in seconds.

        Raises:
            GitError: it is still at work then, or nothing can be written here.
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
                        f"another `runner record` has been at work in {self.root} for {patience_s:g} s",
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
            # Without --depth, which would cut off the history of a clone that has it.
            self.git.run("fetch", "--quiet", "--no-tags", "--", remote, f"refs/heads/{branch}")
        # Not FETCH_HEAD: an editor may fetch something else in this clone at the same moment.
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
        """Make sure that a commit is here with its files; of its history as much as the clone has of others.

        Raises:
            GitError: the remote does not give it.
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
        """Return whether one commit is another, or in its history."""
        return self.git.ask("merge-base", "--is-ancestor", commit, of).status == 0

    def is_merged(self, commit: str, into: str, remote: str) -> bool:
        """Return whether one commit is another, or in its history, also where that is cut off here.

        Args:
            commit: the one that may be merged.
            into: the other, which the remote has.
            remote: the remote's name or address, which gives what is missing.
        """
        if self.is_ancestor(commit, into):
            return True
        made_at = datetime.fromisoformat(self.git.run("log", "--max-count=1", "--format=%cI", commit))
        # Clocks of machines that commit differ.
        self.deepen(remote, into, (made_at - timedelta(days=1)).isoformat())
        return self.is_ancestor(commit, into)

    def read(self, commit: str, path: str) -> str | None:
        """Return the text of a file in a commit; None if it is not there."""
        listed = self.git.run("ls-tree", "--full-tree", commit, "--", path)
        if not listed:
            return None
        blob = listed.split("\t")[0].split()[2]
        answer = self.git.ask("cat-file", "blob", blob)
        if answer.status:
            raise GitError(f"{path} of commit {commit[:12]} cannot be read: {answer.reason}")
        return answer.output

    def list_files(self, commit: str, endings: tuple[str, ...]) -> dict[str, str]:
        """Return the files of a commit whose names end so, by path, each with the name of its content."""
        listed = self.git.run("ls-tree", "-r", "-z", "--full-tree", commit).split("\0")
        lines = (line.partition("\t") for line in listed if line.endswith(endings))
        return {path: about.split()[2] for about, _, path in lines}

    def search(self, commit: str, pattern: str, ending: str) -> set[str]:
        """Return what matches a pattern in the files of a commit whose names end so.

        Args:
            commit: the commit.
            pattern: an extended regular expression, within a line.
            ending: of the names.
        """
        options = ("--no-color", "--text", "-h", "--only-matching", "--extended-regexp")
        answer = self.git.ask("grep", *options, "-e", pattern, commit, "--", f":(top)*{ending}")
        # 1: nothing matches.
        if answer.status > 1:
            raise GitError(f"`git grep` failed: {answer.reason}")
        return set(answer.output.splitlines())

    def read_patches(self, commit: str, since: str, ending: str) -> str:
        """Return all that commits up to one have added to files whose names end so, or have taken away.

        Args:
            commit: the last of the commits.
            since: leaves out those that were made before; ISO 8601.
            ending: of the names.
        """
        plain = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--text", "--unified=0")
        limits = ("--full-history", f"--since={since}", commit, "--", f":(top)*{ending}")
        return self.git.run("log", "--patch", "--format=", *plain, *limits)

    def list_commits(self, commit: str, since: str, path: str) -> list[str]:
        """Return the commits up to one that have changed a file, the latest first.

        Args:
            commit: the last of the commits.
            since: as for `read_patches`.
            path: the file's, from the top.
        """
        limits = ("--full-history", f"--since={since}", commit, "--", f":(top,literal){path}")
        return self.git.run("log", "--format=%H", *limits).split()

    def deepen(self, remote: str, commit: str, since: str) -> None:
        """Bring the history of a commit back to some time, where it is cut off after that and can be had.

        Args:
            remote: the remote's name or address.
            commit: a commit that the remote has.
            since: ISO 8601.
        """
        made_at = self.git.run("log", "--max-count=1", "--format=%cI", commit)
        is_cut_off = self.git.run("rev-parse", "--is-shallow-repository") == "true"
        if is_cut_off and datetime.fromisoformat(made_at) >= datetime.fromisoformat(since):
            self.git.ask("fetch", "--quiet", "--no-tags", f"--shallow-since={since}", "--", remote, commit)

    def list_changed(self, commit: str, endings: tuple[str, ...]) -> list[str]:
        """Return the files that a commit has changed against its first parent, if their names end so."""
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
        LockfileError: it cannot be read, or is no text.
    """
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "is not UTF-8"
    raise LockfileError(f"{file} {reason}", hint="restore it with git; nothing was recorded")


def replace_text(file: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".tmp")
    draft = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123  a descriptor
            stream.write(text)
        draft.chmod(0o644)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
