"""Keeps one comment in a discussion: finds it again by a hidden marker, and edits it in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from runner.forge.connection import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.forge.discussion import Discussion

LONGEST_BODY = 65_535
"""UTF-16 units of a body. GitHub says "maximum is 65536 characters" and was seen to take 262,144 bytes of
UTF-8: a body of so many units is within both, whatever is counted."""
TRIES = 4
_FIRST_PAUSE_S = 2.0
_LONGEST_PAUSE_S = 60.0

_Result = TypeVar("_Result")
Action = Literal["created", "updated", "unchanged", "overtaken"]


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of the comment.

    Attributes:
        action: `overtaken` if the pull request has moved on to another commit, whose job comments.
        url: the comment's page; empty if there is none.
        removed: further comments with the same marker that were deleted.
    """

    action: Action
    url: str = ""
    removed: int = 0


def write_marker(target: str, name: str | None = None, kind: str = "") -> str:
    """Return the marker of a comment or an issue: one for each target, name and kind.

    Args:
        target: the target's name.
        name: `--id`, if given. Both are letters, digits, `.`, `_` and `-`: nothing that ends an HTML comment.
        kind: what it tells; empty for the plan of a pull request.
    """
    words = ["sms-campaign-runner", kind, f"target={target}", f"id={name}" if name else ""]
    return f"<!-- {' '.join(filter(None, words))} -->"


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def keep_comment(discussion: Discussion, marker: str, body: str, head: str = "") -> Kept:
    """Make a comment the one with its marker: create it, edit it, or leave it as it is.

    Only a comment that this token made and that begins with the marker is edited: who else writes it into a
    comment keeps theirs.

    Args:
        discussion: where it stands.
        marker: its first line.
        body: Markdown, the marker first, of at most LONGEST_BODY units.
        head: the commit that it is about; empty if that isn't known, or doesn't matter.

    Raises:
        RefusedError: the token has no right to.
        UnavailableError: the forge cannot be asked.
    """
    if head and discussion.find_head() not in (None, head):
        return Kept("overtaken")
    login = discussion.find_login()
    own = [c for c in discussion.list_comments() if c.author == login and begins_with(c.body, marker)]
    if not own:
        return Kept("created", discussion.create_comment(body).url)
    # The oldest stays: links lead to it.
    first, *others = sorted(own, key=lambda comment: comment.id)
    for comment in others:
        discussion.delete_comment(comment)
    if is_same_body(first.body, body):
        return Kept("unchanged", first.url, len(others))
    return Kept("updated", discussion.update_comment(first, body).url, len(others))


def keep_trying(work: Callable[[], _Result], pause: Callable[[float], None]) -> _Result:
    """Do something on a forge, and again as long as the forge is out of order, some times.

    Each try has to look anew: what was asked for and not answered may have been done.

    Args:
        work: does it.
        pause: waits for as many seconds as it is told.

    Raises:
        UnavailableError: the forge cannot be asked, after some tries.
    """
    wait_s = _FIRST_PAUSE_S
    for _ in range(TRIES - 1):
        try:
            return work()
        except UnavailableError as error:
            asked_s = error.wait_s or 0.0
            if asked_s > _LONGEST_PAUSE_S:
                raise
            pause(max(wait_s, asked_s))
            wait_s *= 2
    return work()


def begins_with(body: str, marker: str) -> bool:
    """Return whether the first line of a body is a marker."""
    return _normalize(body).split("\n", 1)[0] == marker


def is_same_body(one: str, other: str) -> bool:
    """Return whether two bodies are the same; a forge may change line breaks and trailing blanks."""
    return _normalize(one) == _normalize(other)


def _normalize(body: str) -> str:
    return body.replace("\r\n", "\n").strip()
