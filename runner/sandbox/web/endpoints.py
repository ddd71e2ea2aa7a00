"""The five endpoints of the service: bodies, envelopes, records, CSV, and wire faults."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

from msgspec import Meta, Struct
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner.sandbox.clock import format_time
from runner.sandbox.definition import read_send
from runner.sandbox.records import (
    RESULT_FIELDS,
    RESULT_FILTERS,
    STAT_FIELDS,
    STAT_FILTERS,
    Record,
    RecordList,
    RecordPage,
    write_csv,
)
from runner.sandbox.rehearsal.faults import Fault, FaultPlace, Faults
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.web.refusals import answer_error, read_body, read_query

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from runner.sandbox.commits import Writer
    from runner.sandbox.web.refusals import Account, Endpoint

    ReadPage = Callable[[int, int], RecordPage]

_NOISE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is no HTTP\r\n"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # socket(7), SO_LINGER: on, for zero seconds
_ANSWERED = ("half", "slow")
"""Faults of the regular answer; the others have none, or an error document."""
_REFUSALS = {"429": (429, "too_many_requests"), "503": (503, "unavailable")}
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_LIMIT = 1000


class ListQuery(Struct):
    """The parameters of a list request; others are its filters, or change nothing."""

    limit: Annotated[int, Meta(ge=1, lt=10**15)] = 20
    offset: Annotated[int, Meta(ge=0, lt=10**15)] = 0
    format: Literal["json", "csv"] = "json"

    @property
    def size(self) -> int:
        """Records on the page."""
        return min(self.limit, MAX_LIMIT)


class FaultyAnswer(Response):
    """An answer with a fault; `answer` is the regular one of a request that takes effect."""

    def __init__(
        self, fault: Fault, answer: Response | None = None, *, slow_for: timedelta = timedelta()
    ) -> None:
        self._fault = fault
        self._slow_for = slow_for
        self._answer = answer if answer is not None and fault.name in _ANSWERED else _refuse(fault)
        super().__init__()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer according to the fault."""
        transport: asyncio.Transport = scope["state"]["transport"]
        match self._fault.name:
            case "drop" | "drop-list":
                pass
            case "half":
                answer, body = self._answer, bytes(self._answer.body)
                head = {"status": answer.status_code, "headers": answer.raw_headers}
                await send({"type": "http.response.start", **head})
                await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
            case "noise":
                transport.write(_NOISE)
            case "reset":
                _reset(transport)
            case name:
                if name == "slow":
                    await asyncio.sleep(self._slow_for.total_seconds())
                await self._answer(scope, receive, send)
                return
        # Waits until the connection is gone; otherwise the server would add an answer.
        transport.close()
        while (await receive())["type"] != "http.disconnect":
            pass


def _reset(transport: asyncio.Transport) -> None:
    own: socket.socket = transport.get_extra_info("socket")
    # A duplicate of the socket: the event loop's allows no options.
    with socket.fromfd(own.fileno(), own.family, own.type) as handle:
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def _refuse(fault: Fault) -> Response:
    status, code = _REFUSALS.get(fault.name, (500, "asked_for_fault"))
    answer = answer_error(status, code, f"A fault that was asked for: {fault.says}.")
    if fault.name in _REFUSALS:
        answer.headers["Retry-After"] = "1"
    return answer


def _count_recent(total: int, read_page: ReadPage, since: str) -> int:
    """Count the records at a list's end that were created after a moment, up to a page of them."""
    records = read_page(MAX_LIMIT, max(0, total - MAX_LIMIT)).records
    return sum(record.get("created", record.get("project_launch_start")) > since for record in records)


class Api:
    """The endpoints, reading the store on the event loop: a thread switch takes longer than a statement."""

    def __init__(self, writer: Writer, faults: Faults) -> None:
        self._writer = writer
        self._listing = RecordList(writer.service.store, plan=writer.service.plan)
        self._faults = faults

    def routes(self, account: Account) -> list[Route]:
        """Return the routes for an account, each with and without a final slash, since clients write both."""
        endpoints: list[tuple[str, str, Endpoint]] = [
            ("POST", "/api/send", self.send),
            ("GET", "/api/results", self.list_results),
            ("GET", "/api/results/{guid}", self.show_result),
            ("GET", "/api/stats", self.list_stats),
            ("GET", "/api/stats/{guid}", self.show_stat),
        ]
        return [
            Route(path + ending, account.guard(self._prepare(endpoint)), methods=[method])
            for method, path, endpoint in endpoints
            for ending in ("", "/")
        ]

    async def send(self, request: Request) -> Response:
        """Launch a project."""
        sent = read_send(await read_body(request, MAX_BODY_BYTES))
        fault = self._faults.decide(FaultPlace.SEND)
        if fault is not None and not fault.accepts:
            return FaultyAnswer(fault)
        guid = await self._writer.send(sent.definition, sent.phones)
        here = f"{request.url.scheme}://{request.url.netloc}"
        answer = JSONResponse(
            {
                "project_launch_guid": guid,
                "stats_url": f"{here}/api/stats/{guid}/",
                "results_url": f"{here}/api/results?project_launch_guid={guid}",
            }
        )
        return answer if fault is None else FaultyAnswer(fault, answer, slow_for=self._faults.slow_for)

    async def list_results(self, request: Request) -> Response:
        """List results."""
        return self._answer_list(request, RESULT_FILTERS, RESULT_FIELDS, self._listing.list_results)

    async def show_result(self, request: Request) -> Response:
        """Return a single result."""
        return _answer_record(self._listing.find_result(request.path_params["guid"]), "result")

    async def list_stats(self, request: Request) -> Response:
        """List launches, with the plan's usage and the totals."""
        return self._answer_list(request, STAT_FILTERS, STAT_FIELDS, self._listing.list_stats)

    async def show_stat(self, request: Request) -> Response:
        """Return a single stat."""
        return _answer_record(self._listing.find_stat(request.path_params["guid"]), "project launch")

    def _answer_list(
        self,
        request: Request,
        filters: Collection[str],
        fields: Sequence[str],
        read: Callable[[Mapping[str, str], int, int], RecordPage],
    ) -> Response:
        query, given = read_query(request, ListQuery), request.query_params
        page = self._disturb(query, partial(read, {name: given[name] for name in filters if given.get(name)}))
        if isinstance(page, Response):
            return page
        if query.format == "csv":
            return Response(write_csv(fields, page.records), media_type="text/csv")
        meta = _make_meta(request, query, page.total_count)
        return JSONResponse({"meta": {**meta, **page.additions}, "objects": page.records})

    def _prepare(self, endpoint: Endpoint) -> Endpoint:
        """Delay requests by the latency, and expire due sessions first."""

        async def prepare_and_call(request: Request) -> Response:
            if self._faults.latency:
                await asyncio.sleep(self._faults.latency.total_seconds())
            # A send does so in its own transaction.
            if request.method != "POST":
                await self._writer.expire_sessions()
            return await endpoint(request)

        return prepare_and_call

    def _disturb(self, query: ListQuery, read_page: ReadPage) -> RecordPage | Response:
        """Return the page, changed by a list's fault if one is drawn; `read_page` takes limit and offset."""
        page = read_page(query.size, query.offset)
        fault = self._faults.decide(FaultPlace.LIST)
        if fault is None:
            return page
        if fault.name == "late-list":
            since = format_time(self._writer.clock.now() - self._faults.late_by)
            visible = page.total_count - _count_recent(page.total_count, read_page, since)
            return replace(page, total_count=visible, records=page.records[: max(0, visible - query.offset)])
        if fault.name == "shuffle-list":
            # Newest first: all pages together still hold every record once, unless the fault comes and goes.
            size = len(page.records)
            mirrored = read_page(size, page.total_count - query.offset - size) if size else page
            return replace(page, records=mirrored.records[::-1])
        return FaultyAnswer(fault)


def _make_meta(request: Request, query: ListQuery, total_count: int) -> dict[str, Any]:
    """Return `meta`: `next` is "" on the last page, `previous` is None on the first.

    Otherwise they are a path with the whole query, credentials included, as in services of this family: the
    reference shows no format.
    """
    limit, offset = query.size, query.offset
    parameters = request.query_params.multi_items()
    kept = [(name, value) for name, value in parameters if name not in {"limit", "offset"}]

    def link(start: int) -> str:
        return f"{request.url.path}?{urlencode([*kept, ('limit', limit), ('offset', start)])}"

    return {
        "limit": limit,
        "offset": offset,
        "total_count": total_count,
        "next": link(offset + limit) if offset + limit < total_count else "",
        "previous": link(max(0, offset - limit)) if offset else None,
    }


def _answer_record(record: Record | None, noun: str) -> Response:
    if record is None:
        raise RefusalError(404, "not_found", f"There is no {noun} with this guid.")
    return JSONResponse(record)
