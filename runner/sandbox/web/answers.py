"""Error documents: what the service answers when it doesn't do what it was asked (section 7 shows none)."""

from __future__ import annotations

import sqlite3
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from runner.sandbox.errors import RefusalError
from runner.sandbox.trouble import find_trouble

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.requests import Request

    Handler = Callable[[Request, Exception], Awaitable[Response]]


_RETRY_S = "1"


def answer_error(status: int, code: str, message: str, problems: Sequence[str] = ()) -> Response:
    """Write an error document.

    Args:
        status: the HTTP status.
        code: a stable slug for programs.
        message: one sentence for people.
        problems: every single problem, where there are several.
    """
    document: dict[str, Any] = {"error": {"code": code, "message": message, "problems": list(problems)}}
    return JSONResponse(document, status_code=status)


async def _answer_refusal(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RefusalError):
        raise error
    answer = answer_error(error.status, error.code, error.message, error.problems)
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        answer.headers["Retry-After"] = _RETRY_S
    return answer


async def _answer_http_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = error.detail.lower().replace(" ", "_")
    answer = answer_error(error.status_code, code, f"{error.detail}.")
    answer.headers.update(error.headers or {})
    return answer


async def _answer_database_error(request: Request, error: Exception) -> Response:
    """Answer 503 when the database cannot be used just now: nothing was stored."""
    trouble = find_trouble(error)
    if trouble is None:
        raise error
    message = f"The database {trouble.words}; nothing was stored."
    return await _answer_refusal(request, RefusalError(503, trouble.code, message))


async def _answer_fault(_request: Request, _error: Exception) -> Response:
    # The exception may hold a phone or a text: it is not shown.
    return answer_error(500, "internal_error", "The service failed; this is a fault of the sandbox.")


ERROR_HANDLERS: Mapping[type[Exception], Handler] = {
    RefusalError: _answer_refusal,
    HTTPException: _answer_http_error,
    sqlite3.OperationalError: _answer_database_error,
    Exception: _answer_fault,
}
"""What answers which exception; Starlette looks for the nearest class."""
