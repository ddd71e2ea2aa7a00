"""The one door to the network: requests, told to do no more than a request.

Each call is one request and no more: no retries, no redirects, no cookies, no netrc. What the
environment says of proxies and certificates is read once, not for every call (design: performance).
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import requests
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from runner import __version__

if TYPE_CHECKING:
    from runner.service.target import Target

_this_thread = threading.local()

# The library logs the address of each request, and the address carries the credentials.
logging.getLogger("urllib3").setLevel(logging.CRITICAL + 1)


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


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, read to its end."""

    status: int
    headers: requests.structures.CaseInsensitiveDict[str]
    body: bytes


class _Noting:
    """Notes, for the thread that sends, that bytes are about to leave: what comes after is not certain."""

    def send(self, data: Any) -> None:
        if self.sock is None:  # type: ignore[attr-defined]
            self.connect()  # type: ignore[attr-defined]
        _this_thread.bytes_left = True
        super().send(data)  # type: ignore[misc]


class _NotingHTTPConnection(_Noting, HTTPConnection):
    pass


class _NotingHTTPSConnection(_Noting, HTTPSConnection):
    pass


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _NotingHTTPConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _NotingHTTPSConnection


class _NotingAdapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _PlainPool, "https": _TlsPool}

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _TlsPool}
        return manager


class Connection:
    """Speaks HTTP with one target, from any number of threads.

    Args:
        target: its base URL and credentials must be there.
        verify: a CA bundle, or True for the default one.
    """

    def __init__(self, target: Target, *, verify: bool | str = True) -> None:
        if target.base_url is None or target.credentials is None:
            raise ValueError(target.name)
        self._base_url = target.base_url
        self._credentials = {"username": target.credentials.username, "api_key": target.credentials.api_key}
        self._timeout = (target.connect_timeout, target.read_timeout)
        self._verify = verify
        self._proxies: Any = get_environ_proxies(target.base_url)
        self._adapter = _NotingAdapter(pool_connections=1, pool_maxsize=target.concurrency, max_retries=0)
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"sms-campaign-runner/{__version__}",
        }

    def post(self, path: str, body: bytes) -> Answer:
        """Send one POST with a JSON body.

        Raises:
            NetworkError: no whole answer came back.
        """
        headers = {**self._headers, "Content-Type": "application/json", "Content-Length": str(len(body))}
        return self._exchange("POST", path, {}, headers, body)

    def get(self, path: str, query: dict[str, str | int]) -> Answer:
        """Send one GET.

        Raises:
            NetworkError: no whole answer came back.
        """
        return self._exchange("GET", path, query, dict(self._headers), None)

    def close(self) -> None:
        """Close the pooled connections."""
        self._adapter.close()

    def _exchange(
        self, method: str, path: str, query: dict[str, str | int], headers: dict[str, str], body: bytes | None
    ) -> Answer:
        request = requests.PreparedRequest()
        request.method = method
        request.url = f"{self._base_url}{path}?{urlencode({**query, **self._credentials})}"
        request.headers = requests.structures.CaseInsensitiveDict(headers)
        request.body = body
        _this_thread.bytes_left = False
        try:
            response = self._adapter.send(
                request, timeout=self._timeout, verify=self._verify, proxies=self._proxies
            )
            return Answer(response.status_code, response.headers, response.content)
        except (requests.RequestException, HTTPError, OSError) as error:
            # The library's own message holds the address, and the address the credentials.
            raise NetworkError(_reason(error), bytes_left=_this_thread.bytes_left) from None


def _reason(error: Exception) -> str:
    kinds: list[tuple[type[Exception] | tuple[type[Exception], ...], str]] = [
        (requests.exceptions.ConnectTimeout, "it did not take the connection in time"),
        (requests.exceptions.ReadTimeout, "it did not answer in time"),
        (requests.exceptions.SSLError, "its certificate was not accepted, or TLS failed"),
        (requests.exceptions.ProxyError, "the proxy refused"),
        (requests.exceptions.ChunkedEncodingError, "its answer broke off"),
    ]
    for kind, words in kinds:
        if isinstance(error, kind):
            return words
    if getattr(_this_thread, "bytes_left", False):
        return "the connection broke before an answer came"
    return "it cannot be reached"
