"""Keeps one issue of a repository: opened when something is wrong, edited in place, closed when all is well.

https://docs.github.com/rest/issues/issues
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from runner.forge.comment import begins_with, is_same_body, keep_comment
from runner.forge.connection import UnavailableError, look_up
from runner.forge.discussion import Discussion
from runner.forge.repository import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from runner.forge.repository import Repository

LABEL = "runner"
_STATE = re.compile(r"<!-- state (\{.*\}) -->")
# Nothing of it may end the HTML comment that it stands in, mention a person, or refer to an issue.
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&@#"}
_CHANGE = "change"
"""The number of the last change that was told in a comment, in the state."""

Action = Literal["opened", "updated", "unchanged", "closed", "duplicate", "left closed", "nothing"]


@dataclass(frozen=True, slots=True)
class Report:
    """What an issue is to say.

    Attributes:
        title: one line.
        text: Markdown, below the marker and the state.
        state: what the next report has to know of this one; JSON.
        is_trouble: whether anything is wrong.
        news: the comment if it is worse than it was, or of another kind; empty if not.
        farewell: the comment with which the issue is closed.
    """

    title: str
    text: str
    state: Mapping[str, Any]
    is_trouble: bool
    news: str
    farewell: str


@dataclass(frozen=True, slots=True)
class KeptIssue:
    """What became of the issue.

    Attributes:
        action: `duplicate` if another job opened one at the same time, which stays; `left closed` if somebody
            has closed it, and it is no worse than it was then.
        url: the issue's page; empty if there is none.
        refusal: why there is no comment on what is new; None if nothing was refused.
    """

    action: Action
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
    """Keeps the issue with one marker.

    Only an issue that this token made and that begins with the marker is touched: who else writes it into an
    issue keeps theirs. Open ones are looked for among all: a token without push access sets no labels.

    Args:
        repository: where it stands.
        marker: its first line.
        compose: returns what is to be said, given what the last report left to know.
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
            RefusedError: the token has no right to.
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
        """Write a comment, once, however often it is tried; return the refusal where the issue is locked."""
        marker = f"<!-- {name} -->"
        try:
            keep_comment(Discussion(self._repository, issue.number), marker, f"{marker}\n{text}")
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
        state = json.dumps({**report.state, _CHANGE: change}, sort_keys=True, separators=(",", ":"))
        return f"{self._marker}\n<!-- state {state.translate(_ESCAPED)} -->\n{report.text}"

    def _list_own(self, query: str) -> Iterator[_Issue]:
        login = self._repository.find_login()
        for data in self._repository.list_all(f"issues?{query}"):
            # A pull request is listed as an issue, too.
            is_own = look_up(data, "user", "login") == login and look_up(data, "pull_request") is None
            if is_own and begins_with(str(look_up(data, "body") or ""), self._marker):
                yield self._read(data)

    def _read(self, data: Any) -> _Issue:
        number, body = look_up(data, "number"), str(look_up(data, "body") or "")
        if not isinstance(number, int):
            raise UnavailableError("its answer cannot be read")
        title, url = str(look_up(data, "title") or ""), str(look_up(data, "html_url") or "")
        return _Issue(number, title, body, url, _read_state(body))


def _read_state(body: str) -> Mapping[str, Any]:
    """Return what stands in the second line of a body; nothing if somebody has edited it."""
    lines = body.lstrip().split("\n", 2)
    found = _STATE.fullmatch(lines[1].strip()) if len(lines) > 1 else None
    try:
        state = json.loads(found[1]) if found else {}
    except (ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def _count_changes(issue: _Issue) -> int:
    change = issue.state.get(_CHANGE)
    return change if type(change) is int and change >= 0 else 0
