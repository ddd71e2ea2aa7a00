"""Who may look at the inbox: whoever sits at this machine, and elsewhere whoever knows the api_key."""

from __future__ import annotations

import hashlib
import hmac
import re
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import Route

from runner.sandbox.errors import RefusalError
from runner.sandbox.inbox.answers import HEADERS, answer_html, explained, redirect
from runner.sandbox.inbox.guard import read_form
from runner.sandbox.inbox.pages import render_page

if TYPE_CHECKING:
    from starlette.requests import Request

    from runner.sandbox.web.credentials import Account, Endpoint

LOGIN_PATH = "/_sandbox/inbox/login"
# One of this service: what a browser might read as the start of another host is left out.
_OWN_PATH = re.compile(r"/(?![/\\])[!-~]*", re.ASCII)


class Access:
    """Lets requests through that come from this machine, and others once they have shown the api_key.

    From this machine is what a loopback address sent. A reverse proxy on the same machine sends everything
    from there: who puts one in front of the sandbox decides with it who may look, and has it ask.

    Args:
        token: of the service's forms; it outlives a restart, and so does a session.
        account: whose api_key opens the inbox.
    """

    def __init__(self, token: str, account: Account) -> None:
        self._account = account
        # Neither of them can be turned back into the token or the key; another key ends every session.
        self._form_token = _derive(token, "form of the login")
        self._session = _derive(account.api_key, f"session {token}")
        # Cookies don't tell ports apart: the name tells one sandbox of a host from another.
        self._cookie = f"sandbox_inbox_{_derive(token, 'name of the cookie')[:12]}"

    def routes(self) -> list[Route]:
        """Give the routes of the page that asks for the api_key."""
        return [
            Route(LOGIN_PATH, explained(self.show_login), methods=["GET"]),
            Route(LOGIN_PATH, explained(self.log_in), methods=["POST"]),
        ]

    def guard_page(self, endpoint: Endpoint) -> Endpoint:
        """Send those who have to log in to the page for it, and from there back."""

        async def check_and_call(request: Request) -> Response:
            if self._is_open_to(request):
                return await endpoint(request)
            wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return redirect(f"{LOGIN_PATH}?next={quote(wanted, safe='/')}")

        return check_and_call

    def guard_form(self, endpoint: Endpoint) -> Endpoint:
        """Refuse the forms of those who have to log in."""

        async def check_and_call(request: Request) -> Response:
            if self._is_open_to(request):
                return await endpoint(request)
            raise RefusalError(
                401, "login_needed", "You are not logged in; reload the page. Nothing was done."
            )

        return check_and_call

    def guard_stream(self, endpoint: Endpoint) -> Endpoint:
        """Answer 401, without a page, to those who have to log in."""

        async def check_and_call(request: Request) -> Response:
            if self._is_open_to(request):
                return await endpoint(request)
            return Response(status_code=HTTPStatus.UNAUTHORIZED, headers=HEADERS)

        return check_and_call

    async def show_login(self, request: Request) -> Response:
        """Ask for the api_key."""
        return self._ask(request.query_params.get("next", "/"))

    async def log_in(self, request: Request) -> Response:
        """Begin a session for whoever knows the api_key; it lasts as long as the browser does."""
        form = await read_form(request, self._form_token)
        wanted = form.get("next", "/")
        try:
            self._account.check({"username": self._account.username, "api_key": form.get("api_key", "")})
        except RefusalError:
            return self._ask(wanted, HTTPStatus.FORBIDDEN)
        answer = redirect(wanted if _OWN_PATH.fullmatch(wanted) else "/")
        answer.set_cookie(self._cookie, self._session, path="/", httponly=True, samesite="strict")
        return answer

    def _ask(self, wanted: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
        is_wrong = status is not HTTPStatus.OK
        page = render_page("login", token=self._form_token, path=LOGIN_PATH, wanted=wanted, is_wrong=is_wrong)
        return answer_html(page, status)

    def _is_open_to(self, request: Request) -> bool:
        if request.client is not None and _is_loopback(request.client.host):
            return True
        shown = request.cookies.get(self._cookie, "")
        return hmac.compare_digest(shown.encode(errors="replace"), self._session.encode())


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _derive(secret: str, purpose: str) -> str:
    return hmac.new(secret.encode(errors="replace"), purpose.encode(), hashlib.sha256).hexdigest()
