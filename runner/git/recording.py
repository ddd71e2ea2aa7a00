"""Commits of record files onto a branch of a remote, from any state of the clone.

The commit is made beside index and work tree, on the current tip of the remote's branch. So it works in a
shallow clone and on a detached HEAD, leaves the user's own changes alone, and needs no merge commit if the
branch has moved on. Changes of both sides are united.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from runner.atomic_write import save_text
from runner.git.clone import Clone, read_text
from runner.git.command import GitError, hide_credentials, push_commit
from runner.git.objects import write_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

TRIES = 8


class RefusedPushError(GitError):
    """A branch that does not take the record; `reason` is why, and `changes` is what it lacks."""

    def __init__(self, place: str, reason: str, changes: Sequence[RecordedFile]) -> None:
        super().__init__(
            f"{place} takes no push from here ({reason}), and what is new is nowhere else",
            hint="have a ref keep the record (targets.yaml: `state_remote: origin`; `runner ci start`), "
            "or let this user, or the job's token, push there, and meet the branch's rules, such as signed "
            "commits (git's commit.gpgSign and user.signingKey). The files here have everything: keep them",
        )
        self.reason = reason
        self.changes = changes


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file that a commit changes.

    Attributes:
        path: from the repository's top, with slashes.
        before: its text on the branch; None if it is not there.
        after: its text in the commit.
    """

    path: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """The outcome of recording.

    Attributes:
        commit: the commit; None if there was nothing to record.
        message: the commit's.
        branch: the remote's branch that it was pushed to; None if it was not pushed.
        is_followed: false if the clone's own branch should have moved on to the commit, and could not.
    """

    commit: str | None = None
    message: str = ""
    branch: str | None = None
    is_followed: bool = True


@dataclass(frozen=True, slots=True)
class Recorder:
    """A recorder of one clone's files.

    Attributes:
        clone: the clone.
        files: existing files to record, below the clone's top.
        unite: merges two right texts of the file at a path, without git's markers.
        is_older: returns whether the first text of the file at a path lacks something of the second.
        describe: returns a commit's message, given the commit that it comes after.
        attempt: returns the finding for a file, or None if an error concerns only that file.
        author: git's author variables, for clones without a configured user.
        current: the branch that is checked out; None for a detached HEAD.
    """

    clone: Clone
    files: Sequence[Path]
    unite: Callable[[str, str, str], str]
    is_older: Callable[[str, str, str], bool]
    describe: Callable[[str, Sequence[RecordedFile]], str]
    attempt: Callable[[Path, Callable[[], RecordedFile | None]], RecordedFile | None]
    author: Mapping[str, str] = field(default_factory=dict)
    current: str | None = None

    def commit(self) -> Recorded:
        """Commit onto the current branch or a detached HEAD, without a push.

        Raises:
            GitError: git cannot do it.
        """
        head = self.clone.read_head()
        changes = self.find_changes(head)
        if not changes:
            return Recorded()
        commit, message = self._make_commit(head, changes)
        self._stage(changes)
        self.clone.git.run("update-ref", "-m", "runner ci record", "HEAD", commit, head)
        return Recorded(commit, message)

    def push(self, remote: str, branch: str, tip: str | None) -> Recorded:
        """Commit onto a remote's branch, which was at `tip` just now; None if it was not there.

        Raises:
            RefusedPushError: the branch does not take it.
            GitError: the remote cannot be reached.
        """
        reason, changes = "others pushed to it all the time", list[RecordedFile]()
        for _ in range(TRIES):
            parent = tip or self.clone.read_head()
            changes = self.find_changes(parent)
            if not changes:
                self._follow(parent, branch)
                return Recorded()
            commit, message = self._make_commit(parent, changes)
            answer = push_commit(self.clone.git, remote, commit, branch)
            if answer.is_accepted:
                return Recorded(commit, message, branch, is_followed=self._follow(commit, branch))
            if not answer.is_overtaken:
                reason = answer.reason
                break
            tip = self.clone.fetch(remote, branch)
        raise RefusedPushError(f"{branch} of {hide_credentials(remote)}", reason, changes)

    def find_changes(self, tip: str) -> list[RecordedFile]:
        """Return the changes that a commit on the tip needs to contain the record."""
        head = self.clone.read_head()
        found = (self.attempt(file, partial(self._find_change, file, head, tip)) for file in self.files)
        return [change for change in found if change is not None]

    def _find_change(self, file: Path, head: str, tip: str) -> RecordedFile | None:
        path = file.relative_to(self.clone.root).as_posix()
        base, before = self.clone.read(head, path), self.clone.read(tip, path)
        after = self._merge(path, base, read_text(file), before)
        # Conflicts, with markers or without, are resolved by uniting.
        if after != before and (whole := self.unite(path, after, after)) != before:
            return RecordedFile(path, before, whole)
        return None

    def _merge(self, path: str, base: str | None, ours: str, theirs: str | None) -> str:
        if theirs is None or theirs == ours:
            return ours
        if ours == base:
            return theirs
        # Only we changed it. Ours is taken unless it was put back to an older text.
        if theirs == base and not self.is_older(path, ours, theirs):
            return ours
        return self.unite(path, ours, theirs)

    def _make_commit(self, parent: str, changes: Sequence[RecordedFile]) -> tuple[str, str]:
        """Write a commit of these changes onto another one; return it and its message."""
        git, message = self.clone.git, self.describe(parent, changes)
        blobs = dict(zip((change.path for change in changes), self._store(changes), strict=True))
        # Made without an index; the commit proper has the user's name, and a signature where that is usual.
        files = write_commit(git, blobs, parent)
        listed = git.ask("config", "--get-regexp", r"^(user\.email|commit\.gpgsign)$").output
        config = dict(line.lower().split(" ", 1) for line in listed.splitlines() if " " in line)
        signing = ["-S"] if config.get("commit.gpgsign") in ("true", "yes", "on", "1") else []
        author = {} if "user.email" in config else self.author
        tree = f"{files}^{{tree}}"
        made = git.run("commit-tree", tree, "-p", parent, *signing, text=message, environment=author)
        return made, message

    def _store(self, changes: Sequence[RecordedFile]) -> list[str]:
        """Write the changed files' blobs, by their paths: the filters that are set up for them apply."""
        for change in changes:
            self._save(change)
        listed = "".join(f"{change.path}\n" for change in changes)
        return self.clone.git.run("hash-object", "-w", "--stdin-paths", text=listed).split()

    def _follow(self, commit: str, branch: str) -> bool:
        """Move the clone on to a commit unless user changes would be lost; return whether it moved.

        Files that have changed here, and are in the commit, get what it says: after a run that was killed
        after its push, or recording on another machine, they would stop `git pull`.
        """
        if self.current not in (None, branch):
            return True  # another branch than the recorded one has nothing to follow
        head = self.clone.read_head()
        found = (self.attempt(file, partial(self._find_change_to, file, head, commit)) for file in self.files)
        changes = [change for change in found if change is not None]
        if not changes:
            return True
        # Staged in any case, so that `git stash` takes it: a file in the way would stop `git pull`.
        self._stage(changes)
        # Keeps local changes, or else does nothing.
        return not self.clone.git.ask("merge", "--quiet", "--ff-only", "--no-verify", commit).status

    def _find_change_to(self, file: Path, head: str, commit: str) -> RecordedFile | None:
        """Return a commit's version of a file that has changed here; None if there is none."""
        path = file.relative_to(self.clone.root).as_posix()
        after = self.clone.read(commit, path)
        if after is None or self.clone.read(head, path) == read_text(file):
            return None
        return RecordedFile(path, None, after)

    def _stage(self, changes: Iterable[RecordedFile]) -> None:
        """Put the committed files into work tree and index."""
        for change in changes:
            self._save(change)
        self.clone.git.run("update-index", "--add", "--", *(change.path for change in changes))

    def _save(self, change: RecordedFile) -> None:
        file = self.clone.root / change.path
        if read_text(file) != change.after:
            save_text(file, change.after)
