"""Commits of record files onto a branch of a remote, from any state of the clone.

The commit is made beside index and work tree, on the current tip of the remote's branch. So it works in a
shallow clone and on a detached HEAD, leaves the user's own changes alone, and needs no merge commit if the
branch has moved on. Changes of both sides are united.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from runner.atomic_write import save_text
from runner.errors import CampaignError, SuppressionsError
from runner.git.clone import Clone, read_text
from runner.git.command import GitError, hide_credentials, push_commit
from runner.git.objects import write_commit
from runner.ledger.files.comparison import lacks_lines, unite_files
from runner.workflow.records.record_message import RecordedFile, describe_changes, secret_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from runner.workflow.failures import Failures

TRIES = 8
_BOT = "github-actions[bot] <41898282+github-actions[bot]@users.noreply.github.com>"
_NOBODY = "runner <runner@localhost>"
"""Authors of commits in clones that have none configured."""


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
        environ: with CI's variables and the targets' keys.
        failures: gets files that cannot be recorded.
        current: the branch that is checked out; None for a detached HEAD.
    """

    clone: Clone
    files: Sequence[Path]
    environ: Mapping[str, str]
    failures: Failures
    current: str | None

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
            answer = push_commit(self.clone.git, remote, commit, f"refs/heads/{branch}")
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
        return self._collect(lambda file: self._find_change(file, head, tip))

    def _collect(self, find: Callable[[Path], RecordedFile | None]) -> list[RecordedFile]:
        """Return what is found of each file; an error of one file does not stop the others."""

        def find_apart(file: Path) -> RecordedFile | None:
            try:
                return find(file)
            except SuppressionsError as error:
                raise CampaignError(error.message, hint=error.hint) from None

        found = [self.failures.attempt_file(file, None, partial(find_apart, file)) for file in self.files]
        return [change for change in found if change is not None]

    def _find_change(self, file: Path, head: str, tip: str) -> RecordedFile | None:
        path = file.relative_to(self.clone.root).as_posix()
        base, before = self.clone.read(head, path), self.clone.read(tip, path)
        after = self._merge(file, base, read_text(file), before)
        # Conflicts, with markers or without, are resolved by uniting.
        if after != before and (whole := unite_files(file, after, after, self._secret_of(file))) != before:
            return RecordedFile(path, before, whole)
        return None

    def _merge(self, file: Path, base: str | None, ours: str, theirs: str | None) -> str:
        if theirs is None or theirs == ours:
            return ours
        if ours == base:
            return theirs
        # Only we changed it. Ours is taken unless it was put back to an older text.
        if theirs == base and not lacks_lines(file, theirs, ours, self._secret_of(file)):
            return ours
        return unite_files(file, ours, theirs, self._secret_of(file))

    def _secret_of(self, file: Path) -> Callable[[], str | None]:
        return secret_of(file, self.environ)

    def _make_commit(self, parent: str, changes: Sequence[RecordedFile]) -> tuple[str, str]:
        """Write a commit of these changes onto another one; return it and its message."""
        git = self.clone.git
        message = describe_changes(self.clone, self.environ, self.files, parent, changes)
        lines = git.ask("var", "-l").output.splitlines()
        settings = dict(line.split("=", 1) for line in lines if "=" in line)
        nobody = _BOT if self.environ.get("GITHUB_ACTIONS") == "true" else _NOBODY
        is_named = "user.email" in settings or "GIT_COMMITTER_EMAIL" in self.environ
        idents = (settings[f"GIT_{one}_IDENT"].rsplit(" ", 2)[0] for one in ("AUTHOR", "COMMITTER"))
        author, committer = idents if is_named else (nobody, nobody)
        for change in changes:
            self._save(change)
        # Git's own command, so that the filters apply that are set up for these files.
        listed = "".join(f"{change.path}\n" for change in changes)
        named = git.run("hash-object", "-w", "--stdin-paths", text=listed).split()
        blobs = dict(zip((change.path for change in changes), named, strict=True))
        made = write_commit(git, blobs, parent, message=message, people=(author, committer))
        if settings.get("commit.gpgsign", "").lower() in ("true", "yes", "on", "1"):
            made = git.run("commit-tree", f"{made}^{{tree}}", "-p", parent, "-S", text=message)
        return made, message

    def _follow(self, commit: str, branch: str) -> bool:
        """Move the clone on to a commit unless user changes would be lost; return whether it moved.

        Files that have changed here, and are in the commit, get what it says: after a run that was killed
        after its push, or recording on another machine, they would stop `git pull`.
        """
        if self.current not in (None, branch):
            return True  # another branch than the recorded one has nothing to follow
        head = self.clone.read_head()
        changes = self._collect(lambda file: self._find_change_to(file, head, commit))
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
