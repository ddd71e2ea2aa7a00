"""The comments of one pull request (https://docs.github.com/rest/issues/comments)."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from runner.forge.connection import UnavailableError, look_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.forge.connection import ForgeAnswer, ForgeConnection

ACTIONS_BOT = "github-actions[bot]"
"""Whom comments made with a job's own token are by."""
_A_PAGE = 100
_AN_HOUR_S = 3600.0
"""The window of a rate limit that is used up."""


class RefusedError(Exception):
    """The forge understood and said no: without rights, or for a pull request that is not there.

    Attributes:
        status: the HTTP status.
        reason: in the forge's words.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of a pull request.

    Attributes:
        id: given in order.
        author: the login of who wrote it; of an app with `[bot]` behind it.
        body: Markdown.
        url: its page.
    """

    id: int
    author: str
    body: str
    url: str


class PullRequest:
    """One pull request.

    Args:
        connection: to the forge's API.
        repository: as in `owner/name`.
        number: of the pull request.
    """

    def __init__(self, connection: ForgeConnection, repository: str, number: int) -> None:
        self._connection = connection
        self._repository = f"/repos/{repository}"
        self._number = number

    def list_comments(self) -> Iterator[Comment]:
        """Yield all comments, the oldest first.

        Raises:
            RefusedError: they cannot be read.
            UnavailableError: not now.
        """
        url: str | None = f"{self._repository}/issues/{self._number}/comments?per_page={_A_PAGE}"
        while url is not None:
            answer = self._ask("GET", url)
            yield from map(_read_comment, _require_list(answer.data))
            url = answer.next_url

    def create_comment(self, body: str) -> Comment:
        """Write a comment.

        Raises:
            RefusedError: the token has no right to.
            UnavailableError: no answer came; the comment may be there all the same.
        """
        path = f"{self._repository}/issues/{self._number}/comments"
        return _read_comment(self._ask("POST", path, {"body": body}).data)

    def update_comment(self, comment: Comment, body: str) -> Comment:
        """Replace the body of a comment.

        Raises:
            RefusedError: the token has no right to.
            UnavailableError: no answer came.
        """
        path = f"{self._repository}/issues/comments/{comment.id}"
        return _read_comment(self._ask("PATCH", path, {"body": body}).data)

    def delete_comment(self, comment: Comment) -> None:
        """Delete a comment.

        Raises:
            RefusedError: the token has no right to.
            UnavailableError: no answer came.
        """
        self._ask("DELETE", f"{self._repository}/issues/comments/{comment.id}")

    def find_login(self) -> str:
        """Return whose comments the token makes.

        REST tells it to people alone; GraphQL tells apps as well. Where neither is told, it is a job's own
        token.

        Raises:
            UnavailableError: no answer came.
        """
        answer = self._connection.ask("POST", self._graphql_path(), {"query": "query { viewer { login } }"})
        _require_available(answer)
        login = look_up(answer.data, "data", "viewer", "login")
        return login if isinstance(login, str) else ACTIONS_BOT

    def find_head(self) -> str | None:
        """Return the commit that the pull request is at; None if the token may not know.

        Raises:
            UnavailableError: no answer came.
        """
        try:
            head = look_up(self._ask("GET", f"{self._repository}/pulls/{self._number}").data, "head", "sha")
        except RefusedError:
            return None
        return head if isinstance(head, str) else None

    def _graphql_path(self) -> str:
        # A GitHub Enterprise Server has it beside the REST API: https://HOST/api/v3, https://HOST/api/graphql.
        base = self._connection.base_url
        return f"{base.removesuffix('/v3')}/graphql"

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> ForgeAnswer:
        answer = self._connection.ask(method, path, body)
        _require_available(answer)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            reason = look_up(answer.data, "message")
            raise RefusedError(answer.status, reason if isinstance(reason, str) else "no reason given")
        return answer


def _require_available(answer: ForgeAnswer) -> None:
    """Raise if the answer is a fault of the forge, or a rate limit.

    A limit is a 403 or 429, with `retry-after`, or with `x-ratelimit-remaining: 0`, or with its name in the
    message (https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api).
    """
    status, headers = answer.status, answer.headers
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnavailableError(f"it answered {status}", _read_number(headers.get("retry-after")))
    message = str(look_up(answer.data, "message") or "").lower()
    is_used_up = headers.get("x-ratelimit-remaining") == "0"
    is_limit = status == HTTPStatus.TOO_MANY_REQUESTS or (
        status == HTTPStatus.FORBIDDEN and (is_used_up or "retry-after" in headers or "rate limit" in message)
    )
    if is_limit:
        wait_s = _read_number(headers.get("retry-after"))
        raise UnavailableError("its rate limit is reached", _AN_HOUR_S if is_used_up else wait_s)


def _read_comment(data: Any) -> Comment:
    number, body = look_up(data, "id"), look_up(data, "body")
    if not isinstance(number, int):
        raise UnavailableError("its answer cannot be read")
    author, url = look_up(data, "user", "login"), look_up(data, "html_url")
    return Comment(number, str(author or ""), str(body or ""), str(url or ""))


def _require_list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise UnavailableError("its answer cannot be read")
    return data


def _read_number(written: str | None) -> float | None:
    return float(written) if written is not None and written.isascii() and written.isdecimal() else None
