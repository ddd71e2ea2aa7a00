"""Routes of the inbox: pages, forms, the pages' files, and events that refresh open pages."""

from __future__ import annotations

import asyncio
import base64
import secrets
import sqlite3
from contextlib import closing
from http import HTTPStatus
from itertools import count
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qs

from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from runner.sandbox.inbox import views
from runner.sandbox.inbox.pages import (
    HEADERS,
    STATIC_PATH,
    answer_failure,
    answer_html,
    redirect,
    render_page,
)
from runner.sandbox.rehearsal.controls import ACTIONS, read_values
from runner.sandbox.rehearsal.participants import describe_habits
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.store import find_database
from runner.sandbox.web.refusals import read_body
from runner.sandbox.webhooks.receiver import is_local

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from runner.sandbox.commits import Writer
    from runner.sandbox.inbox.views import View
    from runner.sandbox.store import Store
    from runner.sandbox.web.control import ControlRoutes
    from runner.sandbox.web.refusals import Account, Endpoint


_ASK = {**HEADERS, "WWW-Authenticate": 'Basic realm="Sandbox inbox", charset="UTF-8"'}
_BETWEEN_EVENTS_S = 0.25
_HEARTBEAT = 60
"""Looks for changes after which a comment shows that the stream is alive: those of 15 seconds."""
_RETRY_MS = 1000
_TEXT_MAX = 10_000  # characters
_FORM_BYTES_MAX = 64 * 1024
_TOO_LONG = "That is too long for a text; nothing was done."
_ID_DIGITS = 15
_Found = TypeVar("_Found")


class Events:
    """A stream of one service's changes (HTML, section 9.2); event ids change when it restarts."""

    def __init__(self, store: Store) -> None:
        self._connection = store.connection
        self._run = secrets.token_hex(4)

    def mark(self) -> str:
        """Return the id of the present state, for a new page."""
        # SQLite counts commits by other connections, and rows that this one has changed: both only grow.
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return f"{self._run}-{version + self._connection.total_changes}"

    def stream(self, seen: str) -> StreamingResponse:
        """Stream the changes after the id of a page or its last event; an invalid id counts as outdated."""
        return StreamingResponse(
            self._follow(seen),
            media_type="text/event-stream",
            headers={**HEADERS, "Cache-Control": "no-store"},
        )

    async def _follow(self, seen: str) -> AsyncIterator[str]:
        yield f"retry: {_RETRY_MS}\n\n"
        for number in count(1):
            if (mark := self.mark()) != seen:
                seen = mark
                yield f"event: change\nid: {mark}\ndata: {mark}\n\n"
            elif number % _HEARTBEAT == 0:
                # Clients ignore a comment, but it reveals lost connections.
                yield ": still here\n\n"
            await asyncio.sleep(_BETWEEN_EVENTS_S)


def inbox_routes(writer: Writer, account: Account, control: ControlRoutes) -> list[BaseRoute]:
    """Return the routes of the inbox, at the root of the service; see `_Inbox.admit` for who may use it."""
    inbox = _Inbox(writer, account, control)
    pages: dict[str, Endpoint] = {
        "/": inbox.show_launches,
        "/launches/{guid}": inbox.show_launch,
        "/phones": inbox.show_phones,
        "/phones/{guid}": inbox.show_thread,
        "/controls": inbox.show_controls,
    }
    forms: dict[str, Endpoint] = {
        "/phones/{guid}": inbox.reply,
        **{f"/_sandbox/inbox/{name}": inbox.act(name) for name in ACTIONS},
    }
    return [
        *(Route(path, inbox.admit(page, is_page=True), methods=["GET"]) for path, page in pages.items()),
        *(Route(path, inbox.admit(form), methods=["POST"]) for path, form in forms.items()),
        Route("/_sandbox/inbox/events", inbox.admit(inbox.follow), methods=["GET"]),
        Mount(STATIC_PATH, StaticFiles(packages=[("runner.sandbox.inbox", "static")])),
    ]


class _Inbox:
    """The endpoints."""

    def __init__(self, writer: Writer, account: Account, control: ControlRoutes) -> None:
        self._writer = writer
        self._control = control
        self._service = writer.service
        self._account = account
        self._uri = f"{find_database(writer.service.store).as_uri()}?mode=ro"
        self._events = Events(writer.service.store)
        # What the last form of the controls did since the service started.
        self._outcome = ""

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
        """Show the launches by their tags, or a list of those of one tag."""
        before, group = _read_id(request, "before"), request.query_params.get("group")

        def read(connection: sqlite3.Connection) -> View:
            return {
                "groups": views.list_groups(connection, before) if group is None else None,
                "launches": None if group is None else views.list_launches(connection, group, before),
                "group": group,
                "is_first_page": before is None,
                "origin": f"{request.scope['scheme']}://{request.headers.get('host', 'localhost')}",
                "username": self._account.username,
            }

        return await self._answer_page("launches", read)

    async def show_controls(self, _request: Request) -> Response:
        """Show the clock, the simulation and the reset."""
        shown = {"outcome": self._outcome, "habits": describe_habits()}
        return await self._answer_page("controls", lambda _: shown)

    async def show_launch(self, request: Request) -> Response:
        """Show one launch: its progress, its texts and its sessions."""
        guid, after = request.path_params["guid"], _read_id(request, "after")

        def read(connection: sqlite3.Connection) -> View | None:
            launch = views.find_launch(connection, guid)
            if launch is None:
                return None
            sessions, rest = views.list_sessions(connection, launch["id"], after)
            texts = views.list_texts(launch["definition"])
            return {"launch": launch, "sessions": sessions, "after": rest, "texts": texts}

        return await self._answer_page("launch", read)

    async def show_phones(self, request: Request) -> Response:
        """Show the list of phones alone, for narrow screens."""
        return await self._answer_page("phones", lambda _: {}, _read_id(request, "before"))

    async def show_thread(self, request: Request) -> Response:
        """Show the conversation with one phone."""
        guid, before = request.path_params["guid"], _read_id(request, "before")

        def read(connection: sqlite3.Connection) -> View | None:
            thread = views.find_thread(connection, guid, before)
            return None if thread is None else {"thread": thread, "is_latest": before is None}

        return await self._answer_page("thread", read)

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
        """Return the form of a control, whose fields are those of its request."""

        async def call(request: Request) -> Response:
            form = await _read_form(request)
            if name == "reset" and form.pop("sure", "") != "yes":
                raise RefusalError(400, "not_confirmed", "Tick the box that confirms it; nothing was reset.")
            values = {field: written.strip() for field, written in form.items() if written.strip()}
            outcome = await self._control.act(read_values(values, ACTIONS[name]))
            self._outcome = outcome.words
            return redirect("/controls")

        return call

    async def _read(self, read: Callable[[sqlite3.Connection], _Found]) -> _Found:
        """Return the result of `read`, called beside the event loop with a connection to one snapshot."""

        def call() -> _Found:
            # Opened each time, which takes less than a template, so that nothing needs closing at the end.
            with closing(sqlite3.connect(self._uri, uri=True, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                connection.execute("BEGIN")
                return read(connection)

        return await asyncio.to_thread(call)

    async def _answer_page(
        self,
        template: str,
        read: Callable[[sqlite3.Connection], View | None],
        phones_before: int | None = None,
    ) -> Response:
        """Answer with a page of the result of `read`, inside the frame of all pages."""
        now, ahead = self._writer.clock.now(), self._writer.clock.offset()
        # Before the read: changes meanwhile are shown twice rather than never.
        mark = self._events.mark()

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
    return request.client is not None and is_local(request.client.host)


def _has_credentials(request: Request, account: Account) -> bool:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    try:
        username, _, api_key = base64.b64decode(encoded, validate=True).decode().partition(":")
        account.check({"username": username, "api_key": api_key})
    except (ValueError, RefusalError):
        return False
    return scheme.lower() == "basic"
