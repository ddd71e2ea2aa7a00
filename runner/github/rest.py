"""A small client of GitHub's REST API (https://docs.github.com/rest).

It sends the token to the API's own host alone, follows pages, and distinguishes refusals from
failures that may pass. A job makes few requests: speed doesn't matter.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from runner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import requests


TIMEOUT_S = (10.0, 30.0)
"""Time limits in seconds for the connection, and for each piece of an answer."""
RETRIES, PAUSE_S = 2, 1.0
_REPEATABLE = frozenset({"GET", "PATCH"})
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}
_A_PAGE = 100
_SHA = re.compile(r"[0-9a-f]{7,64}")
ACTIONS_BOT = "github-actions[bot]"
"""The author of texts that a job writes with its own token."""


class UnavailableError(Exception):
    """GitHub that could not be asked, or not now; the text gives the reason."""


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


def is_safe_address(url: str) -> bool:
    """Return whether a token may be sent to an address: one that is encrypted, or on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)


def look_up(document: Any, *names: str) -> Any:
    """Return the JSON value at a path of names; None if there is none."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


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
        from requests.adapters import HTTPAdapter  # noqa: PLC0415  see above
        from requests.utils import get_environ_proxies  # noqa: PLC0415  see above
        from urllib3.util import Retry  # noqa: PLC0415  see above

        self._session = requests.Session()
        retry = Retry(
            RETRIES,
            backoff_factor=PAUSE_S,
            status_forcelist=(429, 500, 502, 503, 504),
            allowed_methods=_REPEATABLE,
            respect_retry_after_header=False,
            raise_on_status=False,
        )
        for scheme in ("https://", "http://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retry))
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

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Make one request below the repository, and return the answer's JSON; None if it has none.

        What can be repeated is tried some times while GitHub is unavailable.

        Raises:
            RefusedError: the token lacks the right, or the object is missing.
            UnavailableError: no answer came; the request may have been carried out all the same.
        """
        return _read(self._exchange(method, f"{self._place}/{path}", body))

    def list_all(self, path: str) -> Iterator[Any]:
        """Yield the elements of a list, asking for its pages one by one.

        Raises:
            RefusedError: it cannot be read.
            UnavailableError: it cannot be read now.
        """
        url: str | None = f"{self._place}/{path}{'&' if '?' in path else '?'}per_page={_A_PAGE}"
        while url is not None:
            if not url.startswith(f"{self._base_url}/"):
                raise UnavailableError("it leads to another host, which is not told the token")
            response = self._exchange("GET", url)
            data = _read(response)
            if not isinstance(data, list):
                raise UnavailableError("its answer cannot be read")
            yield from data
            url = response.links.get("next", {}).get("url")

    def find_login(self) -> str:
        """Return the author of this token's comments and issues.

        REST tells it only to people, GraphQL also to apps. If neither does, it is a job's own token.

        Raises:
            UnavailableError: no answer came.
        """
        if self._login is None:
            # GitHub Enterprise Server has GraphQL beside REST: https://HOST/api/v3, https://HOST/api/graphql.
            url = f"{self._base_url.removesuffix('/v3')}/graphql"
            try:
                data = _read(self._exchange("POST", url, {"query": "query { viewer { login } }"}))
            except RefusedError:
                data = None
            login = look_up(data, "data", "viewer", "login")
            self._login = login if isinstance(login, str) else ACTIONS_BOT
        return self._login

    def _exchange(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> requests.Response:
        import requests  # noqa: PLC0415  as above

        try:
            # A redirect could lead to a host that is not told the token: none is followed.
            return self._session.request(method, url, json=body, timeout=TIMEOUT_S, allow_redirects=False)
        except requests.RequestException as error:
            # The exception's own text can hold a proxy's password.
            raise UnavailableError(f"it cannot be reached ({type(error).__name__})") from None


def read_sha(value: Any) -> str:
    """Return the name of a commit; empty if the value is none."""
    return value if isinstance(value, str) and _SHA.fullmatch(value) else ""


def _read(response: requests.Response) -> Any:
    """Return an answer's JSON; raise on a fault of GitHub, a rate limit or a refusal.

    A limit is a 403 or 429 with `retry-after`, with `x-ratelimit-remaining: 0`, or with its name in the
    message (https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api).
    """
    try:
        data = response.json()
    except ValueError:
        data = None
    status, headers = response.status_code, response.headers
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnavailableError(f"it answered {status}")
    reason = str(look_up(data, "message") or "no reason given")
    is_used_up = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers
    is_limit = status == HTTPStatus.FORBIDDEN and (is_used_up or "rate limit" in reason.lower())
    if status == HTTPStatus.TOO_MANY_REQUESTS or is_limit:
        raise UnavailableError("its rate limit is reached")
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        raise RefusedError(status, reason)
    return data
