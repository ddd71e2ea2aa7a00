"""Requests to a forge's REST API. The token goes to the API's own host, and nowhere else.

Not through the door of `runner.service`: that one is made for one service and its credentials in the query.
Here a few requests are made in a job, with headers, paging and redirects, and speed doesn't matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import requests
from requests.utils import get_environ_proxies

from runner import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S = (10.0, 30.0)
"""For the connection, and for each piece of an answer."""
_REDIRECTS = {301, 302, 307, 308}
_MOST_REDIRECTS = 3
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}


class UnavailableError(Exception):
    """The forge could not be asked, or asks to be left alone: later it may answer.

    Attributes:
        reason: in words.
        wait_s: for how long it asks to be left alone, in seconds; None if it doesn't say.
    """

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class ForgeAnswer:
    """What the API answered.

    Attributes:
        status: the HTTP status.
        headers: by their names in any case.
        data: its JSON; None if it has none that can be read.
        next_url: where the list goes on, if it does (RFC 8288).
    """

    status: int
    headers: Mapping[str, str]
    data: Any
    next_url: str | None


class ForgeConnection:
    """Speaks with one REST API.

    Attributes:
        base_url: without a slash at its end.

    Args:
        base_url: as in `https://api.github.com`.
        token: goes out as a header, to this address alone.
        verify: a CA bundle, as a file or a folder; True for that of requests.
    """

    def __init__(self, base_url: str, token: str, *, verify: bool | str = True) -> None:
        self.base_url = base_url.rstrip("/")
        self._session = requests.Session()
        # The environment's proxies are meant; a netrc would take the place of the token.
        self._session.trust_env = False
        self._session.proxies.update(get_environ_proxies(self.base_url))
        self._session.verify = verify
        self._session.headers.update(
            {
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
                "User-Agent": f"sms-campaign-runner/{__version__}",
                "Authorization": f"Bearer {token}",
            }
        )

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> ForgeAnswer:
        """Make one request, and follow redirects within the API's own host.

        Args:
            method: as in `GET`.
            path: below the base URL, with its query; or a whole URL that the API gave.
            body: is sent as JSON.

        Raises:
            UnavailableError: no answer came.
        """
        url = path if urlsplit(path).scheme else self.base_url + path
        for _ in range(_MOST_REDIRECTS + 1):
            if not self._is_own(url):
                raise UnavailableError("it leads to another host, which is not told the token")
            response = self._exchange(method, url, body)
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or location is None:
                return _read_answer(response)
            url = urljoin(url, location)
        raise UnavailableError("it redirects without end")

    def _is_own(self, url: str) -> bool:
        asked, own = urlsplit(url), urlsplit(self.base_url)
        return (asked.scheme, asked.netloc) == (own.scheme, own.netloc)

    def _exchange(self, method: str, url: str, body: Mapping[str, Any] | None) -> requests.Response:
        try:
            return self._session.request(method, url, json=body, timeout=TIMEOUT_S, allow_redirects=False)
        except requests.Timeout:
            raise UnavailableError("it did not answer in time") from None
        except requests.RequestException as error:
            # Its own words can hold a proxy's password.
            raise UnavailableError(f"it cannot be reached ({type(error).__name__})") from None


def is_safe_address(url: str) -> bool:
    """Return whether a token may go to an address: encrypted, or not beyond this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)


def _read_answer(response: requests.Response) -> ForgeAnswer:
    try:
        data = response.json()
    except ValueError:
        data = None
    next_url = response.links.get("next", {}).get("url")
    return ForgeAnswer(response.status_code, response.headers, data, next_url)


def look_up(document: Any, *names: str) -> Any:
    """Return what stands in JSON under a path of names; None if there is nothing."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document
