"""Routes of the inbox: pages, forms, the pages' files, and events that refresh open pages."""

from __future__ import annotations

import asyncio
import base64
import secrets
import sqlite3
from contextlib import closing, suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from runner.sandbox.inbox import views
from runner.sandbox.inbox.pages import (
    HEADERS,
    STATIC,
    STATIC_PATH,
    answer_failure,
    answer_html,
    read_static,
    redirect,
    render_page,
)
from runner.sandbox.rehearsal.controls import ACTIONS, read_values
from runner.sandbox.rehearsal.faults import FAULTS
from runner.sandbox.rehearsal.participants import describe_habits
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.store import find_database
from runner.sandbox.web.refusals import read_body
from runner.sandbox.webhooks.queue import WEBHOOK_STATES, count_webhooks, list_webhooks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from runner.sandbox.commits import Changes, Writer
    from runner.sandbox.inbox.views import View
    from runner.sandbox.web.control import ControlRoutes
    from runner.sandbox.web.refusals import Account, Endpoint


_ASK = {**HEADERS, "WWW-Authenticate": 'Basic realm="Sandbox inbox", charset="UTF-8"'}
_HEARTBEAT_S = 15.0
_BETWEEN_EVENTS_S = 0.25
"""A thousand sends a second are four events a second."""
_RETRY_MS = 1000
_WEBHOOKS = 100
_FIRST_PHONES = 3  # of a launch, in the JSON of its request
_TEXT_MAX = 10_000  # characters
_FORM_BYTES_MAX = 64 * 1024
_TOO_LONG = "That is too long for a text; nothing was done."
_QUERY_MAX = 200  # characters
_ID_DIGITS = 15
_READERS = 2  # one slow search leaves room for a page
_Found = TypeVar("_Found")


class Events:
    """A stream of one service's changes (HTML, section 9.2); event ids change when it restarts."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._run = secrets.token_hex(4)

    def mark(self) -> str:
        """Return the id of the present state, for a new page."""
        return f"{self._run}-{self._changes.revision}"

    def stream(self, seen: str) -> StreamingResponse:
        """Stream the changes after the id of a page or its last event; an invalid id counts as outdated."""
        return StreamingResponse(
            self._follow(seen),
            media_type="text/event-stream",
            headers={**HEADERS, "Cache-Control": "no-store"},
        )

    async def _follow(self, seen: str) -> AsyncIterator[str]:
        yield f"retry: {_RETRY_MS}\n\n"
        current = self._changes.revision if seen == self.mark() else -1
        while True:
            latest = await self._changes.wait(current, _HEARTBEAT_S)
            if latest == current:
                # Clients ignore a comment, but it reveals lost connections.
                yield ": still here\n\n"
                continue
            current = latest
            yield f"event: change\nid: {self.mark()}\ndata: {current}\n\n"
            await asyncio.sleep(_BETWEEN_EVENTS_S)


def inbox_routes(writer: Writer, account: Account, control: ControlRoutes) -> list[Route]:
    """Return the routes of the inbox, at the root of the service; see `_Inbox.admit` for who may use it."""
    inbox = _Inbox(writer, account, control)
    pages: dict[str, Endpoint] = {
        "/": inbox.show_launches,
        "/launches/{guid}": inbox.show_launch,
        "/phones": inbox.show_phones,
        "/phones/{guid}": inbox.show_thread,
        "/search": inbox.show_search,
        "/controls": inbox.show_controls,
        "/webhooks": inbox.show_webhooks,
    }
    forms: dict[str, Endpoint] = {
        "/phones/{guid}": inbox.reply,
        "/_sandbox/inbox/seen": inbox.see_all,
        **{f"/_sandbox/inbox/{name}": inbox.act(name) for name in ACTIONS},
    }
    return [
        *(Route(path, inbox.admit(page, is_page=True), methods=["GET"]) for path, page in pages.items()),
        *(Route(path, inbox.admit(form), methods=["POST"]) for path, form in forms.items()),
        Route("/_sandbox/inbox/events", inbox.admit(inbox.follow), methods=["GET"]),
        Route(f"{STATIC_PATH}/{{name}}", _answer_static, methods=["GET"]),
    ]


class _Inbox:
    """The endpoints."""

    def __init__(self, writer: Writer, account: Account, control: ControlRoutes) -> None:
        self._writer = writer
        self._control = control
        self._service = writer.service
        self._account = account
        self._uri = f"{find_database(writer.service.store).as_uri()}?mode=ro"
        self._reading = asyncio.Semaphore(_READERS)
        self._events = Events(writer.changes)
        # By page: what its last form did since the service started.
        self._outcomes: dict[str, str] = {}

    def admit(self, endpoint: Endpoint, *, is_page: bool = False) -> Endpoint:
        """Require a request from this machine, or HTTP Basic credentials (RFC 7617); refuse other pages'.

        Requests from loopback addresses are from this machine, including all of a reverse proxy on it: such a
        proxy has to control access itself. `is_page` lets other pages link to it, and expires due sessions
        first. Refusals and errors are answered with a page, since who reads one is not shown JSON.
        """

        async def call(request: Request) -> Response:
            if not _is_near(request) and not _has_credentials(request, self._account):
                text = "The inbox asks for the username and the api_key, which `runner sandbox serve` prints."
                return Response(text, HTTPStatus.UNAUTHORIZED, _ASK, "text/plain")
            try:
                if is_page:
                    await self._writer.expire_sessions()
                else:
                    _refuse_foreign(request)
                return await endpoint(request)
            except Exception as error:  # noqa: BLE001  whatever it is
                return answer_failure(error)

        return call

    async def show_launches(self, request: Request) -> Response:
        """Show the launches by their tags, or a list of those that a filter leaves."""
        before, limits = _read_id(request, "before"), views.read_filter(request.query_params)

        def read(connection: sqlite3.Connection) -> View:
            return {
                "groups": None if limits else views.list_groups(connection, before),
                "launches": views.list_filtered(connection, limits, before) if limits else None,
                "limits": limits,
                "is_first_page": before is None,
                "origin": f"{request.scope['scheme']}://{request.headers.get('host', 'localhost')}",
                "username": self._account.username,
            }

        return await self._answer_page(request, "launches", read)

    async def show_controls(self, request: Request) -> Response:
        """Show the clock, the simulation, the faults and the snapshots."""
        sandbox = self._control.sandbox
        shown = {
            "outcome": self._outcomes.get("/controls", ""),
            "habits": describe_habits(),
            "faults": FAULTS,
            "set_faults": sandbox.faults,
            "snapshots": [file.stem for file in sandbox.list_snapshots()],
        }

        def read(connection: sqlite3.Connection) -> View:
            return {**shown, "webhooks": count_webhooks(connection)}

        return await self._answer_page(request, "controls", read)

    async def show_webhooks(self, request: Request) -> Response:
        """Show the webhooks, the newest first, with their last problem and a button to send them again."""
        before, asked = _read_id(request, "before"), request.query_params.get("state", "")
        state = asked if asked in WEBHOOK_STATES else None
        outcome = self._outcomes.get("/webhooks", "")

        def read(connection: sqlite3.Connection) -> View:
            found = list_webhooks(connection, state, before=before, limit=_WEBHOOKS, newest_first=True)
            return {
                "outcome": outcome,
                "counts": count_webhooks(connection),
                "states": WEBHOOK_STATES,
                "state": state,
                "webhooks": found,
                "older": found[-1]["id"] if len(found) == _WEBHOOKS else None,
            }

        return await self._answer_page(request, "webhooks", read)

    async def show_launch(self, request: Request) -> Response:
        """Show one launch: its progress, its request and its sessions."""
        guid, after = request.path_params["guid"], _read_id(request, "after")
        limits = views.read_filter(request.query_params)

        def read(connection: sqlite3.Connection) -> View | None:
            launch = views.find_launch(connection, guid)
            if launch is None:
                return None
            condition = views.write_condition(limits, of_sessions=True)
            sessions, rest = views.list_sessions(connection, launch["id"], after, condition)
            return {
                "launch": launch,
                "phones_shown": views.list_first_phones(connection, launch["id"], _FIRST_PHONES),
                "sessions": sessions,
                "after": rest,
                "limits": limits,
                "texts": views.list_texts(launch["definition"]),
                "forecast": views.forecast_launch(connection, launch),
            }

        return await self._answer_page(request, "launch", read)

    async def show_phones(self, request: Request) -> Response:
        """Show the list of phones alone, for narrow screens."""
        return await self._answer_page(request, "phones", lambda _: {})

    async def show_thread(self, request: Request) -> Response:
        """Show the conversation with one phone, and mark its lines as seen."""
        guid, before = request.path_params["guid"], _read_id(request, "before")
        if before is None and not _is_foreign(request):
            thread = await self._read(lambda connection: views.find_thread(connection, guid))
            if thread and views.is_news(self._service.store, thread["id"], thread["last_id"]):
                await self._see(thread)

        def read(connection: sqlite3.Connection) -> View | None:
            thread = views.find_thread(connection, guid, before)
            if thread is None:
                return None
            launches = [each["launch"] for each in thread["stretches"] if each["launch"]]
            phones = {
                launch["id"]: views.list_first_phones(connection, launch["id"], _FIRST_PHONES)
                for launch in launches
            }
            return {"thread": thread, "phones_shown": phones, "is_latest": before is None}

        return await self._answer_page(request, "thread", read)

    async def show_search(self, request: Request) -> Response:
        """Show the phones and lines that match a search."""
        query = request.query_params.get("q", "").strip()[:_QUERY_MAX]
        return await self._answer_page(
            request,
            "search",
            lambda connection: {
                "query": query,
                "found_phones": views.search_phones(connection, query),
                "found_launches": views.search_launches(connection, query),
                "hits": views.search_lines(connection, query),
            },
        )

    async def follow(self, request: Request) -> Response:
        """Stream the changes after what the page shows."""
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return self._events.stream(seen)

    async def reply(self, request: Request) -> Response:
        """Receive a text as if the phone's owner had sent it."""
        form = await _read_form(request)
        guid = request.path_params["guid"]
        thread = await self._read(lambda connection: views.find_thread(connection, guid))
        if thread is None:
            raise RefusalError(404, "not_found", "There is no such phone; nothing was done.")
        # Browsers send line breaks of a form as CRLF, phones as LF.
        text = form.get("text", "").replace("\r\n", "\n")
        if len(text) > _TEXT_MAX:
            raise RefusalError(413, "body_too_large", _TOO_LONG)
        if text.strip():
            await self._writer.receive(thread["number"], text)
        return redirect(f"/phones/{thread['guid']}")

    def act(self, name: str) -> Endpoint:
        """Return the form of a control, whose fields are those of its request; a dot leads into an object."""
        page = "/webhooks" if name == "webhooks/resend" else "/controls"

        async def call(request: Request) -> Response:
            form = await _read_form(request)
            if name == "reset" and form.pop("sure", "") != "yes":
                raise RefusalError(400, "not_confirmed", "Tick the box that confirms it; nothing was reset.")
            values: dict[str, Any] = {}
            for field, written in form.items():
                outer, _, inner = field.partition(".")
                if inner and written.strip():
                    values.setdefault(outer, {})[inner] = written.strip()
                elif written.strip():
                    values[field] = written.strip()
            outcome = await self._control.act(read_values(values, ACTIONS[name]))
            self._outcomes[page] = outcome.words
            return redirect(page)

        return call

    async def see_all(self, _request: Request) -> Response:
        """Mark all lines so far as seen."""
        await self._writer.write(lambda: views.mark_all_seen(self._service.store))
        return redirect("/phones")

    async def _see(self, thread: View) -> None:
        # Readers don't wait for another process that holds the database: the line stays unread.
        with suppress(sqlite3.OperationalError):
            await self._writer.write(
                lambda: views.mark_seen(self._service.store, thread["id"], thread["last_id"]), patience_s=0
            )

    async def _read(self, read: Callable[[sqlite3.Connection], _Found]) -> _Found:
        """Return the result of `read`, called beside the event loop with a connection to one snapshot."""

        def call() -> _Found:
            # Opened each time, which takes less than a template, so that nothing needs closing at the end.
            with closing(sqlite3.connect(self._uri, uri=True, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                connection.execute("BEGIN")
                return read(connection)

        async with self._reading:
            return await asyncio.to_thread(call)

    async def _answer_page(
        self, request: Request, template: str, read: Callable[[sqlite3.Connection], View | None]
    ) -> Response:
        """Answer with a page of the result of `read`, inside the frame of all pages."""
        now, ahead = self._writer.clock.now(), self._writer.clock.offset()
        # Before the read: changes meanwhile are shown twice rather than never.
        mark = self._events.mark()
        phones_before = _read_id(request, "before") if template == "phones" else None

        def render(connection: sqlite3.Connection) -> tuple[str, bool]:
            found = read(connection)
            (renders,) = connection.execute("SELECT renders FROM totals").fetchone()
            page = render_page(
                "missing" if found is None else template,
                phones=views.list_phones(connection, phones_before),
                usage={"plan": self._service.plan, "renders": renders, "now": now, "ahead": ahead},
                mark=mark,
                **(found or {}),
            )
            return page, found is not None

        page, is_found = await self._read(render)
        return answer_html(page, HTTPStatus.OK if is_found else HTTPStatus.NOT_FOUND)


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; of a repeated field, the last value."""
    body = await read_body(request, _FORM_BYTES_MAX, _TOO_LONG)
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, errors="replace")
    return {name: values[-1] for name, values in fields.items()}


async def _answer_static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        return Response(status_code=404, headers=HEADERS)
    headers = {**HEADERS, "Cache-Control": "max-age=31536000, immutable"}
    return Response(read_static(name), media_type=STATIC[name], headers=headers)


def _read_id(request: Request, name: str) -> int | None:
    """Return a list's position from the query; None if it is no number."""
    written = request.query_params.get(name, "")
    is_number = written.isascii() and written.isdecimal() and len(written) <= _ID_DIGITS
    return int(written) or None if is_number else None


def _is_foreign(request: Request) -> bool:
    """Return whether another web page made the browser send this request.

    Browsers send Sec-Fetch-Site (W3C Fetch Metadata) to this machine and over https; elsewhere, and in older
    ones, every POST has an Origin. Programs send neither.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in {"same-origin", "none"}
    own = f"{request.scope['scheme']}://{request.headers.get('host')}"
    return request.headers.get("origin", own) != own


def _refuse_foreign(request: Request) -> None:
    if _is_foreign(request):
        raise RefusalError(403, "cross_site", "Another web page sent this; nothing was done.")


def _is_near(request: Request) -> bool:
    try:
        return request.client is not None and ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _has_credentials(request: Request, account: Account) -> bool:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    try:
        username, _, api_key = base64.b64decode(encoded, validate=True).decode().partition(":")
        account.check({"username": username, "api_key": api_key})
    except (ValueError, RefusalError):
        return False
    return scheme.lower() == "basic"
