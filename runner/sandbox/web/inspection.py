"""Routes below `/_sandbox/` that show what happened: messages, requests and webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner.sandbox.definition import normalise_phone
from runner.sandbox.messages import read_messages
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.web.control import FORMAT_VERSION, read_count, read_object, require_known
from runner.sandbox.webhooks.queue import WEBHOOK_STATES, count_webhooks, list_webhooks, resend_webhooks

if TYPE_CHECKING:
    from starlette.requests import Request

    from runner.sandbox.commits import Writer
    from runner.sandbox.web.refusals import Account, Endpoint
    from runner.sandbox.web.request_log import RequestLog

_CREDENTIALS = ("username", "api_key")
_PAGE = 1000
_REQUEST_FILTERS = ("method", "path", "status")


class Inspection:
    """The routes of one running service."""

    def __init__(self, writer: Writer, requests: RequestLog) -> None:
        self._writer = writer
        self._store = writer.service.store
        self._requests = requests

    def routes(self, account: Account) -> list[Route]:
        """Return the routes, with the credentials of `account`."""
        endpoints: list[tuple[str, str, Endpoint]] = [
            ("GET", "messages", self.list_messages),
            ("GET", "requests", self.list_requests),
            ("GET", "webhooks", self.list_webhooks),
            ("POST", "webhooks/resend", self.resend_webhooks),
        ]
        return [
            Route(f"/_sandbox/{name}", account.guard(endpoint), methods=[method])
            for method, name, endpoint in endpoints
        ]

    async def list_messages(self, request: Request) -> Response:
        """List what a phone received and sent, in order."""
        query = _read_query(request, "phone", "after", "limit")
        # In a query, the plus of a number that nobody escaped is a blank.
        phone = normalise_phone(query.get("phone", "").strip())
        if phone is None:
            raise RefusalError(400, "invalid_parameter", "phone: is no phone number of 7 to 15 digits.")
        await self._writer.expire_sessions()
        after, limit = _read_page(query)
        found = read_messages(self._store.connection, phone, after=after, limit=limit)
        return _answer_page("messages", [each.to_dict() for each in found], limit, phone=phone)

    async def list_requests(self, request: Request) -> Response:
        """List the last requests of clients, in the order of their arrival."""
        query = _read_query(request, *_REQUEST_FILTERS, "after")
        wanted = {name: query[name] for name in _REQUEST_FILTERS if name in query}
        found = self._requests.select(wanted, after=_read_page(query)[0])
        return JSONResponse(
            {"format_version": FORMAT_VERSION, "total": self._requests.total, "requests": found}
        )

    async def list_webhooks(self, request: Request) -> Response:
        """List the results that have a webhook, with their deliveries, in order of creation."""
        query = _read_query(request, "state", "after", "limit")
        state = query.get("state")
        if state is not None and state not in WEBHOOK_STATES:
            message = f"state: must be one of {', '.join(WEBHOOK_STATES)}."
            raise RefusalError(400, "invalid_parameter", message)
        after, limit = _read_page(query)
        found = list_webhooks(self._store.connection, state, after=after, limit=limit)
        return _answer_page("webhooks", found, limit, counts=count_webhooks(self._store.connection))

    async def resend_webhooks(self, request: Request) -> Response:
        """Deliver one webhook again, or all that have failed."""
        body = await read_object(request, ("id", "state"))
        number, state = body.get("id"), body.get("state")
        if len(body) != 1 or not (_is_id(number) or state == "FAILED"):
            raise RefusalError(400, "invalid_body", 'Say {"id": 3} or {"state": "FAILED"}.')
        count = await self._writer.write(lambda: resend_webhooks(self._store, number))
        if number is not None and not count:
            message = "There is no webhook of this id that can be delivered."
            raise RefusalError(404, "not_found", message)
        return JSONResponse({"format_version": FORMAT_VERSION, "resent": count})


def _is_id(value: object) -> bool:
    # SQLite's numbers end there.
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def _read_query(request: Request, *known: str) -> dict[str, str]:
    require_known(request.query_params, (*known, *_CREDENTIALS))
    return {name: request.query_params[name] for name in known if request.query_params.get(name)}


def _read_page(query: dict[str, str]) -> tuple[int, int]:
    after = read_count(query["after"], "after") if "after" in query else 0
    limit = read_count(query["limit"], "limit") if "limit" in query else _PAGE
    return after, max(1, min(limit, _PAGE))


def _answer_page(name: str, found: list[dict[str, Any]], limit: int, **further: object) -> Response:
    rest = found[-1]["id"] if len(found) == limit else None
    return JSONResponse({"format_version": FORMAT_VERSION, **further, name: found, "next_after": rest})
