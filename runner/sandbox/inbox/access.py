"""Access to the inbox: from this machine, or with the api_key, and never for other web pages."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import OrderedDict
from datetime import timedelta
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

from starlette.responses import Response
from starlette.routing import Route

from runner.sandbox.inbox.pages import HEADERS, answer_html, explained, redirect, render_page, write_ahead
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.web.refusals import read_body

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from runner.sandbox.web.refusals import Account, Endpoint


FORM_BYTES_MAX = 64 * 1024
TOO_LONG = "That is too long for a text; nothing was done."
LOGIN_PATH = "/_sandbox/inbox/login"
LOGOUT_PATH = "/_sandbox/inbox/logout"
_FREE_TRIES = 5
_LONGEST_WAIT_S = 300.0
_ADDRESSES_MAX = 1000
_IPV6_SITE = 64  # bits: one customer has them all
# A path of this service: starts that a browser might read as another host are excluded.
_OWN_PATH = re.compile(r"/(?![/\\])[!-~]*", re.ASCII)


def is_foreign(request: Request) -> bool:
    """Return whether another web page made the browser send this request.

    Browsers send Sec-Fetch-Site (W3C Fetch Metadata), older ones Origin. An Origin of `null` is inconclusive:
    under `Referrer-Policy: no-referrer` our own forms send it too (Fetch standard, "append a request `Origin`
    header"), and the token decides.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in {"same-origin", "none"}
    origin = request.headers.get("origin", "null")
    return origin not in {"null", f"{request.scope['scheme']}://{request.headers.get('host')}"}


async def read_form(request: Request, token: str) -> Mapping[str, str]:
    """Return the fields of one of our own forms; of a repeated field, the last value.

    Raises:
        RefusalError: 403, another page sent it or the token is not ours; 413, it is too long.
    """
    if is_foreign(request):
        raise RefusalError(403, "cross_site", "Another web page sent this form; nothing was done.")
    body = await read_body(request, FORM_BYTES_MAX, TOO_LONG)
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, errors="replace")
    form = {name: values[-1] for name, values in fields.items()}
    if not hmac.compare_digest(form.get("token", "").encode(), token.encode()):
        raise RefusalError(403, "invalid_token", "This form is out of date; reload the page and try again.")
    return form


class WrongKeys:
    """Wrong keys by address: after some, each one doubles the time before the next try.

    Args:
        read_time: returns seconds of a clock that never goes back.
    """

    def __init__(self, read_time: Callable[[], float] = monotonic) -> None:
        self._read_time = read_time
        # Number of wrong keys, and when the next is read; the oldest address comes first.
        self._tries: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def find_wait_s(self, host: str) -> int:
        """Return the seconds, rounded up, before an address may try again; 0 if it may now."""
        _, ends = self._tries.get(_find_site(host), (0, 0.0))
        return max(0, ceil(ends - self._read_time()))

    def note(self, host: str) -> None:
        """Count a wrong key."""
        site = _find_site(host)
        count = self._tries.pop(site, (0, 0.0))[0] + 1
        wait = min(2.0 ** min(count - _FREE_TRIES, 20), _LONGEST_WAIT_S) if count >= _FREE_TRIES else 0.0
        self._tries[site] = (count, self._read_time() + wait)
        while len(self._tries) > _ADDRESSES_MAX:
            self._tries.popitem(last=False)

    def forget(self, host: str) -> None:
        """Start again, after the right key."""
        self._tries.pop(_find_site(host), None)


class Access:
    """A filter that accepts requests from this machine, and others after login with the api_key.

    Requests from loopback addresses are from this machine, including all of a reverse proxy on it: such a
    proxy has to control access itself.

    Args:
        token: of the service's forms; it survives restarts, and so do sessions.
        account: has the api_key.
    """

    def __init__(self, token: str, account: Account) -> None:
        self._account = account
        self._token = token
        self._wrong_keys = WrongKeys()
        # Neither token nor key can be derived from them; another key ends every session.
        self._form_token = _derive(token, "form of the login")
        self._session = _derive(account.api_key, f"session {token}")
        # Cookies ignore ports: the name separates the sandboxes of a host.
        self._cookie = f"sandbox_inbox_{_derive(token, 'name of the cookie')[:12]}"

    def routes(self) -> list[Route]:
        """Return the routes of the login page."""
        return [
            Route(LOGIN_PATH, explained(self.show_login), methods=["GET"]),
            Route(LOGIN_PATH, explained(self.log_in), methods=["POST"]),
            Route(LOGOUT_PATH, explained(self.log_out), methods=["POST"]),
        ]

    def guard_page(self, endpoint: Endpoint) -> Endpoint:
        """Redirect a page to the login, and back, where it is required."""

        def ask(request: Request) -> Response:
            wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return redirect(f"{LOGIN_PATH}?next={quote(wanted, safe='/')}")

        return self._guard(endpoint, ask)

    def guard_form(self, endpoint: Endpoint) -> Endpoint:
        """Refuse forms where a login is required."""

        def refuse(_request: Request) -> Response:
            message = "You are not logged in; reload the page. Nothing was done."
            raise RefusalError(401, "login_needed", message)

        return self._guard(endpoint, refuse)

    def guard_stream(self, endpoint: Endpoint) -> Endpoint:
        """Answer 401, without a page, where a login is required."""
        return self._guard(endpoint, lambda _: Response(status_code=HTTPStatus.UNAUTHORIZED, headers=HEADERS))

    def _guard(self, endpoint: Endpoint, refuse: Callable[[Request], Response]) -> Endpoint:
        async def check_and_call(request: Request) -> Response:
            return await endpoint(request) if self._is_open_to(request) else refuse(request)

        return check_and_call

    async def show_login(self, request: Request) -> Response:
        """Show the login page."""
        return self._ask(request.query_params.get("next", "/"))

    async def log_in(self, request: Request) -> Response:
        """Begin a session after a correct api_key; it lasts as long as the browser."""
        form = await read_form(request, self._form_token)
        wanted = form.get("next", "/")
        host = request.client.host if request.client else ""
        if wait_s := self._wrong_keys.find_wait_s(host):
            problem = f"Too many wrong keys. Wait {write_ahead(timedelta(seconds=wait_s))}, then try again."
            answer = self._ask(wanted, problem, HTTPStatus.TOO_MANY_REQUESTS)
            answer.headers["Retry-After"] = str(wait_s)
            return answer
        try:
            self._account.check({"username": self._account.username, "api_key": form.get("api_key", "")})
        except RefusalError:
            self._wrong_keys.note(host)
            return self._ask(wanted, "That is not the api_key of this sandbox.", HTTPStatus.FORBIDDEN)
        self._wrong_keys.forget(host)
        answer = redirect(wanted if _OWN_PATH.fullmatch(wanted) else "/")
        answer.set_cookie(self._cookie, self._session, path="/", httponly=True, samesite="strict")
        return answer

    async def log_out(self, request: Request) -> Response:
        """End the browser's session."""
        await read_form(request, self._token)
        answer = redirect(LOGIN_PATH)
        answer.delete_cookie(self._cookie, path="/", httponly=True, samesite="strict")
        return answer

    def has_session(self, request: Request) -> bool:
        """Return whether a request comes from a browser that has logged in."""
        return not _is_near(request) and self._is_open_to(request)

    def _ask(self, wanted: str, problem: str = "", status: HTTPStatus = HTTPStatus.OK) -> Response:
        page = render_page("login", token=self._form_token, path=LOGIN_PATH, wanted=wanted, problem=problem)
        return answer_html(page, status)

    def _is_open_to(self, request: Request) -> bool:
        if _is_near(request):
            return True
        shown = request.cookies.get(self._cookie, "")
        return hmac.compare_digest(shown.encode(errors="replace"), self._session.encode())


def _is_near(request: Request) -> bool:
    return request.client is not None and _is_loopback(request.client.host)


def _find_site(host: str) -> str:
    """Return the network of an IPv6 address that one customer has, and any other address as it is."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(ip_network((address, _IPV6_SITE), strict=False)) if address.version == 6 else host  # noqa: PLR2004


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _derive(secret: str, purpose: str) -> str:
    return hmac.new(secret.encode(errors="replace"), purpose.encode(), hashlib.sha256).hexdigest()
