"""The service as one ASGI application: the API, its OpenAPI description, and the inbox.

Requests that name another host are refused: any web site can make its name lead to 127.0.0.1 and read the
sandbox's answers as its own (DNS rebinding), but then the Host header has that name.
"""

from __future__ import annotations

import re
import socket
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner.sandbox.inbox.routes import inbox_routes
from runner.sandbox.web.control import ControlRoutes
from runner.sandbox.web.endpoints import Api
from runner.sandbox.web.refusals import ERROR_HANDLERS, answer_error
from runner.sandbox.web.request_log import RequestLog
from runner.sandbox.webhooks.receiver import is_local

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from runner.sandbox.commits import Writer
    from runner.sandbox.rehearsal.faults import Faults
    from runner.sandbox.web.refusals import Account


_MEDIA_TYPE = "application/yaml"  # RFC 9512
_PACKAGE = Path(__file__).resolve().parents[2]
_SERVICE = "schemas/service.openapi.yaml"
_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]@/]+))(?::[0-9]*)?")


async def _describe(_request: Request) -> Response:
    """Return the API's description, from the repository's top, or from `runner/shipped/` of a wheel."""
    installed = _PACKAGE / "shipped" / _SERVICE
    file = installed if installed.is_file() else _PACKAGE.parent / _SERVICE
    return Response(file.read_bytes(), media_type=_MEDIA_TYPE)


async def _live(_request: Request) -> Response:
    return JSONResponse({"status": "live"})


class HostGuard:
    """A filter of requests by host: 421 for all but this host's names; no host, as in HTTP/1.0, is allowed.

    Args:
        app: the application behind it.
        listens_on: the service's host. One that listens on all addresses accepts any IP address, since only
            names can be rebound.
        allowed: further names of the service, as of a container or a tunnel.
    """

    def __init__(self, app: ASGIApp, listens_on: str, allowed: Collection[str]) -> None:
        self._app = app
        self._takes_addresses = listens_on in {"0.0.0.0", "::"}  # noqa: S104  compared
        own = (socket.gethostname(),) if self._takes_addresses else ()
        self._names = {name.lower() for name in (listens_on, *allowed, *own)}
        # Few spellings reach a service; the bound is against strangers.
        self._is_own = lru_cache(maxsize=64)(self._names_this_host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it (RFC 9110, section 15.5.20)."""
        for name, value in scope["headers"]:
            if name == b"host" and not self._is_own(value):
                message = "The Host header names another host than this one."
                await answer_error(421, "misdirected_request", message)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _names_this_host(self, header: bytes) -> bool:
        match = _HOST.fullmatch(header.decode("latin-1").strip().lower())
        if match is None:
            return False
        host = match["v6"] or match["name"]
        # No name has digits alone.
        is_address = match["v6"] is not None or host.replace(".", "").isdecimal()
        return host in self._names or is_local(host) or (self._takes_addresses and is_address)


def make_app(
    writer: Writer, *, account: Account, faults: Faults, listens_on: str, allowed_hosts: Collection[str] = ()
) -> ASGIApp:
    """Return the whole service as an application.

    `listens_on` is the service's host, `allowed_hosts` are its further names.
    """
    requests = RequestLog()
    control = ControlRoutes(writer, faults, requests)
    app = Starlette(
        # The API first: routes are tried in their order.
        routes=[
            *Api(writer, faults).routes(account),
            *control.routes(account),
            # For every tool, without credentials.
            Route("/openapi.yaml", _describe, methods=["GET"]),
            Route("/livez", _live, methods=["GET"]),
            *inbox_routes(writer, account, control),
        ],
        exception_handlers=ERROR_HANDLERS,
    )
    app.router.redirect_slashes = False
    return HostGuard(requests.watch(app), listens_on, allowed_hosts)
