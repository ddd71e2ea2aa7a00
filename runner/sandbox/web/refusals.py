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

from runner.sandbox.sandbox_errors import RefusalError, SandboxError, find_trouble

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Handler = Callable[[Request, Any], Awaitable[Response]]

_RETRY_S = "1"
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


def answer_error(status: int, code: str, message: str, problems: Sequence[str] = ()) -> Response:
    """Return an error document: `code` is a slug for programs, `message` one sentence for people."""
    document: dict[str, Any] = {"error": {"code": code, "message": message, "problems": list(problems)}}
    return JSONResponse(document, status_code=status)


async def _answer_refusal(_request: Request, error: RefusalError) -> Response:
    answer = answer_error(error.status, error.code, error.message, error.problems)
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        answer.headers["Retry-After"] = _RETRY_S
    return answer


async def _answer_mistake(request: Request, error: SandboxError) -> Response:
    """Answer 400 for a mistake of the sandbox's user."""
    message = str(error)
    sentence = f"{message[:1].upper()}{message[1:]}" + ("" if message.endswith("?") else ".")
    return await _answer_refusal(request, RefusalError(400, "impossible", sentence))


async def _answer_http_error(_request: Request, error: HTTPException) -> Response:
    code = error.detail.lower().replace(" ", "_")
    answer = answer_error(error.status_code, code, f"{error.detail}.")
    answer.headers.update(error.headers or {})
    return answer


async def _answer_database_error(request: Request, error: sqlite3.OperationalError) -> Response:
    """Answer 503 when the database cannot be used: nothing was stored."""
    trouble = find_trouble(error)
    if trouble is None:
        raise error
    message = f"The database {trouble.words}; nothing was stored."
    return await _answer_refusal(request, RefusalError(503, trouble.code, message))


async def _answer_fault(_request: Request, _error: Exception) -> Response:
    # The exception may contain a phone or a text, so it is not shown.
    return answer_error(500, "internal_error", "The service failed; this is a fault of the sandbox.")


ERROR_HANDLERS: Mapping[type[Exception], Handler] = {
    RefusalError: _answer_refusal,
    SandboxError: _answer_mistake,
    HTTPException: _answer_http_error,
    sqlite3.OperationalError: _answer_database_error,
    Exception: _answer_fault,
}
"""Handlers by exception; Starlette looks for the nearest class."""
