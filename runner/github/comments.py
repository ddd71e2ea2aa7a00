"""Comments on a pull request or an issue that are kept up to date.

Each is found by a hidden marker and edited in place (https://docs.github.com/rest/issues/comments).
What asks GitHub raises the errors of `Repository.ask`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from runner.github.rest import RefusedError, UnavailableError, look_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.github.rest import Repository


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request or an issue.

    Attributes:
        id: ascending in order of creation.
        author: the author's login; an app's ends with `[bot]`.
        body: Markdown.
        url: its page.
    """

    id: int
    author: str
    body: str
    url: str


def list_comments(repository: Repository, number: int) -> Iterator[Comment]:
    """Yield all comments on a pull request or issue, the oldest first; both share one series of numbers."""
    return map(_read_comment, repository.list_all(f"issues/{number}/comments"))


def _read_comment(data: Any) -> Comment:
    number, body = look_up(data, "id"), look_up(data, "body")
    if not isinstance(number, int):
        raise UnavailableError("its answer cannot be read")
    author, url = look_up(data, "user", "login"), look_up(data, "html_url")
    return Comment(number, str(author or ""), str(body or ""), str(url or ""))


LONGEST_BODY = 65_535
"""Most UTF-16 units of a body.

GitHub says "maximum is 65536 characters" and was seen to take 262,144 bytes of UTF-8: this is within both.
"""
# None of these may end the enclosing HTML comment, mention a person, or refer to an issue.
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&@#"}

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Kept:
    """The outcome of keeping a comment or an issue.

    Attributes:
        action: `overtaken` if the pull request has moved on to another commit, whose job comments; `opened`
            also if an issue was opened again; `left closed` if a person closed it and nothing is new.
        url: its page; empty if there is none.
    """

    action: Literal[
        "created", "updated", "unchanged", "overtaken", "opened", "closed", "left closed", "nothing"
    ]
    url: str = ""


def write_marker(target: str, name: str | None = None, kind: str = "") -> str:
    """Return the marker of a comment or an issue for a target, the `--id` option, and a kind.

    Target and id consist of letters, digits, `.`, `_` and `-`, which cannot end an HTML comment. The kind is
    empty for the plan of a pull request.
    """
    words = ["sms-campaign-runner", kind, f"target={target}", f"id={name}" if name else ""]
    return f"<!-- {' '.join(filter(None, words))} -->"


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def keep_comment(repository: Repository, number: int, marker: str, body: str, head: str = "") -> Kept:
    """Create or edit the comment with a marker, or leave it as it is.

    Only comments that this token made and that begin with the marker are edited.

    Args:
        repository: the repository.
        number: the pull request's or issue's.
        marker: its first line.
        body: Markdown that begins with the marker, of at most LONGEST_BODY units.
        head: the commit that it is about; empty if unknown or irrelevant.
    """
    if head and _find_head(repository, number) not in (None, head):
        return Kept("overtaken")
    login = repository.find_login()
    found = list_comments(repository, number)
    # The oldest: links lead to it.
    own = next((one for one in found if one.author == login and begins_with(one.body, marker)), None)
    if own is None:
        made = repository.ask("POST", f"issues/{number}/comments", {"body": body})
        return Kept("created", _read_comment(made).url)
    if is_same_body(own.body, body):
        return Kept("unchanged", own.url)
    repository.ask("PATCH", f"issues/comments/{own.id}", {"body": body})
    return Kept("updated", own.url)


def _find_head(repository: Repository, number: int) -> str | None:
    """Return a pull request's head commit; None for an issue, or if the token lacks the right."""
    try:
        head = look_up(repository.ask("GET", f"pulls/{number}"), "head", "sha")
    except RefusedError:
        return None
    return head if isinstance(head, str) else None


def write_hidden(kind: str, data: Mapping[str, Any]) -> str:
    """Return data in a line that is not shown, for the place right below a marker."""
    text = json.dumps(data, separators=(",", ":"), sort_keys=True)
    return f"<!-- {kind} {text.translate(_ESCAPED)} -->"


def read_hidden(kind: str, body: str) -> dict[str, Any] | None:
    """Return the data of a kind that is hidden in a body; None if it has none that can be read.

    Only the second line counts: the text below comes from files.
    """
    lines = body.lstrip().split("\n", 2)
    found = re.fullmatch(rf"<!-- {kind} (\{{.*\}}) -->", lines[1].strip()) if len(lines) > 1 else None
    try:
        data: dict[str, Any] | None = json.loads(found[1]) if found else None
    except (ValueError, RecursionError):
        return None
    return data


Count = Annotated[int, msgspec.Meta(ge=0)]
"""A number in hidden data."""


def convert(data: Any, kind: type[_Result]) -> _Result | None:
    """Return hidden data as a type with annotations; None if it does not fit."""
    try:
        return msgspec.convert(data, kind)
    except (msgspec.ValidationError, RecursionError):
        return None


def begins_with(body: str, marker: str) -> bool:
    """Return whether the first line of a body is a marker."""
    return _normalize(body).split("\n", 1)[0] == marker


def is_same_body(one: str, other: str) -> bool:
    """Return whether two bodies are the same; GitHub may change line breaks and trailing blanks."""
    return _normalize(one) == _normalize(other)


def _normalize(body: str) -> str:
    return body.replace("\r\n", "\n").strip()
