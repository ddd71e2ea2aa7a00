"""One issue for each marker: opened, edited, closed and reopened (https://docs.github.com/rest/issues/issues).

What asks GitHub raises the errors of `Repository.ask`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from runner.github.comments import Kept, begins_with, is_same_body, keep_comment, read_hidden, write_hidden
from runner.github.rest import RefusedError, UnavailableError, look_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from runner.github.rest import Repository

LABEL = "runner"
_STATE = "state"
_CHANGE = "change"
"""The state's key for the number of the last comment on the issue."""


@dataclass(frozen=True, slots=True)
class Report:
    """The content of an issue.

    Attributes:
        title: one line.
        text: Markdown, below the marker and the state.
        state: JSON for the next report.
        is_open: whether something is left to do.
        news: the comment on what is new, or on the end of it all; empty if nothing is.
    """

    title: str
    text: str
    state: Mapping[str, Any]
    is_open: bool
    news: str


@dataclass(frozen=True, slots=True)
class _Issue:
    number: int
    title: str
    body: str
    url: str
    state: Mapping[str, Any]
    is_open: bool

    @property
    def change(self) -> int:
        change = self.state.get(_CHANGE)
        return change if type(change) is int and change >= 0 else 0


def keep_issue(repository: Repository, marker: str, compose: Callable[[Mapping[str, Any]], Report]) -> Kept:
    """Open, edit, close or reopen the issue with a marker, or leave it as it is.

    Only issues that this token made and that begin with the marker are touched.

    Args:
        repository: the issue's.
        marker: its first line.
        compose: returns the report, given the state of the last one.
    """
    own = next(_list_own(repository, marker), None)
    if own is not None:
        return _update(repository, marker, own, compose(own.state))
    report = compose({})
    if not report.is_open:
        return Kept("nothing")
    body = {"title": report.title, "body": _write(marker, report, 0), "labels": [LABEL]}
    return Kept("opened", _read(repository.ask("POST", "issues", body)).url)


def _update(repository: Repository, marker: str, issue: _Issue, report: Report) -> Kept:
    # A person who closed it has read it: it is opened again for what is new.
    is_open = report.is_open and (issue.is_open or bool(report.news))
    change = issue.change
    if report.news and (is_open or issue.is_open):
        change += 1
        name = f"<!-- change={change} -->"
        # A locked issue takes none.
        with suppress(RefusedError):
            keep_comment(repository, issue.number, name, f"{name}\n{report.news}")
    body = _write(marker, report, change)
    is_new = issue.title != report.title or not is_same_body(issue.body, body)
    if is_open != issue.is_open:
        state = {"state": "open"} if is_open else {"state": "closed", "state_reason": "completed"}
        _edit(repository, issue, title=report.title, body=body, **state)
        return Kept("opened" if is_open else "closed", issue.url)
    if not is_open and {**report.state, _CHANGE: change} == issue.state:
        is_new = False
    if is_new:
        _edit(repository, issue, title=report.title, body=body)
    if is_open:
        return Kept("updated" if is_new else "unchanged", issue.url)
    return Kept("left closed", issue.url) if report.is_open else Kept("nothing")


def _edit(repository: Repository, issue: _Issue, **changes: str) -> None:
    repository.ask("PATCH", f"issues/{issue.number}", changes)


def _write(marker: str, report: Report, change: int) -> str:
    return f"{marker}\n{write_hidden(_STATE, {**report.state, _CHANGE: change})}\n{report.text}"


def _list_own(repository: Repository, marker: str) -> Iterator[_Issue]:
    """Yield the issues of this token with a marker, the oldest first."""
    login = repository.find_login()
    path = f"issues?state=all&creator={quote(login)}&sort=created&direction=asc"
    for data in repository.list_all(path):
        # Pull requests are listed as issues, too.
        is_own = look_up(data, "user", "login") == login and look_up(data, "pull_request") is None
        if is_own and begins_with(str(look_up(data, "body") or ""), marker):
            yield _read(data)


def _read(data: Any) -> _Issue:
    number, body = look_up(data, "number"), str(look_up(data, "body") or "")
    if not isinstance(number, int):
        raise UnavailableError("its answer cannot be read")
    title, url = str(look_up(data, "title") or ""), str(look_up(data, "html_url") or "")
    # None if somebody has edited it.
    state = read_hidden(_STATE, body) or {}
    return _Issue(number, title, body, url, state, look_up(data, "state") == "open")
