"""Pushes a commit, and tells a branch that has moved on from one that takes no push."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.repository.git import Git, GitAnswer

_REFUSED = re.compile(r"^!\t[^\t]*\t\[(?P<by>remote rejected|rejected)\] \((?P<why>.*)\)$", re.MULTILINE)
_RACES = ("cannot lock ref", "failed to update ref", "incorrect old value", "reference already exists")
"""What a server says of a push that another one got in the way of."""
_IN_THE_WAY = re.compile(r"'(?P<ref>refs/[^']+)' exists; cannot create")


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """What a remote said to a push.

    Attributes:
        is_accepted: the branch has the commit.
        is_overtaken: the branch has moved on: a commit on its new tip may be taken.
        reason: why it was not accepted, in git's words.
        obstacle: a ref of the remote that keeps one of this name from being made, if that is why.
    """

    is_accepted: bool
    is_overtaken: bool = False
    reason: str = ""
    obstacle: str | None = None


def push_commit(
    git: Git, remote: str, commit: str, branch: str, *, replaced: str | None = None
) -> PushAnswer:
    """Push a commit to a branch of a remote; nothing that is there is overwritten, but what is named.

    Args:
        git: in a clone that has the commit.
        remote: its name or address.
        commit: the commit.
        branch: the branch's name; it is made if it isn't there.
        replaced: a tip of the branch that the commit takes the place of, if the branch still is there.
    """
    ref = f"refs/heads/{branch}"
    lease = () if replaced is None else (f"--force-with-lease={ref}:{replaced}",)
    answer = git.ask("push", "--porcelain", *lease, "--", remote, f"{commit}:{ref}")
    if answer.status == 0:
        return PushAnswer(is_accepted=True)
    refused = _REFUSED.search(answer.output)
    if refused is None:
        return PushAnswer(is_accepted=False, reason=answer.reason)
    if (obstacle := find_obstacle(answer)) is not None:
        return PushAnswer(is_accepted=False, reason=f"it has {obstacle}", obstacle=obstacle)
    why = refused["why"]
    # git itself rejects what is no descendant of the tip; servers reject by rule, or because of a race.
    is_overtaken = refused["by"] == "rejected" or any(word in why for word in _RACES)
    return PushAnswer(is_accepted=False, is_overtaken=is_overtaken, reason=why)


def find_obstacle(answer: GitAnswer) -> str | None:
    """Return the ref of a remote that kept a push from making one; None if there was none.

    Git keeps refs as files: where there is a branch `runner` there can be no branch `runner/record`.
    """
    found = _IN_THE_WAY.search(answer.complaint)
    return found["ref"] if found else None
