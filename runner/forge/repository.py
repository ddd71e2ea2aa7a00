"""One repository of a forge, as the requests to it see it (https://docs.github.com/rest)."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from runner.forge.connection import UnavailableError, look_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.forge.connection import ForgeAnswer, ForgeConnection

ACTIONS_BOT = "github-actions[bot]"
"""The author of what is written with a job's own token."""
_A_PAGE = 100
_AN_HOUR_S = 3600.0
"""The window of a rate limit that is used up."""
_SHA = re.compile(r"[0-9a-f]{7,64}")


class RefusedError(Exception):
    """The forge understood and said no: without rights, or for something that is not there.

    Attributes:
        status: the HTTP status.
        reason: in the forge's words.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason


class Repository:
    """One repository.

    Args:
        connection: to the forge's API.
        name: as in `owner/name`.
    """

    def __init__(self, connection: ForgeConnection, name: str) -> None:
        self._connection = connection
        self._place = f"/repos/{name}"
        self._login: str | None = None

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> ForgeAnswer:
        """Make one request and return an answer that is no failure.

        Args:
            method: as in `GET`.
            path: below the repository, or a whole URL that the API gave.
            body: is sent as JSON.

        Raises:
            RefusedError: the token has no right to, or there is no such thing.
            UnavailableError: no answer came; what was asked for may be done all the same.
        """
        is_whole = path.startswith(("https://", "http://"))
        answer = self._connection.ask(method, path if is_whole else f"{self._place}/{path}", body)
        _require_available(answer)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            reason = look_up(answer.data, "message")
            raise RefusedError(answer.status, reason if isinstance(reason, str) else "no reason given")
        return answer

    def list_all(self, path: str) -> Iterator[Any]:
        """Yield the elements of a list, asking for its pages one by one.

        Raises:
            RefusedError: it cannot be read.
            UnavailableError: not now.
        """
        mark = "&" if "?" in path else "?"
        url: str | None = f"{path}{mark}per_page={_A_PAGE}"
        while url is not None:
            answer = self.ask("GET", url)
            if not isinstance(answer.data, list):
                raise UnavailableError("its answer cannot be read")
            yield from answer.data
            url = answer.next_url

    def find_login(self) -> str:
        """Return whose comments and issues the token makes.

        REST tells it to people alone; GraphQL tells apps as well. Where neither is told, it is a job's own
        token.

        Raises:
            UnavailableError: no answer came.
        """
        if self._login is None:
            query = {"query": "query { viewer { login } }"}
            answer = self._connection.ask("POST", self._graphql_path(), query)
            _require_available(answer)
            login = look_up(answer.data, "data", "viewer", "login")
            self._login = login if isinstance(login, str) else ACTIONS_BOT
        return self._login

    def _graphql_path(self) -> str:
        # A GitHub Enterprise Server has it beside the REST API: https://HOST/api/v3, https://HOST/api/graphql.
        base = self._connection.base_url
        return f"{base.removesuffix('/v3')}/graphql"


def read_sha(value: Any) -> str:
    """Return the name of a commit; empty if it is none."""
    return value if isinstance(value, str) and _SHA.fullmatch(value) else ""


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


def _read_number(written: str | None) -> float | None:
    return float(written) if written is not None and written.isascii() and written.isdecimal() else None
