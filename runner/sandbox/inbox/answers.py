"""Answers of the inbox: pages, also where something went wrong, with the headers that bind a browser."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, RedirectResponse

from runner.sandbox.errors import RefusalError
from runner.sandbox.inbox.pages import render_page
from runner.sandbox.trouble import find_trouble

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from runner.sandbox.trouble import Trouble
    from runner.sandbox.web.credentials import Endpoint

HEADERS = {
    # Nothing from elsewhere, nothing written into the page, and no page around it.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_RETRY_S = 2


def answer_html(page: str, status: int = HTTPStatus.OK) -> Response:
    """Answer with a page, which nobody keeps."""
    return HTMLResponse(page, status_code=status, headers={**HEADERS, "Cache-Control": "no-store"})


def redirect(path: str) -> Response:
    """Send the browser to another page of the inbox, with GET."""
    return RedirectResponse(path, status_code=HTTPStatus.SEE_OTHER, headers=HEADERS)


def explained(endpoint: Endpoint) -> Endpoint:
    """Answer what an endpoint refuses, and what fails in it, with a page for people.

    A refusal keeps its status and its words; a database that cannot be used just now is a 503;
    anything else is a 500 without details, since they may hold a phone or a text.
    """

    async def call(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RefusalError as refusal:
            return _answer_problem(refusal.status, "That was not done", refusal.message)
        except Exception as error:  # noqa: BLE001  whatever it is, who reads a page is not shown JSON
            trouble = find_trouble(error)
            return _answer_failure() if trouble is None else _answer_trouble(trouble)

    return call


def _answer_trouble(trouble: Trouble) -> Response:
    message = f"Its database {trouble.words}: {trouble.advice}. Nothing was stored."
    answer = _answer_problem(HTTPStatus.SERVICE_UNAVAILABLE, "The sandbox cannot do that now", message)
    answer.headers["Retry-After"] = str(_RETRY_S)
    return answer


def _answer_failure() -> Response:
    message = "This is a fault of the sandbox, and not of what you did."
    return _answer_problem(HTTPStatus.INTERNAL_SERVER_ERROR, "The sandbox failed", message)


def _answer_problem(status: int, title: str, message: str) -> Response:
    return answer_html(render_page("problem", title=title, message=message), status)
