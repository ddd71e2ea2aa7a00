"""Comments on a pull request or an issue, and an issue of ours, that are kept up to date.

Each is found by a hidden marker and edited in place (https://docs.github.com/rest/issues/comments,
https://docs.github.com/rest/issues/issues).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from runner.github.rest import RefusedError, UnavailableError, look_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
    """Yield all comments on a pull request or issue, the oldest first; both share one series of numbers.

    Raises:
        RefusedError: they cannot be read.
        UnavailableError: they cannot be read now.
    """
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
TRIES = 4
_FIRST_PAUSE_S = 2.0
_LONGEST_PAUSE_S = 60.0

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Kept:
    """The outcome of keeping the comment.

    Attributes:
        action: `overtaken` if the pull request has moved on to another commit, whose job comments.
        url: the comment's page; empty if there is none.
        removed: number of deleted duplicates.
    """

    action: Literal["created", "updated", "unchanged", "overtaken"]
    url: str = ""
    removed: int = 0


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

    Raises:
        RefusedError: the token lacks the right.
        UnavailableError: the forge cannot be asked; a comment may have been written all the same.
    """
    if head and _find_head(repository, number) not in (None, head):
        return Kept("overtaken")
    login = repository.find_login()
    found = list_comments(repository, number)
    own = [one for one in found if one.author == login and begins_with(one.body, marker)]
    if not own:
        made = repository.ask("POST", f"issues/{number}/comments", {"body": body})
        return Kept("created", _read_comment(made.data).url)
    # The oldest stays: links lead to it.
    first, *others = sorted(own, key=lambda comment: comment.id)
    for comment in others:
        repository.ask("DELETE", f"issues/comments/{comment.id}")
    if is_same_body(first.body, body):
        return Kept("unchanged", first.url, len(others))
    edited = repository.ask("PATCH", f"issues/comments/{first.id}", {"body": body})
    return Kept("updated", _read_comment(edited.data).url, len(others))


def _find_head(repository: Repository, number: int) -> str | None:
    """Return a pull request's head commit; None for an issue, or if the token lacks the right."""
    try:
        head = look_up(repository.ask("GET", f"pulls/{number}").data, "head", "sha")
    except RefusedError:
        return None
    return head if isinstance(head, str) else None


def keep_trying(work: Callable[[], _Result], pause: Callable[[float], None]) -> _Result:
    """Return the result of work on a forge, repeated some times while the forge is unavailable.

    Each try has to look anew: an unanswered request may have been carried out. `pause` waits for some
    seconds.

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


def begins_with(body: str, marker: str) -> bool:
    """Return whether the first line of a body is a marker."""
    return _normalize(body).split("\n", 1)[0] == marker


def is_same_body(one: str, other: str) -> bool:
    """Return whether two bodies are the same; a forge may change line breaks and trailing blanks."""
    return _normalize(one) == _normalize(other)


def _normalize(body: str) -> str:
    return body.replace("\r\n", "\n").strip()


LABEL = "runner"
_STATE = "state"
_CHANGE = "change"
"""The state's key for the number of the last change that a comment reported."""


@dataclass(frozen=True, slots=True)
class Report:
    """The content of an issue.

    Attributes:
        title: one line.
        text: Markdown, below the marker and the state.
        state: JSON for the next report.
        is_trouble: whether anything is wrong.
        news: the comment on a worse or different trouble; empty if there is none.
        farewell: the comment that closes the issue.
    """

    title: str
    text: str
    state: Mapping[str, Any]
    is_trouble: bool
    news: str
    farewell: str


@dataclass(frozen=True, slots=True)
class KeptIssue:
    """The outcome of keeping an issue.

    Attributes:
        action: `duplicate` if another job opened one at the same time, which stays; `left closed` if somebody
            closed it and it has not become worse.
        url: the issue's page; empty if there is none.
        refusal: the reason for a missing comment; None if nothing was refused.
    """

    action: Literal["opened", "updated", "unchanged", "closed", "duplicate", "left closed", "nothing"]
    url: str = ""
    refusal: RefusedError | None = None


@dataclass(frozen=True, slots=True)
class _Issue:
    number: int
    title: str
    body: str
    url: str
    state: Mapping[str, Any]


class IssueKeeper:
    """A keeper of the issue with one marker.

    Only issues that this token made and that begin with the marker are touched. All open issues are searched,
    since a token without push access sets no labels.

    Args:
        repository: the issue's.
        marker: its first line.
        compose: returns the report, given the state of the last one.
    """

    def __init__(
        self, repository: Repository, marker: str, compose: Callable[[Mapping[str, Any]], Report]
    ) -> None:
        self._repository = repository
        self._marker = marker
        self._compose = compose

    def keep(self) -> KeptIssue:
        """Open, edit or close the issue, or leave it as it is.

        Raises:
            RefusedError: the token lacks the right.
            UnavailableError: the forge cannot be asked; a part may have been done.
        """
        first = self._find_open()
        if first is not None:
            report = self._compose(first.state)
            return self._update(first, report) if report.is_trouble else self._close(first, report)
        last = next(self._list_own(f"state=closed&labels={LABEL}&sort=created&direction=desc"), None)
        report = self._compose({} if last is None else last.state)
        if report.is_trouble and report.news:
            return self._open(report)
        if last is not None and {**report.state, _CHANGE: 0} != {**last.state, _CHANGE: 0}:
            # Somebody has closed it while something was wrong.
            self._edit(last, report, _count_changes(last))
        return (
            KeptIssue("left closed", last.url if last else "") if report.is_trouble else KeptIssue("nothing")
        )

    def _find_open(self) -> _Issue | None:
        """Return the oldest open issue, and close the others: two jobs may have opened one at once."""
        own = list(self._list_own("state=open&sort=created&direction=asc"))
        for other in own[1:]:
            self._close_duplicate(other, own[0])
        return own[0] if own else None

    def _open(self, report: Report) -> KeptIssue:
        body = {"title": report.title, "body": self._write(report, 0), "labels": [LABEL]}
        made = self._read(self._repository.ask("POST", "issues", body).data)
        first = self._find_open()
        if first is not None and first.number < made.number:
            return KeptIssue("duplicate", first.url)
        return KeptIssue("opened", made.url)

    def _update(self, issue: _Issue, report: Report) -> KeptIssue:
        change, refusal = _count_changes(issue), None
        if report.news:
            change += 1
            refusal = self._comment(issue, report.news, f"change={change}")
        is_edited = self._edit(issue, report, change)
        return KeptIssue("updated" if is_edited else "unchanged", issue.url, refusal)

    def _close(self, issue: _Issue, report: Report) -> KeptIssue:
        change = _count_changes(issue) + 1
        refusal = self._comment(issue, report.farewell, f"change={change}")
        closing = {"state": "closed", "state_reason": "completed"}
        self._edit(issue, report, change, **closing)
        return KeptIssue("closed", issue.url, refusal)

    def _close_duplicate(self, issue: _Issue, first: _Issue) -> None:
        self._comment(issue, f"Two jobs have opened an issue at once: #{first.number} goes on.", "duplicate")
        self._repository.ask(
            "PATCH", f"issues/{issue.number}", {"state": "closed", "state_reason": "not_planned"}
        )

    def _comment(self, issue: _Issue, text: str, name: str) -> RefusedError | None:
        """Write a comment once, over all tries; return the refusal if the issue is locked."""
        marker = f"<!-- {name} -->"
        try:
            keep_comment(self._repository, issue.number, marker, f"{marker}\n{text}")
        except RefusedError as error:
            return error
        return None

    def _edit(self, issue: _Issue, report: Report, change: int, **more: str) -> bool:
        body = self._write(report, change)
        if not more and issue.title == report.title and is_same_body(issue.body, body):
            return False
        changes = {"title": report.title, "body": body, **more}
        self._repository.ask("PATCH", f"issues/{issue.number}", changes)
        return True

    def _write(self, report: Report, change: int) -> str:
        state = write_hidden(_STATE, {**report.state, _CHANGE: change})
        return f"{self._marker}\n{state}\n{report.text}"

    def _list_own(self, query: str) -> Iterator[_Issue]:
        login = self._repository.find_login()
        for data in self._repository.list_all(f"issues?{query}"):
            # Pull requests are listed as issues, too.
            is_own = look_up(data, "user", "login") == login and look_up(data, "pull_request") is None
            if is_own and begins_with(str(look_up(data, "body") or ""), self._marker):
                yield self._read(data)

    def _read(self, data: Any) -> _Issue:
        number, body = look_up(data, "number"), str(look_up(data, "body") or "")
        if not isinstance(number, int):
            raise UnavailableError("its answer cannot be read")
        title, url = str(look_up(data, "title") or ""), str(look_up(data, "html_url") or "")
        # None if somebody has edited it.
        return _Issue(number, title, body, url, read_hidden(_STATE, body) or {})


def _count_changes(issue: _Issue) -> int:
    change = issue.state.get(_CHANGE)
    return change if type(change) is int and change >= 0 else 0
