"""Keeps one comment on a pull request: finds it again by a hidden marker, and edits it in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from runner.forge.connection import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.forge.pull_request import PullRequest

LONGEST_BODY = 65_535
"""UTF-16 units of a body. GitHub says "maximum is 65536 characters" and was seen to take 262,144 bytes of
UTF-8: a body of so many units is within both, whatever is counted."""
TRIES = 4
_FIRST_PAUSE_S = 2.0
_LONGEST_PAUSE_S = 60.0

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


def write_marker(target: str, name: str | None) -> str:
    """Return the marker of a comment: one for each target, and for each name that jobs give themselves.

    Args:
        target: the target's name.
        name: `--id`, if given. Both are letters, digits, `.`, `_` and `-`: nothing that ends an HTML comment.
    """
    return f"<!-- sms-campaign-runner target={target}{f' id={name}' if name else ''} -->"


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def keep_comment(
    pull_request: PullRequest, marker: str, body: str, head: str, pause: Callable[[float], None]
) -> Kept:
    """Make a comment the one with its marker: create it, edit it, or leave it as it is.

    Only a comment that this token made and that begins with the marker is edited: who else writes it into a
    comment keeps theirs. When a try fails, the next one looks anew: a comment whose creation was not answered
    may be there.

    Args:
        pull_request: where it stands.
        marker: its first line.
        body: Markdown, the marker first, of at most LONGEST_BODY units.
        head: the commit that it is about; empty if that isn't known.
        pause: waits for as many seconds as it is told.

    Raises:
        RefusedError: the token has no right to.
        UnavailableError: the forge cannot be asked, after some tries.
    """
    wait_s = _FIRST_PAUSE_S
    for _ in range(TRIES - 1):
        try:
            return _keep_once(pull_request, marker, body, head)
        except UnavailableError as error:
            asked_s = error.wait_s or 0.0
            if asked_s > _LONGEST_PAUSE_S:
                raise
            pause(max(wait_s, asked_s))
            wait_s *= 2
    return _keep_once(pull_request, marker, body, head)


def _keep_once(pull_request: PullRequest, marker: str, body: str, head: str) -> Kept:
    if head and pull_request.find_head() not in (None, head):
        return Kept("overtaken")
    login = pull_request.find_login()
    own = [c for c in pull_request.list_comments() if c.author == login and _begins_with(c.body, marker)]
    if not own:
        return Kept("created", pull_request.create_comment(body).url)
    # The oldest stays: links lead to it.
    first, *others = sorted(own, key=lambda comment: comment.id)
    for comment in others:
        pull_request.delete_comment(comment)
    if _normalize(first.body) == _normalize(body):
        return Kept("unchanged", first.url, len(others))
    return Kept("updated", pull_request.update_comment(first, body).url, len(others))


def _begins_with(body: str, marker: str) -> bool:
    return _normalize(body).split("\n", 1)[0] == marker


def _normalize(body: str) -> str:
    # What a forge may do to line breaks and trailing blanks is no change.
    return body.replace("\r\n", "\n").strip()
