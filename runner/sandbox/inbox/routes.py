"""The addresses of the inbox: pages, forms, events and the files that pages are made with."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from runner.sandbox.errors import RefusalError
from runner.sandbox.inbox.access import Access
from runner.sandbox.inbox.answers import HEADERS, answer_html, explained, redirect
from runner.sandbox.inbox.events import Events
from runner.sandbox.inbox.guard import is_foreign, read_form
from runner.sandbox.inbox.launches import find_launch, list_first_phones, list_launches, list_sessions
from runner.sandbox.inbox.model import Usage
from runner.sandbox.inbox.pages import STATIC, STATIC_PATH, read_static, render_page
from runner.sandbox.inbox.phones import is_news, list_phones, mark_all_seen, mark_seen
from runner.sandbox.inbox.reading import Reader
from runner.sandbox.inbox.searching import search_launches, search_lines, search_phones
from runner.sandbox.inbox.threads import find_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from runner.sandbox.changes import Changes
    from runner.sandbox.clock import Clock
    from runner.sandbox.inbox.model import Thread
    from runner.sandbox.service import Service
    from runner.sandbox.web.credentials import Account, Endpoint
    from runner.sandbox.writer import Writer

_FIRST_PHONES = 3  # of a launch, in the JSON of its request
_TEXT_MAX = 10_000  # characters
_QUERY_MAX = 200  # characters
_ID_DIGITS = 15

Found = dict[str, Any]


def inbox_routes(
    service: Service, *, writer: Writer, changes: Changes, clock: Clock, account: Account
) -> list[Route]:
    """Give the routes of the inbox, at the root of the service.

    From this machine nobody has to log in; from elsewhere the inbox asks for the api_key, as the API does. It
    never shows it. What a reverse proxy on this machine passes on comes from this machine: whoever runs one
    decides with it who may look.

    Args:
        service: whose store is shown.
        writer: writes what is written in the inbox.
        changes: wakes open pages.
        clock: the service's time.
        account: whose api_key opens the inbox from elsewhere, and whose name is in the example of a send.
    """
    inbox = _Inbox(service, writer, changes, clock, account.username)
    access = Access(inbox.token, account)
    pages: list[tuple[str, Endpoint]] = [
        ("/", inbox.show_launches),
        ("/launches/{guid}", inbox.show_launch),
        ("/phones", inbox.show_phones),
        ("/phones/{guid}", inbox.show_thread),
        ("/search", inbox.show_search),
    ]
    return [
        *(
            Route(path, explained(access.guard_page(inbox.bring_up_to_date(endpoint))), methods=["GET"])
            for path, endpoint in pages
        ),
        *access.routes(),
        Route("/_sandbox/inbox/events", explained(access.guard_stream(inbox.follow)), methods=["GET"]),
        Route(f"{STATIC_PATH}/{{name}}", _answer_static, methods=["GET"]),
        Route("/phones/{guid}", explained(access.guard_form(inbox.reply)), methods=["POST"]),
        Route("/_sandbox/inbox/seen", explained(access.guard_form(inbox.see_all)), methods=["POST"]),
    ]


class _Inbox:
    """The endpoints."""

    def __init__(
        self, service: Service, writer: Writer, changes: Changes, clock: Clock, username: str
    ) -> None:
        self._service = service
        self._writer = writer
        self._clock = clock
        self._username = username
        self._reader = Reader(service.store)
        self._events = Events(changes)
        # Kept, so that a page that is open outlives a restart of the service.
        self.token = service.store.keep_secret("inbox_token")

    def bring_up_to_date(self, endpoint: Endpoint) -> Endpoint:
        """Let due sessions expire before an endpoint looks."""

        async def expire_and_call(request: Request) -> Response:
            await self._writer.expire_sessions()
            return await endpoint(request)

        return expire_and_call

    async def show_launches(self, request: Request) -> Response:
        """Show the launches, newest first."""
        before = _read_id(request, "before")
        return await self._answer_page(
            request,
            "launches",
            lambda connection: {
                "launches": list_launches(connection, before),
                "is_first_page": before is None,
                "origin": f"{request.scope['scheme']}://{request.headers.get('host', 'localhost')}",
                "username": self._username,
            },
        )

    async def show_launch(self, request: Request) -> Response:
        """Show one launch: its progress, its request and its sessions."""
        guid, after = request.path_params["guid"], _read_id(request, "after")

        def read(connection: sqlite3.Connection) -> Found | None:
            launch = find_launch(connection, guid)
            if launch is None:
                return None
            sessions, rest = list_sessions(connection, launch.id, after)
            phones = list_first_phones(connection, launch.id, _FIRST_PHONES)
            return {"launch": launch, "phones_shown": phones, "sessions": sessions, "after": rest}

        return await self._answer_page(request, "launch", read)

    async def show_phones(self, request: Request) -> Response:
        """Show the phones alone, which on a narrow screen have no place beside anything else."""
        return await self._answer_page(request, "phones", lambda _: {})

    async def show_thread(self, request: Request) -> Response:
        """Show the conversation with one phone, and remember that its lines were looked at."""
        guid, before = request.path_params["guid"], _read_id(request, "before")
        if before is None and not is_foreign(request):
            thread = await self._reader.run(lambda connection: find_thread(connection, guid))
            if thread and is_news(self._service.store, thread.participant_id, thread.last_id):
                await self._see(thread)

        def read(connection: sqlite3.Connection) -> Found | None:
            thread = find_thread(connection, guid, before)
            if thread is None:
                return None
            launches = [stretch.launch for stretch in thread.stretches if stretch.launch]
            phones = {
                launch.id: list_first_phones(connection, launch.id, _FIRST_PHONES) for launch in launches
            }
            return {"thread": thread, "phones_shown": phones, "is_latest": before is None}

        return await self._answer_page(request, "thread", read)

    async def show_search(self, request: Request) -> Response:
        """Show the phones and lines that match a search."""
        query = request.query_params.get("q", "").strip()[:_QUERY_MAX]
        before = _read_id(request, "before")
        phones_before, launches_before = (
            _read_id(request, "phones_before"),
            _read_id(request, "launches_before"),
        )
        return await self._answer_page(
            request,
            "search",
            lambda connection: {
                "query": query,
                "found_phones": search_phones(connection, query, phones_before),
                "found_launches": search_launches(connection, query, launches_before),
                "hits": search_lines(connection, query, before),
                "is_first_page": before is None,
            },
        )

    async def follow(self, request: Request) -> Response:
        """Stream the changes after what the page shows."""
        if is_foreign(request):
            return Response(status_code=403, headers=HEADERS)
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return self._events.stream(seen)

    async def reply(self, request: Request) -> Response:
        """Take a text as if the phone's owner had sent it."""
        form = await read_form(request, self.token)
        guid = request.path_params["guid"]
        thread = await self._reader.run(lambda connection: find_thread(connection, guid))
        if thread is None:
            raise RefusalError(404, "not_found", "There is no such phone; nothing was done.")
        # Browsers send line breaks of a form as CRLF, phones as LF.
        text = form.get("text", "").replace("\r\n", "\n")
        if len(text) > _TEXT_MAX:
            raise RefusalError(413, "body_too_large", "That is too long for a text; nothing was done.")
        if text.strip():
            await self._writer.receive(thread.number, text)
        return redirect(f"/phones/{thread.guid}")

    async def see_all(self, request: Request) -> Response:
        """Remember that all lines so far were looked at."""
        await read_form(request, self.token)
        await self._writer.write(lambda: mark_all_seen(self._service.store))
        return redirect("/phones")

    async def _see(self, thread: Thread) -> None:
        # Who reads doesn't wait for another process that holds the database: then it stays unread.
        with suppress(sqlite3.OperationalError):
            await self._writer.write(
                lambda: mark_seen(self._service.store, thread.participant_id, thread.last_id), patience_s=0
            )

    async def _answer_page(
        self, request: Request, template: str, read: Callable[[sqlite3.Connection], Found | None]
    ) -> Response:
        """Answer with a page of what `read` finds, and with what is around it on every page."""
        usage_now, ahead = self._clock.now(), self._clock.offset()
        # Before anything is read: what changes meanwhile is shown twice rather than never.
        mark = self._events.mark()
        phones_before = _read_id(request, "before") if template == "phones" else None

        def render(connection: sqlite3.Connection) -> tuple[str, bool]:
            found = read(connection)
            (renders,) = connection.execute("SELECT renders FROM totals").fetchone()
            page = render_page(
                "missing" if found is None else template,
                phones=list_phones(connection, phones_before),
                usage=Usage(self._service.plan, renders, usage_now, ahead),
                mark=mark,
                token=self.token,
                **(found or {}),
            )
            return page, found is not None

        page, is_found = await self._reader.run(render)
        return answer_html(page, HTTPStatus.OK if is_found else HTTPStatus.NOT_FOUND)


async def _answer_static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        return Response(status_code=404, headers=HEADERS)
    headers = {**HEADERS, "Cache-Control": "max-age=31536000, immutable"}
    return Response(read_static(name), media_type=STATIC[name], headers=headers)


def _read_id(request: Request, name: str) -> int | None:
    """Read a place in a list from the query; what is no number counts as not given."""
    written = request.query_params.get(name, "")
    is_number = written.isascii() and written.isdecimal() and len(written) <= _ID_DIGITS
    return int(written) or None if is_number else None
