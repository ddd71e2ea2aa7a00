"""Access to the inbox: from this machine, or with the api_key, and never for other web pages."""

from __future__ import annotations

import base64
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING

from starlette.responses import Response

from runner.sandbox.inbox.pages import HEADERS
from runner.sandbox.sandbox_errors import RefusalError

if TYPE_CHECKING:
    from starlette.requests import Request

    from runner.sandbox.web.refusals import Account, Endpoint

_ASK = {**HEADERS, "WWW-Authenticate": 'Basic realm="Sandbox inbox", charset="UTF-8"'}


def is_foreign(request: Request) -> bool:
    """Return whether another web page made the browser send this request.

    Browsers send Sec-Fetch-Site (W3C Fetch Metadata) to this machine and over https; elsewhere, and in older
    ones, every POST has an Origin. Programs send neither.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in {"same-origin", "none"}
    own = f"{request.scope['scheme']}://{request.headers.get('host')}"
    return request.headers.get("origin", own) != own


def guard(endpoint: Endpoint, account: Account, *, is_page: bool = False) -> Endpoint:
    """Require a request from this machine, or HTTP Basic credentials (RFC 7617); and none of another page.

    Requests from loopback addresses are from this machine, including all of a reverse proxy on it: such a
    proxy has to control access itself. `is_page` lets other pages link to it.
    """

    async def check_and_call(request: Request) -> Response:
        if not _is_near(request) and not _has_credentials(request, account):
            text = "The inbox asks for the username and the api_key, which `runner sandbox serve` prints."
            return Response(text, HTTPStatus.UNAUTHORIZED, _ASK, "text/plain")
        if not is_page and is_foreign(request):
            raise RefusalError(403, "cross_site", "Another web page sent this; nothing was done.")
        return await endpoint(request)

    return check_and_call


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
