"""A small client of GitHub's REST API (https://docs.github.com/rest).

It sends the token to the API's own host alone, follows pages and redirects, and distinguishes refusals from
failures that may pass. A job makes few requests: speed doesn't matter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from runner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import requests


TIMEOUT_S = (10.0, 30.0)
"""Time limits in seconds for the connection, and for each piece of an answer."""
_REDIRECTS = {301, 302, 307, 308}
_MOST_REDIRECTS = 3
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}


class UnavailableError(Exception):
    """GitHub that could not be asked, or asks for a pause; it may answer later.

    Attributes:
        reason: in words.
        wait_s: the requested pause, in seconds; None if there is none.
    """

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class GitHubAnswer:
    """An answer of the API.

    Attributes:
        status: the HTTP status.
        headers: by name in any case.
        data: its JSON; None if it has none that can be read.
        next_url: the list's next page (RFC 8288).
    """

    status: int
    headers: Mapping[str, str]
    data: Any
    next_url: str | None


def is_safe_address(url: str) -> bool:
    """Return whether a token may be sent to an address: one that is encrypted, or on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)


def _read_answer(response: requests.Response) -> GitHubAnswer:
    try:
        data = response.json()
    except ValueError:
        data = None
    next_url = response.links.get("next", {}).get("url")
    return GitHubAnswer(response.status_code, response.headers, data, next_url)


def look_up(document: Any, *names: str) -> Any:
    """Return the JSON value at a path of names; None if there is none."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


ACTIONS_BOT = "github-actions[bot]"
"""The author of texts that a job writes with its own token."""
_A_PAGE = 100
_AN_HOUR_S = 3600.0
"""The window of a rate limit that is used up."""
_SHA = re.compile(r"[0-9a-f]{7,64}")


class RefusedError(Exception):
    """A request that GitHub refused: without rights, or for a missing object.

    Attributes:
        status: the HTTP status.
        reason: in GitHub's words.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason


class Repository:
    """A repository, as the REST API with the right of a token shows it.

    Args:
        base_url: the API's, as in `https://api.github.com`.
        token: sent as a header, to this address alone.
        name: the repository's, as in `owner/name`.
        verify: a CA bundle, as a file or a folder; True for that of requests.
    """

    def __init__(self, base_url: str, token: str, name: str, *, verify: bool | str = True) -> None:
        self._base_url = base_url.rstrip("/")
        self._place = f"{self._base_url}/repos/{name}"
        self._login: str | None = None
        # Late: a plan asks the modules above about its job, and asks nobody.
        import requests  # noqa: PLC0415  see above
        from requests.utils import get_environ_proxies  # noqa: PLC0415  see above

        self._session = requests.Session()
        # The environment's proxies are meant; a netrc would replace the token.
        self._session.trust_env = False
        self._session.proxies.update(get_environ_proxies(self._base_url))
        self._session.verify = verify
        self._session.headers.update(
            {
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
                "User-Agent": f"sms-campaign-runner/{__version__}",
                "Authorization": f"Bearer {token}",
            }
        )

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> GitHubAnswer:
        """Make one request and return an answer that is no failure.

        Args:
            method: as in `GET`.
            path: below the repository, or a whole URL from the API; with its query.
            body: sent as JSON.

        Raises:
            RefusedError: the token lacks the right, or the object is missing.
            UnavailableError: no answer came; the request may have been carried out all the same.
        """
        is_whole = path.startswith(("https://", "http://"))
        answer = self._ask(method, path if is_whole else f"{self._place}/{path}", body)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            reason = look_up(answer.data, "message")
            raise RefusedError(answer.status, reason if isinstance(reason, str) else "no reason given")
        return answer

    def list_all(self, path: str) -> Iterator[Any]:
        """Yield the elements of a list, asking for its pages one by one.

        Raises:
            RefusedError: it cannot be read.
            UnavailableError: it cannot be read now.
        """
        mark = "&" if "?" in path else "?"
        url: str | None = f"{path}{mark}per_page={_A_PAGE}"
        while url is not None:
            answer = self.ask("GET", url)
            if not isinstance(answer.data, list):
                raise UnavailableError("its answer cannot be read")
            yield from answer.data
            url = answer.next_url

    def find_login(self) -> str:
        """Return the author of this token's comments and issues.

        REST tells it only to people, GraphQL also to apps. If neither does, it is a job's own token.

        Raises:
            UnavailableError: no answer came.
        """
        if self._login is None:
            # GitHub Enterprise Server has GraphQL beside REST: https://HOST/api/v3, https://HOST/api/graphql.
            url = f"{self._base_url.removesuffix('/v3')}/graphql"
            answer = self._ask("POST", url, {"query": "query { viewer { login } }"})
            login = look_up(answer.data, "data", "viewer", "login")
            self._login = login if isinstance(login, str) else ACTIONS_BOT
        return self._login

    def _ask(self, method: str, url: str, body: Mapping[str, Any] | None) -> GitHubAnswer:
        """Make one request, and follow redirects within the API's own host."""
        for _ in range(_MOST_REDIRECTS + 1):
            if not self._is_own(url):
                raise UnavailableError("it leads to another host, which is not told the token")
            response = self._exchange(method, url, body)
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or location is None:
                answer = _read_answer(response)
                _require_available(answer)
                return answer
            url = urljoin(url, location)
        raise UnavailableError("it redirects without end")

    def _is_own(self, url: str) -> bool:
        asked, own = urlsplit(url), urlsplit(self._base_url)
        return (asked.scheme, asked.netloc) == (own.scheme, own.netloc)

    def _exchange(self, method: str, url: str, body: Mapping[str, Any] | None) -> requests.Response:
        import requests  # noqa: PLC0415  as above

        try:
            return self._session.request(method, url, json=body, timeout=TIMEOUT_S, allow_redirects=False)
        except requests.Timeout:
            raise UnavailableError("it did not answer in time") from None
        except requests.RequestException as error:
            # The exception's own text can hold a proxy's password.
            raise UnavailableError(f"it cannot be reached ({type(error).__name__})") from None


def read_sha(value: Any) -> str:
    """Return the name of a commit; empty if the value is none."""
    return value if isinstance(value, str) and _SHA.fullmatch(value) else ""


def _require_available(answer: GitHubAnswer) -> None:
    """Raise on a fault of GitHub or a rate limit.

    A limit is a 403 or 429 with `retry-after`, with `x-ratelimit-remaining: 0`, or with its name in the
    message (https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api).
    """
    status, headers = answer.status, answer.headers
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnavailableError(f"it answered {status}", _read_number(headers.get("retry-after")))
    message = str(look_up(answer.data, "message") or "").lower()
    is_used_up = headers.get("x-ratelimit-remaining") == "0"
    is_limit = status == HTTPStatus.TOO_MANY_REQUESTS or (
        status == HTTPStatus.FORBIDDEN and (is_used_up or "retry-after" in headers or "rate limit" in message)
    )
    if is_limit:
        wait_s = _read_number(headers.get("retry-after"))
        raise UnavailableError("its rate limit is reached", _AN_HOUR_S if is_used_up else wait_s)


def _read_number(written: str | None) -> float | None:
    return float(written) if written is not None and written.isascii() and written.isdecimal() else None
