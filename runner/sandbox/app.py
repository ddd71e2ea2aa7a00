"""The service on the wire (sections 4 and 5): routes, credentials, envelopes and error documents."""

from __future__ import annotations

import hmac
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner.sandbox.commits import CommitGroup
from runner.sandbox.definition import read_send
from runner.sandbox.errors import RefusalError
from runner.sandbox.listing import RESULT_FILTERS, STAT_FILTERS, Listing, Page
from runner.sandbox.paging import ListQuery, make_meta, read_list_query
from runner.sandbox.records import RESULT_FIELDS, STAT_FIELDS, Record, write_csv
from runner.sandbox.service import Service

if TYPE_CHECKING:
    from datetime import datetime

    from runner.sandbox.model import Plan
    from runner.sandbox.store import Store

MAX_BODY_BYTES = 16 * 1024 * 1024

Endpoint = Callable[[Request], Awaitable[Response]]


class Api:
    """The five endpoints of the reference.

    They call the store on the event loop: a statement takes some microseconds, a change of threads more, and
    the writes of one process come one after the other by themselves.

    Args:
        store: the service's state.
        username: the one account's name.
        api_key: its secret.
        plan: the render allowance.
        clock: gives the present moment, with its time zone.
    """

    def __init__(
        self, store: Store, *, username: str, api_key: str, plan: Plan, clock: Callable[[], datetime]
    ) -> None:
        self._commits = CommitGroup(store)
        self._service = Service(store, plan=plan)
        self._listing = Listing(store, plan=plan)
        self._credentials = (("username", username.encode()), ("api_key", api_key.encode()))
        self._clock = clock

    def routes(self) -> list[Route]:
        """Give the routes, each with and without a slash at its end: clients of this API write both."""
        endpoints: list[tuple[str, str, Endpoint]] = [
            ("POST", "/api/send", self.send),
            ("GET", "/api/results", self.list_results),
            ("GET", "/api/results/{guid}", self.show_result),
            ("GET", "/api/stats", self.list_stats),
            ("GET", "/api/stats/{guid}", self.show_stat),
        ]
        return [
            Route(path + ending, self._guard(endpoint), methods=[method])
            for method, path, endpoint in endpoints
            for ending in ("", "/")
        ]

    async def send(self, request: Request) -> Response:
        """Launch a project (section 4.1)."""
        sent = read_send(await _read_body(request))
        now = self._clock()
        guid = await self._commits.write(lambda: self._service.send(sent.definition, sent.phones, now))
        here = _find_origin(request)
        return JSONResponse(
            {
                "project_launch_guid": guid,
                "stats_url": f"{here}/api/stats/{guid}/",
                "results_url": f"{here}/api/results?project_launch_guid={guid}",
            }
        )

    async def list_results(self, request: Request) -> Response:
        """List results (section 4.2)."""
        query = read_list_query(request.query_params, RESULT_FILTERS)
        page = self._listing.list_results(query.filters, query.limit, query.offset)
        return _answer_list(request, query, page, RESULT_FIELDS, {})

    async def show_result(self, request: Request) -> Response:
        """Give a single result (section 4.3)."""
        return _answer_record(self._listing.find_result(request.path_params["guid"]), "result")

    async def list_stats(self, request: Request) -> Response:
        """List launches, with the plan's usage and the totals (section 4.4)."""
        query = read_list_query(request.query_params, STAT_FILTERS)
        page, usage = self._listing.list_stats(query.filters, query.limit, query.offset)
        return _answer_list(request, query, page, STAT_FIELDS, usage)

    async def show_stat(self, request: Request) -> Response:
        """Give a single stat (section 4.5)."""
        return _answer_record(self._listing.find_stat(request.path_params["guid"]), "project launch")

    def _guard(self, endpoint: Endpoint) -> Endpoint:
        """Let only requests with the right credentials through to the endpoint (section 5)."""

        async def check_and_call(request: Request) -> Response:
            given = request.query_params
            # All are compared, and in constant time, so that the time taken tells nothing.
            matches = [
                hmac.compare_digest(given.get(name, "").encode(errors="replace"), expected)
                for name, expected in self._credentials
            ]
            if not all(matches):
                raise RefusalError(
                    401, "invalid_credentials", "The username or the api_key is missing or wrong."
                )
            return await endpoint(request)

        return check_and_call


def make_app(
    store: Store, *, username: str, api_key: str, plan: Plan, clock: Callable[[], datetime]
) -> Starlette:
    """Put the service together as an ASGI application; the parameters are those of `Api`."""
    api = Api(store, username=username, api_key=api_key, plan=plan, clock=clock)
    app = Starlette(
        routes=api.routes(),
        exception_handlers={
            RefusalError: _answer_refusal,
            HTTPException: _answer_http_error,
            sqlite3.OperationalError: _answer_busy,
            Exception: _answer_fault,
        },
    )
    app.router.redirect_slashes = False
    return app


def _find_origin(request: Request) -> str:
    """Give the address at which the client found this service."""
    host = request.headers.get("host")
    # Without the header, which HTTP/1.0 allows, the address is put together from the socket's.
    return (
        f"{request.url.scheme}://{request.url.netloc}"
        if host is None
        else f"{request.scope['scheme']}://{host}"
    )


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise RefusalError(413, "body_too_large", f"The body is larger than {MAX_BODY_BYTES} bytes.")
    return bytes(body)


def _answer_list(
    request: Request, query: ListQuery, page: Page, fields: Sequence[str], additions: Record
) -> Response:
    if query.is_csv:
        return Response(write_csv(fields, page.records), media_type="text/csv")
    meta = make_meta(request.url.path, request.query_params.multi_items(), query, page.total_count)
    return JSONResponse({"meta": {**meta, **additions}, "objects": page.records})


def _answer_record(record: Record | None, noun: str) -> Response:
    if record is None:
        raise RefusalError(404, "not_found", f"There is no {noun} with this guid.")
    return JSONResponse(record)


def _answer_error(status: int, code: str, message: str, problems: Sequence[str] = ()) -> Response:
    """Write an error document (section 7 shows none: our own decision)."""
    document: dict[str, Any] = {"error": {"code": code, "message": message, "problems": list(problems)}}
    return JSONResponse(document, status_code=status)


async def _answer_refusal(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RefusalError):
        raise error
    return _answer_error(error.status, error.code, error.message, error.problems)


async def _answer_http_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = error.detail.lower().replace(" ", "_")
    answer = _answer_error(error.status_code, code, f"{error.detail}.")
    answer.headers.update(error.headers or {})
    return answer


async def _answer_busy(_request: Request, error: Exception) -> Response:
    """Answer 503 when another process holds the database for too long: nothing was stored."""
    if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_BUSY:
        raise error
    answer = _answer_error(503, "busy", "The database is locked by another process; nothing was stored.")
    answer.headers["Retry-After"] = "1"
    return answer


async def _answer_fault(_request: Request, _error: Exception) -> Response:
    # The exception may hold a phone or a text: it is not shown.
    return _answer_error(500, "internal_error", "The service failed; this is a fault of the sandbox.")
