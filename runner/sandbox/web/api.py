"""The five endpoints of the reference (section 4): bodies, envelopes, records and CSV."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner.sandbox.definition import read_send
from runner.sandbox.errors import RefusalError
from runner.sandbox.listing import RESULT_FILTERS, STAT_FILTERS, Listing, Page
from runner.sandbox.paging import ListQuery, make_meta, read_list_query
from runner.sandbox.records import RESULT_FIELDS, STAT_FIELDS, Record, write_csv
from runner.sandbox.rehearsal.faults import FAULTS, Fault, Faults, Place
from runner.sandbox.rehearsal.magic import find_fault_name, refuse_magic
from runner.sandbox.web.disturbance import FaultyAnswer, disturb_page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from starlette.requests import Request

    from runner.sandbox.service import Service
    from runner.sandbox.web.credentials import Account, Endpoint
    from runner.sandbox.web.disturbance import ReadPage
    from runner.sandbox.writer import Writer

MAX_BODY_BYTES = 16 * 1024 * 1024


class Api:
    """The endpoints.

    They read the store on the event loop: a statement takes some microseconds, a change of threads more.

    Args:
        service: whose store is listed.
        writer: writes what is sent.
        clock: gives the service's present moment, with its time zone.
        faults: says which requests go wrong.
    """

    def __init__(
        self,
        service: Service,
        *,
        writer: Writer,
        clock: Callable[[], datetime],
        faults: Faults,
    ) -> None:
        self._writer = writer
        self._listing = Listing(service.store, plan=service.plan)
        self._clock = clock
        self._faults = faults

    def routes(self, account: Account) -> list[Route]:
        """Give the routes, each with and without a slash at its end: clients of this API write both.

        Args:
            account: whose credentials every request must carry.
        """
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
        """Launch a project (section 4.1)."""
        sent = read_send(await _read_body(request))
        fault = self._choose_fault(sent.phones)
        if fault is not None and not fault.accepts:
            return FaultyAnswer(fault)
        guid = await self._writer.send(sent.definition, sent.phones)
        here = _find_origin(request)
        answer = JSONResponse(
            {
                "project_launch_guid": guid,
                "stats_url": f"{here}/api/stats/{guid}/",
                "results_url": f"{here}/api/results?project_launch_guid={guid}",
            }
        )
        return answer if fault is None else FaultyAnswer(fault, answer, slow_for=self._faults.slow_for)

    async def list_results(self, request: Request) -> Response:
        """List results (section 4.2)."""
        query = read_list_query(request.query_params, RESULT_FILTERS)
        read_page = partial(self._listing.list_results, query.filters)
        page = self._disturb(read_page(query.limit, query.offset), query, read_page)
        return page if isinstance(page, Response) else _answer_list(request, query, page, RESULT_FIELDS, {})

    async def show_result(self, request: Request) -> Response:
        """Give a single result (section 4.3)."""
        return _answer_record(self._listing.find_result(request.path_params["guid"]), "result")

    async def list_stats(self, request: Request) -> Response:
        """List launches, with the plan's usage and the totals (section 4.4)."""
        query = read_list_query(request.query_params, STAT_FILTERS)

        def read_page(limit: int, offset: int) -> Page:
            return self._listing.list_stats(query.filters, limit, offset)[0]

        whole, usage = self._listing.list_stats(query.filters, query.limit, query.offset)
        page = self._disturb(whole, query, read_page)
        return page if isinstance(page, Response) else _answer_list(request, query, page, STAT_FIELDS, usage)

    async def show_stat(self, request: Request) -> Response:
        """Give a single stat (section 4.5)."""
        return _answer_record(self._listing.find_stat(request.path_params["guid"]), "project launch")

    def _prepare(self, endpoint: Endpoint) -> Endpoint:
        """Let requests wait for the asked-for latency, and let due sessions expire before anybody looks."""

        async def prepare_and_call(request: Request) -> Response:
            if self._faults.latency:
                await asyncio.sleep(self._faults.latency.total_seconds())
            # A send does so itself, in its own transaction.
            if request.method != "POST":
                await self._writer.expire_sessions()
            return await endpoint(request)

        return prepare_and_call

    def _choose_fault(self, phones: Sequence[str]) -> Fault | None:
        """Decide what befalls a send: what a magic number among its phones stands for, else what is drawn.

        Raises:
            RefusalError: a magic number stands for one.
        """
        refuse_magic(phones)
        name = find_fault_name(phones)
        return self._faults.decide(Place.SEND) if name is None else FAULTS[name]

    def _disturb(self, page: Page, query: ListQuery, read_page: ReadPage) -> Page | Response:
        fault = self._faults.decide(Place.LIST)
        if fault is None:
            return page
        since = self._clock() - self._faults.late_by
        return disturb_page(fault, page, query, read_page, since) or FaultyAnswer(fault)


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
