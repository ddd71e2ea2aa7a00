"""Control routes for tests and rehearsals, below `/_sandbox/`: they show what happened, and change it.

They take the API's credentials, but real services have none of them.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner.sandbox.clock import parse_time
from runner.sandbox.definition import normalise_phone
from runner.sandbox.model import Kind
from runner.sandbox.records import RecordList
from runner.sandbox.rehearsal.controls import (
    ACTIONS,
    Action,
    ControlledSandbox,
    ControlOutcome,
    Count,
    Reset,
    Simulate,
)
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.store import find_database
from runner.sandbox.web.refusals import read_body, read_query
from runner.sandbox.webhooks.queue import WEBHOOK_STATES, count_webhooks, list_webhooks

if TYPE_CHECKING:
    from starlette.requests import Request

    from runner.sandbox.commits import Writer
    from runner.sandbox.rehearsal.controls import Wanted
    from runner.sandbox.rehearsal.faults import Faults
    from runner.sandbox.web.refusals import Account, Endpoint
    from runner.sandbox.web.request_log import RequestLog


_MAX_BYTES = 64 * 1024
_VERSION = {"format_version": "1.0"}
_PAGE = 1000
_SELECT_MESSAGES = """
SELECT transcript.id, at, kind, text, launch.guid, project_tag
FROM transcript
LEFT JOIN session ON session.id = session_id
LEFT JOIN launch ON launch.id = launch_id
WHERE transcript.participant_id = (SELECT id FROM participant WHERE phone = ?) AND transcript.id > ?
ORDER BY transcript.id LIMIT ?
"""
_Text = Annotated[str, Meta(min_length=1)]


class _Page(Struct, forbid_unknown_fields=True):
    """The query of a list: a page of it."""

    after: Count = 0


class _MessagePage(_Page):
    phone: str = ""


class _WebhookPage(_Page):
    state: Literal[WEBHOOK_STATES] | None = None  # type: ignore[valid-type]  # a constant


class _RequestPage(_Page):
    method: str | None = None
    path: str | None = None
    status: str | None = None


class _Reply(Struct, forbid_unknown_fields=True):
    phone: _Text
    text: _Text


class ControlRoutes:
    """The controls of one running service, and their routes."""

    def __init__(self, writer: Writer, faults: Faults, requests: RequestLog) -> None:
        self._writer = writer
        self._connection = writer.service.store.connection
        self.sandbox = ControlledSandbox(find_database(writer.service.store), faults)
        self._requests = requests
        self._simulating = asyncio.Lock()
        self._listing = RecordList(writer.service.store, plan=writer.service.plan)

    def routes(self, account: Account) -> list[Route]:
        """Return the routes, with the credentials of `account`."""
        endpoints: list[tuple[str, str, Endpoint]] = [
            ("GET", "state", self.show_state),
            ("GET", "messages", self.list_messages),
            ("GET", "requests", self.list_requests),
            ("GET", "webhooks", self.list_webhooks),
            ("POST", "reply", self.reply),
            *(("POST", name, self._answer(action)) for name, action in ACTIONS.items()),
        ]
        return [
            Route(f"/_sandbox/{name}", account.guard(endpoint), methods=[method])
            for method, name, endpoint in endpoints
        ]

    async def act(self, action: Action) -> ControlOutcome:
        """Do what a request asks for, beside the event loop.

        Raises:
            RefusalError: it cannot be done so.
            SandboxError: the database cannot be used, or the action is impossible.
        """
        # Simulations take turns: several at once would leave no time for sends.
        async with self._simulating if isinstance(action, Simulate) else nullcontext():
            outcome = await asyncio.to_thread(action.act, self.sandbox)
        if isinstance(action, Reset):
            self._requests.clear()
        return outcome

    def _answer(self, action: type[Action]) -> Endpoint:
        async def call(request: Request) -> Response:
            outcome = await self.act(await _read_body(request, action))
            return JSONResponse({**self._describe(), **outcome.document})

        return call

    async def show_state(self, _request: Request) -> Response:
        """Show the time, the counts and the faults."""
        await self._writer.expire_sessions()
        return JSONResponse(self._describe())

    async def list_messages(self, request: Request) -> Response:
        """List what a phone received and sent, in order."""
        query = read_query(request, _MessagePage)
        # In a query, the plus of a number that nobody escaped is a blank.
        phone = _read_phone(query.phone.strip())
        await self._writer.expire_sessions()
        rows = self._connection.execute(_SELECT_MESSAGES, (phone, query.after, _PAGE))
        found = [
            {
                "id": number,
                "at": parse_time(at).isoformat(),
                "direction": "from_phone" if kind == Kind.INBOUND else "to_phone",
                "kind": kind,
                "text": text,
                "project_launch_guid": guid,
                "project_tag": tag,
            }
            for number, at, kind, text, guid, tag in rows
        ]
        return _answer_page("messages", found, phone=phone)

    async def list_requests(self, request: Request) -> Response:
        """List the last requests of clients, in the order of their arrival."""
        query = read_query(request, _RequestPage)
        asked = {"method": query.method, "path": query.path, "status": query.status}
        wanted = {name: value for name, value in asked.items() if value is not None}
        found = self._requests.select(wanted, after=query.after)
        return JSONResponse({**_VERSION, "total": self._requests.total, "requests": found})

    async def list_webhooks(self, request: Request) -> Response:
        """List the results that have a webhook, with their deliveries, in order of creation."""
        query = read_query(request, _WebhookPage)
        found = list_webhooks(self._connection, query.state, after=query.after, limit=_PAGE)
        return _answer_page("webhooks", found, counts=count_webhooks(self._connection))

    async def reply(self, request: Request) -> Response:
        """Take a text from a participant, as if their phone had sent it."""
        body = await _read_body(request, _Reply)
        receipt = await self._writer.receive(_read_phone(body.phone), body.text)
        return JSONResponse(
            {
                "was_expected": receipt.was_expected,
                "result_guid": receipt.result_guid,
                "keyword": receipt.keyword,
                "sessions_completed": receipt.completed,
                "asked": receipt.prompt.question.text if receipt.prompt else None,
            }
        )

    def _count(self) -> dict[str, int]:
        totals = self._listing.list_stats({}, 0, 0).additions["totals"]
        return {
            "launches": totals["launches"],
            "results": totals["results"],
            "sessions_complete": totals["complete_sessions"],
            "sessions_active": totals["active_sessions"],
            "sessions_queued": totals["queued_sessions"],
            "renders": totals["renders"],
        }

    def _describe(self) -> dict[str, Any]:
        clock, faults = self._writer.clock, self.sandbox.faults
        return {
            **_VERSION,
            "time": clock.now().isoformat(),
            "clock_offset_s": clock.offset().total_seconds(),
            **self._count(),
            "webhooks": count_webhooks(self._connection),
            "faults": {
                "rates": dict(faults.rates),
                "latency_s": faults.latency.total_seconds(),
                "injected": dict(faults.injected),
            },
        }


async def _read_body(request: Request, wanted: type[Wanted]) -> Wanted:
    try:
        return msgspec.json.decode(await read_body(request, _MAX_BYTES) or b"{}", type=wanted)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RefusalError(400, "invalid_body", "The body cannot be read.", [str(error)]) from None


def _read_phone(written: str) -> str:
    phone = normalise_phone(written)
    if phone is None:
        raise RefusalError(400, "invalid_parameter", "phone: is no phone number of 7 to 15 digits.")
    return phone


def _answer_page(name: str, found: list[dict[str, Any]], **further: object) -> Response:
    rest = found[-1]["id"] if len(found) == _PAGE else None
    return JSONResponse({**_VERSION, **further, name: found, "next_after": rest})
