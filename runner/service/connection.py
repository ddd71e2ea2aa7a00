"""The one door to the network: an exchange is one request and its answer, and no more.

No retries, no cookies, no netrc; redirects of GETs alone, and within the service.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urljoin

import requests
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.util import parse_url

from runner.service.answer import (
    BROKE_OFF,
    UNREADABLE,
    Answer,
    BrokenAnswerError,
    Location,
    read_body,
)
from runner.service.guard import Exchange, Habits, NoConnectionError, StoppedError
from runner.service.route import name_origin, open_session, parse_base_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.service.target import Target

# The library logs addresses.
logging.getLogger("urllib3").setLevel(logging.CRITICAL + 1)

_REDIRECTS = {
    HTTPStatus.MOVED_PERMANENTLY,
    HTTPStatus.FOUND,
    HTTPStatus.SEE_OTHER,
    HTTPStatus.TEMPORARY_REDIRECT,
    HTTPStatus.PERMANENT_REDIRECT,
}
_MOST_REDIRECTS = 5


class NetworkError(Exception):
    """No whole answer came back.

    Attributes:
        reason: in words, without the address, which carries credentials.
        bytes_left: whether any byte of the request can have left this machine.
    """

    def __init__(self, reason: str, *, bytes_left: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.bytes_left = bytes_left


class Connection:
    """Speaks HTTP with one target, from any number of threads.

    Args:
        target: its base URL and credentials must be there.
        verify: a CA bundle, as a file or a folder; True for the system's and that of requests.

    Raises:
        ConfigurationError: the target's host, the proxy for it or the CA bundle is not one that can be used.
    """

    def __init__(self, target: Target, *, verify: bool | str = True) -> None:
        if target.base_url is None or target.credentials is None:
            raise ValueError(target.name)
        url = parse_base_url(target)
        self._origin = name_origin(url)
        self._base_url = f"{url.scheme}://{url.netloc}{url.path or ''}"
        self._session = open_session(target, verify=verify)
        self._adapter = self._session.get_adapter(self._base_url)
        self._habits = Habits()
        self._timeout = (target.connect_timeout, target.read_timeout)
        self._patience_s = target.read_timeout
        self._credentials = urlencode(
            {"username": target.credentials.username, "api_key": target.credentials.api_key}
        )
        self._get = self._prepare("GET")
        self._post = self._prepare("POST", {"Content-Type": "application/json"})

    def post(self, path: str, body: bytes, look: Callable[[], None] = lambda: None) -> Answer:
        """Send one POST with a JSON body.

        Args:
            path: below the base URL.
            body: JSON.
            look: is called when the connection stands, right before the first byte; what it raises comes
                through, and nothing has been sent.

        Raises:
            NetworkError: no whole answer came back.
        """
        request = self._post.copy()
        request.url = f"{self._base_url}{path}?{self._credentials}"
        request.body = body
        request.headers["Content-Length"] = str(len(body))
        return self._exchange(request, look)

    def get(self, path: str, query: dict[str, str | int]) -> Answer:
        """Send one GET, and again where the service says that what was asked for is elsewhere in it.

        Raises:
            NetworkError: no whole answer came back.
        """
        asked = "&".join(filter(None, (urlencode(query), self._credentials)))
        url = f"{self._base_url}{path}"
        for _ in range(_MOST_REDIRECTS + 1):
            request = self._get.copy()
            request.url = f"{url}?{asked}"
            answer = self._exchange(request)
            if answer.location is None or answer.location.origin != self._origin:
                return answer
            # Of the new address just the path is taken: query and credentials are our own.
            url = f"{self._origin}{answer.location.path}"
        raise NetworkError(f"it redirects more than {_MOST_REDIRECTS} times", bytes_left=True)

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()

    def _prepare(self, method: str, headers: dict[str, str] | None = None) -> requests.PreparedRequest:
        request = requests.Request(method, self._base_url, headers=headers)
        return self._session.prepare_request(request)

    def _exchange(self, request: requests.PreparedRequest, look: Callable[[], None] = lambda: None) -> Answer:
        exchange = Exchange(look, self._patience_s, self._habits)
        try:
            with exchange.carried_by_this_thread():
                response = self._adapter.send(request, stream=True, timeout=self._timeout)
            with response:
                body = read_body(response.raw)
        except StoppedError as stopped:
            # As it was raised: what it came from is its own.
            raise stopped.cause from stopped.cause.__cause__
        except (NoConnectionError, BrokenAnswerError) as error:
            raise NetworkError(str(error), bytes_left=exchange.bytes_left) from None
        except (requests.RequestException, HTTPError, HTTPException, OSError, ValueError):
            # The library's own message holds the address.
            raise NetworkError(_explain(exchange), bytes_left=exchange.bytes_left) from None
        headers = {name.lower(): value for name, value in response.headers.items()}
        location = _find_location(response) if response.status_code in _REDIRECTS else None
        return Answer(response.status_code, headers, body, location)


def _explain(exchange: Exchange) -> str:
    """Return in words what has become of an exchange that the library gave up."""
    if not exchange.bytes_left:
        return "its address cannot be asked"
    is_cut_off = exchange.answer is not None and exchange.answer.is_cut_off
    return BROKE_OFF if is_cut_off else UNREADABLE


def _find_location(response: requests.Response) -> Location | None:
    """Return where a redirect leads; None if it does not say, or nothing that can be read."""
    try:
        url = parse_url(urljoin(str(response.url), response.headers["location"]))
        return Location(name_origin(url), url.path or "/") if url.host else None
    except (KeyError, ValueError, LocationParseError):
        return None
