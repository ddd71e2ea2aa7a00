"""A clone of a repository: its commits, its files, and the changes of a pull request.

By default a CI job has one commit without history: the merge of the pull request into its base. That commit
names its first parent, which can then be fetched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.git.command import Git, GitError
from runner.git.objects import ObjectReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Clone:
    """A work tree and its repository. `git` runs at the top, `root`; `objects` reads what is committed."""

    git: Git
    root: Path
    objects: ObjectReader = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "objects", ObjectReader(self.git, is_filtered=True))

    def fetch(self, remote: str, branch: str) -> str | None:
        """Fetch a branch and return its tip; None if the remote has no such branch."""
        tips = self.git.list_refs(remote, f"refs/heads/{branch}")
        self.objects.bring(remote, tips)
        return tips.get(f"refs/heads/{branch}")

    def read_head(self) -> str:
        """Return the commit that is checked out."""
        found = self.objects.read("HEAD^{commit}")
        if found is None:
            raise GitError("there is no commit yet to record on", hint="commit the campaigns first")
        return found.id

    def read_branch(self) -> str | None:
        """Return the branch that is checked out; None for a detached HEAD."""
        head = self.git.ask("symbolic-ref", "--quiet", "HEAD").output.strip()
        return head.removeprefix("refs/heads/") if head.startswith("refs/heads/") else None

    def read(self, commit: str, path: str) -> str | None:
        """Return the text of a file in a commit, as `read_text` would; None if it is not there."""
        blob = self.objects.find(commit, path)
        text = None if blob is None else self.objects.load(blob, path)
        return None if text is None else text.replace("\r\n", "\n")


def read_text(file: Path) -> str:
    """Return the text of a file."""
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
    if clone.objects.read(base) is None:
        # Of a clone with history it is there.
        clone.git.run("fetch", "--quiet", "--no-tags", "--depth=1", "--", remote, base)
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
    """Return the files that differ between a commit and the one that is checked out."""
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
