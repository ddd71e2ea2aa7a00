"""The commit that a pull request is compared with, and the files that differ.

By default a job has one commit: the merge of the pull request into its base, without the history of either.
Its first parent is named in it all the same, and can be asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.repository.git import GitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.repository.clone import Clone

_PARENT = re.compile(r"^parent ([0-9a-f]{40,64})$", re.MULTILINE)
_MERGE = re.compile(r"refs/pull/[0-9]+/merge")


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that two commits have differently.

    Attributes:
        former: its path in the former commit, from the top; None if it is new.
        path: its path in the later one; None if it is gone.
    """

    former: str | None
    path: str | None


def find_base(clone: Clone, remote: str, environment: Mapping[str, str]) -> str | None:
    """Return the commit that a pull request is to be compared with; None if the job is for none.

    Args:
        clone: whose commit is checked out: the pull request's, or its merge into the base.
        remote: where the base is.
        environment: the process's, for what CI says of the pull request.

    Raises:
        GitError: it cannot be found, or not be had.
    """
    branch = environment.get("GITHUB_BASE_REF") or environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
    if not branch:
        return None
    head = clone.read_head()
    base = environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA")
    if _MERGE.fullmatch(environment.get("GITHUB_REF", "")) and environment.get("GITHUB_SHA") == head:
        # As it is written: where history is cut off, git itself says that there are no parents.
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
    """Return the files that the commit that is checked out has otherwise than another one.

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
