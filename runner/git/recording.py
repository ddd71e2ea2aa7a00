"""Commits of record files onto a branch of a remote, from any state of the clone.

The commit is made beside index and work tree, on the current tip of the remote's branch. So it works in a
shallow clone and on a detached HEAD, leaves the user's own changes alone, and needs no merge commit if the
branch has moved on. Changes of both sides are united.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from runner.atomic_write import save_text
from runner.git.clone import Clone, read_text
from runner.git.command import GitError, hide_credentials, push_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

ASIDE = "runner/record"
"""The branch for records when the intended branch takes no push."""
TRIES = 8
MOST_WAITING = 100
_BLOB = "100644"
_NOTHING_IS_LOST = "what was sent is on record at the service, and the next `runner apply` finds it there"


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
        branch: the remote's branch that it was pushed to; None if it was not pushed.
        refusal: the intended branch's reason for not taking it; None if it did.
        is_followed: false if the clone's own branch should have moved on to the commit, and could not.
    """

    commit: str | None = None
    message: str = ""
    branch: str | None = None
    refusal: str | None = None
    is_followed: bool = True


@dataclass(frozen=True, slots=True)
class Recorder:
    """A recorder of one clone's files.

    Attributes:
        clone: the clone.
        files: existing files to record, below the clone's top.
        unite: merges two right texts of the file at a path, without git's markers.
        is_older: returns whether the first text of the file at a path lacks something of the second.
        describe: returns a commit's message, given the commits that already contain the record; the parent is
            last.
        endings: the endings of the names of all such files.
        attempt: returns the finding for a file, or None if an error concerns only that file.
        author: git's author variables, for clones without a user.
    """

    clone: Clone
    files: Sequence[Path]
    unite: Callable[[str, str, str], str]
    is_older: Callable[[str, str, str], bool]
    describe: Callable[[Sequence[str], Sequence[RecordedFile]], str]
    endings: tuple[str, ...]
    attempt: Callable[[Path, Callable[[], RecordedFile | None]], RecordedFile | None]
    author: Mapping[str, str] = field(default_factory=dict)

    def commit(self) -> Recorded:
        """Commit onto the current branch or a detached HEAD, without a push.

        Raises:
            GitError: git cannot do it.
        """
        head = self.clone.read_head()
        changes = self._find_changes([head])
        if not changes:
            return Recorded()
        commit, message = self._make_commit([head], changes)
        self._stage(changes)
        self.clone.git.run("update-ref", "-m", "runner ci record", "HEAD", commit, head)
        return Recorded(commit, message)

    def push(self, remote: str, branch: str) -> Recorded:
        """Commit onto a remote's branch, or onto `ASIDE` if that takes no push.

        Raises:
            GitError: the remote cannot be reached, or takes neither.
        """
        for _ in range(TRIES):
            tip = self.clone.fetch(remote, branch) or self.clone.read_head()
            changes = self._find_changes([tip])
            if not changes:
                self._catch_up(tip, branch)
                return Recorded()
            commit, message = self._make_commit([tip], changes)
            answer = push_commit(self.clone.git, remote, commit, branch)
            if answer.is_accepted:
                return Recorded(commit, message, branch, is_followed=self._follow(commit, branch, changes))
            if not answer.is_overtaken:
                return self._push_aside(remote, branch, answer.reason)
        return self._push_aside(remote, branch, "others pushed to it all the time")

    def _push_aside(self, remote: str, branch: str, refusal: str) -> Recorded:
        reason, may_replace = "", True
        for _ in range(TRIES):
            tip = self.clone.fetch(remote, branch) or self.clone.read_head()
            parent, tips, replaced = tip, [tip], None
            aside = self.clone.fetch(remote, ASIDE)
            if aside is not None and not self.clone.is_merged(aside, tip, remote):
                # A branch that was merged by a squash could not be merged again, so it is replaced; a waiting
                # one is continued.
                if may_replace and self._is_told(aside, tip):
                    replaced = aside
                else:
                    parent, tips = aside, [tip, aside]
            changes = self._find_changes(tips)
            if not changes:
                return Recorded(None, "", ASIDE, refusal)
            commit, message = self._make_commit([*tips[:-1], parent], changes)
            answer = push_commit(self.clone.git, remote, commit, ASIDE, replaced=replaced)
            if answer.is_accepted:
                return Recorded(commit, message, ASIDE, refusal)
            reason = answer.reason
            if answer.obstacle is not None:
                raise GitError(
                    f"the record could not be pushed to {branch} ({refusal}), and the branch {ASIDE} cannot "
                    f"be made on {hide_credentials(remote)}: {answer.obstacle} is in its way",
                    hint=f"rename that one; {_NOTHING_IS_LOST}",
                )
            if not answer.is_overtaken:
                if replaced is None:
                    break
                may_replace = False
        raise GitError(
            f"the record could be pushed neither to {branch} ({refusal}) nor to {ASIDE} ({reason})",
            hint="let this user, or the job's token, write to the repository, and meet its rules, such as "
            f"signed commits (git's commit.gpgSign and user.signingKey); {_NOTHING_IS_LOST}",
        )

    def _is_told(self, commit: str, of: str) -> bool:
        """Return whether the commit `of` contains everything that the record says in `commit`."""
        return _is_told(self.clone, commit, of, self.clone.list_files(commit, self.endings), self.is_older)

    def _find_changes(self, tips: Sequence[str]) -> list[RecordedFile]:
        """Return the changes that a commit on the last of these tips needs to contain the record of all."""
        head = self.clone.read_head()
        found = (self.attempt(file, partial(self._find_change, file, head, tips)) for file in self.files)
        return [change for change in found if change is not None]

    def _find_change(self, file: Path, head: str, tips: Sequence[str]) -> RecordedFile | None:
        path = file.relative_to(self.clone.root).as_posix()
        base, after = self.clone.read(head, path), read_text(file)
        before = None
        for tip in tips:
            before = self.clone.read(tip, path)
            after = self._merge(path, base, after, before)
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

    def _make_commit(self, tips: Sequence[str], changes: Sequence[RecordedFile]) -> tuple[str, str]:
        """Write a commit of these changes onto the last of the tips; return it and its message."""
        entries, parent = [], tips[-1]
        for change in changes:
            # By its path, so that the filters that the user has set up for it apply.
            path = f"--path={change.path}"
            blob = self.clone.git.run("hash-object", "-w", "--stdin", path, text=change.after)
            entries.append(f"{_BLOB} {blob}\t{change.path}\0")
        with tempfile.TemporaryDirectory(prefix="runner-record-") as folder:
            # A separate index leaves the user's staged changes alone.
            aside = {"GIT_INDEX_FILE": f"{folder}/index"}
            self.clone.git.run("read-tree", parent, environment=aside)
            self.clone.git.run("update-index", "-z", "--index-info", text="".join(entries), environment=aside)
            tree = self.clone.git.run("write-tree", environment=aside)
        message = self.describe(tips, changes)
        # Unlike `git commit`, this does not look at the setting itself.
        signs = self.clone.git.ask("config", "--type=bool", "commit.gpgSign").output.strip() == "true"
        options = ["-p", parent, *(["-S"] if signs else [])]
        commit = self.clone.git.run("commit-tree", tree, *options, text=message, environment=self.author)
        return commit, message

    def _follow(self, commit: str, branch: str, changes: Sequence[RecordedFile]) -> bool:
        """Move the clone on to a commit unless user changes would be lost; return whether it moved."""
        current = self.clone.git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
        if current.status == 0 and current.output.strip() != branch:
            return True  # another branch than the recorded one has nothing to follow
        # Staged in any case, so that `git stash` takes it: a file in the way would stop `git pull`.
        self._stage(changes)
        head = self.clone.read_head()
        if not self.clone.is_ancestor(head, commit):
            return False
        self.clone.git.ask("update-index", "-q", "--refresh")
        # The two-way merge of git-read-tree(1) keeps local changes.
        if self.clone.git.ask("read-tree", "-m", "-u", head, commit).status:
            return False
        self.clone.git.run("update-ref", "-m", "runner ci record", "HEAD", commit, head)
        return True

    def _catch_up(self, tip: str, branch: str) -> None:
        """Follow a tip that contains everything here, if local files would stop `git pull`.

        They do after a run that was killed after its push, and after recording on another machine.
        """
        head = self.clone.read_head()
        found = (self.attempt(file, partial(self._find_told, file, head, tip)) for file in self.files)
        changes = [change for change in found if change is not None]
        if changes:
            self._follow(tip, branch, changes)

    def _find_told(self, file: Path, head: str, tip: str) -> RecordedFile | None:
        """Return the tip's version of a file that has changed here; None if there is none."""
        path = file.relative_to(self.clone.root).as_posix()
        after = self.clone.read(tip, path)
        is_changed = after is not None and self.clone.read(head, path) != read_text(file)
        return RecordedFile(path, None, after) if after is not None and is_changed else None

    def _stage(self, changes: Iterable[RecordedFile]) -> None:
        """Put the committed files into work tree and index."""
        for change in changes:
            file = self.clone.root / change.path
            if read_text(file) != change.after:
                save_text(file, change.after)
        self.clone.git.run("update-index", "--add", "--", *(change.path for change in changes))


@dataclass(frozen=True, slots=True)
class WaitingCommit:
    """A commit of the record that waits to be merged; `at` is ISO 8601 with an offset."""

    commit: str
    at: str
    subject: str


def find_what_waits(
    clone: Clone,
    remote: str,
    branch: str,
    endings: tuple[str, ...],
    is_older: Callable[[str, str, str], bool],
) -> list[WaitingCommit]:
    """Return up to `MOST_WAITING` commits of the record that wait to be merged, the latest first.

    The clone may be shallow, without the history of earlier merges.

    Raises:
        GitError: the remote cannot be reached.
    """
    tip, aside = clone.fetch(remote, branch) or clone.read_head(), clone.fetch(remote, ASIDE)
    if aside is None or clone.is_merged(aside, tip, remote):
        return []
    if _is_told(clone, aside, tip, clone.list_files(aside, endings), is_older):
        return []
    listed = clone.git.run(
        "log", "-z", "--first-parent", f"--max-count={MOST_WAITING}", "--format=%H %cI %s", f"{tip}..{aside}"
    )
    found: list[WaitingCommit] = []
    for line in filter(None, listed.split("\0")):
        commit, at, subject = line.split(" ", 2)
        paths = clone.list_changed(commit, endings)
        # A merge of the branch into the record, as by the forge's button, brings nothing new.
        if not _is_told(clone, commit, tip, paths, is_older):
            found.append(WaitingCommit(commit, at, subject))
    return found


def _is_told(
    clone: Clone, commit: str, of: str, paths: Iterable[str], is_older: Callable[[str, str, str], bool]
) -> bool:
    """Return whether the commit `of` contains everything that these files say in `commit`."""
    for path in paths:
        theirs, ours = clone.read(commit, path), clone.read(of, path)
        if theirs is not None and theirs != ours and (ours is None or is_older(path, ours, theirs)):
            return False
    return True


def take_what_waits(
    clone: Clone, remote: str, branch: str, endings: tuple[str, ...], unite: Callable[[str, str, str], str]
) -> list[str]:
    """Unite waiting record files into the work tree, and return the paths that changed, from the top.

    Raises:
        GitError: the remote cannot be reached.
    """
    tip, aside = clone.fetch(remote, branch) or clone.read_head(), clone.fetch(remote, ASIDE)
    if aside is None or clone.is_merged(aside, tip, remote):
        return []
    taken = []
    for path in clone.list_files(aside, endings):
        theirs, file = clone.read(aside, path), clone.root / path
        if theirs is None or theirs == clone.read(tip, path):
            continue
        ours = read_text(file) if file.is_file() else None
        # After a squash merge, ours contains as much or more.
        after = theirs if ours is None else unite(path, ours, theirs)
        if after != ours:
            file.parent.mkdir(parents=True, exist_ok=True)
            save_text(file, after)
            taken.append(path)
    return taken


def read_what_waits(clone: Clone, remote: str, endings: tuple[str, ...]) -> dict[str, str]:
    """Return the texts of waiting record files that differ from this clone's commit, by path from the top.

    The work tree is left alone.

    Raises:
        GitError: the remote cannot be reached.
    """
    head, aside = clone.read_head(), clone.find_tip(remote, ASIDE)
    if aside is None:
        return {}
    clone.bring(remote, aside)
    if clone.is_merged(aside, head, remote):
        return {}
    ours = clone.list_files(head, endings)
    changed = [path for path, blob in clone.list_files(aside, endings).items() if ours.get(path) != blob]
    texts = ((path, clone.read(aside, path)) for path in changed)
    return {path: text for path, text in texts if text is not None}
