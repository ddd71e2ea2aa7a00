"""Refusals: wrong credentials, too long bodies, and error documents of our own."""

from __future__ import annotations

import hmac
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from runner.sandbox.rehearsal.controls import read_values
from runner.sandbox.sandbox_errors import RefusalError, SandboxError, find_trouble

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.sandbox.rehearsal.controls import Wanted

    Handler = Callable[[Request, Any], Awaitable[Response]]

_RETRY_S = "1"
_CREDENTIALS = {"username", "api_key"}
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Account:
    """The service's one account; the api_key is kept out of the repr."""

    username: str
    api_key: str = field(repr=False)

    def check(self, query: Mapping[str, str]) -> None:
        """Compare the query parameters `username` and `api_key` with the account.

        Raises:
            RefusalError: 401; the message doesn't say which is wrong.
        """
        # All are compared, in constant time, so that the duration reveals nothing.
        is_user = _is_same(query.get("username", ""), self.username)
        is_key = _is_same(query.get("api_key", ""), self.api_key)
        if not (is_user and is_key):
            raise RefusalError(401, "invalid_credentials", "The username or the api_key is missing or wrong.")

    def guard(self, endpoint: Endpoint) -> Endpoint:
        """Require the right credentials for an endpoint."""

        async def check_and_call(request: Request) -> Response:
            self.check(request.query_params)
            return await endpoint(request)

        return check_and_call


def _is_same(given: str, expected: str) -> bool:
    # `replace`: escapes of a query may be invalid text, which is no credential.
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode(errors="replace"))


async def read_body(request: Request, most: int, message: str = "") -> bytes:
    """Return a request's body of at most `most` bytes.

    Raises:
        RefusalError: 413 with `message`; it is larger.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise RefusalError(413, "body_too_large", message or f"The body is larger than {most} bytes.")
    return bytes(body)


def read_query(request: Request, wanted: type[Wanted]) -> Wanted:
    """Return a request's parameters but the credentials; empty ones count as left out.

    Raises:
        RefusalError: 400, with what is wrong.
    """
    given = request.query_params.items()
    return read_values({name: value for name, value in given if value and name not in _CREDENTIALS}, wanted)


def answer_error(status: int, code: str, message: str, problems: Sequence[str] = ()) -> Response:
    """Return an error document: `code` is a slug for programs, `message` one sentence for people."""
    document: dict[str, Any] = {"error": {"code": code, "message": message, "problems": list(problems)}}
    return JSONResponse(document, status_code=status)


def explain(error: Exception) -> RefusalError:
    """Return what is said of an error: a refusal, a user's mistake, the database's trouble, or our fault.

    The exception of a fault may contain a phone or a text, so it is not shown.
    """
    if isinstance(error, RefusalError):
        return error
    if isinstance(error, SandboxError):
        message = str(error)
        sentence = f"{message[:1].upper()}{message[1:]}" + ("" if message.endswith("?") else ".")
        return RefusalError(400, "impossible", sentence)
    if (trouble := find_trouble(error)) is not None:
        message = f"The database {trouble.words}: {trouble.advice}. Nothing was stored."
        return RefusalError(503, trouble.code, message)
    return RefusalError(500, "internal_error", "The service failed; this is a fault of the sandbox.")


def add_retry(answer: Response) -> Response:
    """Add to an answer that the service is unavailable when to try again."""
    if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        answer.headers["Retry-After"] = _RETRY_S
    return answer


async def _answer(_request: Request, error: Exception) -> Response:
    refusal = explain(error)
    return add_retry(answer_error(refusal.status, refusal.code, refusal.message, refusal.problems))


async def _answer_http_error(_request: Request, error: HTTPException) -> Response:
    code = error.detail.lower().replace(" ", "_")
    answer = answer_error(error.status_code, code, f"{error.detail}.")
    answer.headers.update(error.headers or {})
    return answer


ERROR_HANDLERS: Mapping[type[Exception], Handler] = {
    **dict.fromkeys((RefusalError, SandboxError, sqlite3.OperationalError, Exception), _answer),
    HTTPException: _answer_http_error,
}
"""Handlers by exception; Starlette looks for the nearest class."""
