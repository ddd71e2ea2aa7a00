"""Commits files of record onto a branch of a remote, whatever the clone it is done from looks like.

The commit is put together beside index and work tree, on the tip that the remote's branch has at that moment.
So it works in a shallow clone and on a detached HEAD, takes nothing along that the user has changed or
staged, and a branch that has moved on needs no merge commit. What both sides have changed is united.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from runner.repository.clone import Clone, read_text, replace_text
from runner.repository.git import GitError, hide_credentials
from runner.repository.push import push_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

ASIDE = "runner/record"
"""The branch that the record goes to where the one that it belongs to takes no push."""
TRIES = 8
MOST_WAITING = 100
_BLOB = "100644"
_NOTHING_IS_LOST = "what was sent is on record at the service, and the next `runner apply` finds it there"


@dataclass(frozen=True, slots=True)
class Change:
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
    """What became of a record.

    Attributes:
        commit: the commit; None if there was nothing to record.
        message: its message.
        branch: the branch of the remote that it was pushed to; None if it was not pushed.
        refusal: why the branch that was meant did not take it; None if it did.
        is_followed: false if the clone's own branch should have moved on to the commit, and could not.
    """

    commit: str | None = None
    message: str = ""
    branch: str | None = None
    refusal: str | None = None
    is_followed: bool = True


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records files of one clone.

    Attributes:
        clone: where they are.
        files: those to record; each is there, below the clone's top.
        unite: returns what the file at a path says if its two texts are both right, without git's markers.
        is_older: returns whether the first text of the file at a path lacks something of the second.
        describe: returns the message of a commit; is given the commits that tell the record already, the one
            that it goes onto last.
        endings: what the names of all such files end in.
        attempt: returns what is found for a file, or None if only that file is concerned by what is wrong.
        author: the variables that tell git who commits, for clones that name nobody.
    """

    clone: Clone
    files: Sequence[Path]
    unite: Callable[[str, str, str], str]
    is_older: Callable[[str, str, str], bool]
    describe: Callable[[Sequence[str], Sequence[Change]], str]
    endings: tuple[str, ...]
    attempt: Callable[[Path, Callable[[], Change | None]], Change | None]
    author: Mapping[str, str] = field(default_factory=dict)

    def commit(self) -> Recorded:
        """Commit onto the current branch, or a detached HEAD, and push nothing.

        Raises:
            GitError: git cannot do it.
        """
        head = self.clone.read_head()
        changes = self._find_changes([head])
        if not changes:
            return Recorded()
        commit, message = self._make_commit([head], changes)
        self._stage(changes)
        self.clone.git.run("update-ref", "-m", "runner record", "HEAD", commit, head)
        return Recorded(commit, message)

    def push(self, remote: str, branch: str) -> Recorded:
        """Commit onto a branch of a remote; if that takes no push, onto a branch of the record's own.

        Args:
            remote: its name or address.
            branch: the branch's name.

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
                # One that was merged as a commit of its own (a squash) would not merge once more; one that
                # waits is gone on with.
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
            hint=f"let the job's token write to the repository; {_NOTHING_IS_LOST}",
        )

    def _is_told(self, commit: str, of: str) -> bool:
        """Return whether all that the record of one commit says, that of another one says, too."""
        return _is_told(self.clone, commit, of, self.clone.list_files(commit, self.endings), self.is_older)

    def _find_changes(self, tips: Sequence[str]) -> list[Change]:
        """Return what a commit on the last of these tips would change, to say what all of them do."""
        head = self.clone.read_head()
        found = (self.attempt(file, partial(self._find_change, file, head, tips)) for file in self.files)
        return [change for change in found if change is not None]

    def _find_change(self, file: Path, head: str, tips: Sequence[str]) -> Change | None:
        path = file.relative_to(self.clone.root).as_posix()
        base, after = self.clone.read(head, path), read_text(file)
        before = None
        for tip in tips:
            before = self.clone.read(tip, path)
            after = self._merge(path, base, after, before)
        # One that git has merged, with markers or not, is made whole.
        if after != before and (whole := self.unite(path, after, after)) != before:
            return Change(path, before, whole)
        return None

    def _merge(self, path: str, base: str | None, ours: str, theirs: str | None) -> str:
        if theirs is None or theirs == ours:
            return ours
        if ours == base:
            return theirs
        # Nobody else has changed it: ours goes on from it, unless it was put back to what it was before.
        if theirs == base and not self.is_older(path, ours, theirs):
            return ours
        return self.unite(path, ours, theirs)

    def _make_commit(self, tips: Sequence[str], changes: Sequence[Change]) -> tuple[str, str]:
        """Write a commit of these changes onto the last of the tips; return it and its message."""
        entries, parent = [], tips[-1]
        for change in changes:
            blob = self.clone.git.run("hash-object", "-w", "--stdin", text=change.after)
            entries.append(f"{_BLOB} {blob}\t{change.path}\0")
        with tempfile.TemporaryDirectory(prefix="runner-record-") as folder:
            # An index of its own: the user's keeps what is staged in it.
            aside = {"GIT_INDEX_FILE": f"{folder}/index"}
            self.clone.git.run("read-tree", parent, environment=aside)
            self.clone.git.run("update-index", "-z", "--index-info", text="".join(entries), environment=aside)
            tree = self.clone.git.run("write-tree", environment=aside)
        message = self.describe(tips, changes)
        commit = self.clone.git.run("commit-tree", tree, "-p", parent, text=message, environment=self.author)
        return commit, message

    def _follow(self, commit: str, branch: str, changes: Sequence[Change]) -> bool:
        """Move the clone on to a commit, if that takes nothing from the user; return whether it has."""
        current = self.clone.git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
        if current.status == 0 and current.output.strip() != branch:
            return True  # another branch than the one that was recorded on has nothing to follow
        # Staged in any case, so that `git stash` takes it: a file in the way would stop `git pull`.
        self._stage(changes)
        head = self.clone.read_head()
        if not self.clone.is_ancestor(head, commit):
            return False
        self.clone.git.ask("update-index", "-q", "--refresh")
        # The two-way merge of git-read-tree(1): what is changed here and not there stays as it is.
        if self.clone.git.ask("read-tree", "-m", "-u", head, commit).status:
            return False
        self.clone.git.run("update-ref", "-m", "runner record", "HEAD", commit, head)
        return True

    def _catch_up(self, tip: str, branch: str) -> None:
        """Follow a tip that has all that is here, if files here would be in the way of `git pull`.

        They are after a run that was killed behind its push, and where another machine has recorded them.
        """
        head = self.clone.read_head()
        found = (self.attempt(file, partial(self._find_told, file, head, tip)) for file in self.files)
        changes = [change for change in found if change is not None]
        if changes:
            self._follow(tip, branch, changes)

    def _find_told(self, file: Path, head: str, tip: str) -> Change | None:
        """Return what a tip says of a file that has changed here."""
        path = file.relative_to(self.clone.root).as_posix()
        after = self.clone.read(tip, path)
        is_changed = after is not None and self.clone.read(head, path) != read_text(file)
        return Change(path, None, after) if after is not None and is_changed else None

    def _stage(self, changes: Iterable[Change]) -> None:
        """Put what was committed into work tree and index."""
        for change in changes:
            file = self.clone.root / change.path
            if read_text(file) != change.after:
                replace_text(file, change.after)
        self.clone.git.run("update-index", "--add", "--", *(change.path for change in changes))


@dataclass(frozen=True, slots=True)
class WaitingCommit:
    """A commit of the record that waits to be merged.

    Attributes:
        commit: its name.
        at: when it was made; ISO 8601 with an offset.
        subject: the first line of its message.
    """

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
    """Return the commits of a record that waits to be merged, the latest first, of its last `MOST_WAITING`.

    Args:
        clone: whose remote it is; a shallow one, too, which does not know what was merged long ago.
        remote: the remote's name or address.
        branch: the branch that the record is to be merged into.
        endings: what the names of the record's files end in.
        is_older: as for `Recorder`.

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
        # What merges the branch into the record, as the forge's button does, brings nothing new.
        if not _is_told(clone, commit, tip, paths, is_older):
            found.append(WaitingCommit(commit, at, subject))
    return found


def _is_told(
    clone: Clone, commit: str, of: str, paths: Iterable[str], is_older: Callable[[str, str, str], bool]
) -> bool:
    """Return whether all that files of one commit say, those of another one say, too."""
    for path in paths:
        theirs, ours = clone.read(commit, path), clone.read(of, path)
        if theirs is not None and theirs != ours and (ours is None or is_older(path, ours, theirs)):
            return False
    return True


def take_what_waits(
    clone: Clone, remote: str, branch: str, endings: tuple[str, ...], unite: Callable[[str, str, str], str]
) -> list[str]:
    """Bring the files of a record that waits to be merged into the work tree, so that a run goes on from it.

    Args:
        clone: whose work tree it is.
        remote: the remote's name or address.
        branch: the branch that the record is to be merged into.
        endings: what the names of the record's files end in.
        unite: as for `Recorder`.

    Returns:
        The files that have changed: paths from the top.

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
        # Where the record was merged as a commit of its own (a squash), ours says as much and more.
        after = theirs if ours is None else unite(path, ours, theirs)
        if after != ours:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_text(file, after)
            taken.append(path)
    return taken


def read_what_waits(clone: Clone, remote: str, endings: tuple[str, ...]) -> dict[str, str]:
    """Return the files of a record that waits to be merged, and says something else than this clone's commit.

    Args:
        clone: with the commit to compare with; its work tree is left alone.
        remote: the remote's name or address.
        endings: what the names of the record's files end in.

    Returns:
        Their texts, by their paths from the top.

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
