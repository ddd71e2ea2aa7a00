"""The way to a target: its address, the proxy before it, and whom to believe that it is the one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import certifi
import requests
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies, select_proxy
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.util import parse_url
from urllib3.util.ssl_ import create_urllib3_context

from runner import __version__
from runner.errors import ConfigurationError
from runner.service.guard import guard_pools
from runner.service.target import SANDBOX

if TYPE_CHECKING:
    import ssl

    from urllib3 import HTTPConnectionPool
    from urllib3.util import Url

    from runner.service.target import Target

_SPARE = 2
"""Connections for those who ask while all others send."""
_PORTS = {"http": 80, "https": 443}


class ServiceAdapter(HTTPAdapter):
    """Sends a session's requests to the one target that the session is for.

    Their pool is found once: the library would look for it again with each request.

    Args:
        url: the target's base URL.
        proxies: the session's.
        context: for TLS; None where none is spoken. One for all connections: to read all certificates again
            takes longer than many sends.
        connections: how many are kept.

    Raises:
        RequestException: the proxy is not one that can be used; also HTTPError and TypeError.
    """

    def __init__(
        self, url: str, proxies: dict[str, str], context: ssl.SSLContext | None, connections: int
    ) -> None:
        self._context = context
        super().__init__(pool_connections=1, pool_maxsize=connections, max_retries=0)
        self._sample = requests.PreparedRequest()
        self._sample.url = url
        self._proxies = proxies
        self._pool = self._find_pool()
        # A proxy that is asked for an address in the clear is told all of it; through others goes a tunnel.
        self._is_forwarded = not super().request_url(self._sample, proxies).startswith("/")

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Have the pools make guarded connections."""
        super().init_poolmanager(*args, ssl_context=self._context, **options)
        guard_pools(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        """Return what makes guarded connections through a proxy."""
        contexts = {"ssl_context": self._context, "proxy_ssl_context": self._context}
        manager = super().proxy_manager_for(proxy, **contexts, **options)
        guard_pools(manager)
        return manager

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:
        """Return the one pool."""
        return self._pool

    def close(self) -> None:
        """Close the kept connections; who sends again opens others."""
        super().close()
        self._pool.close()
        self._pool = self._find_pool()

    def _find_pool(self) -> HTTPConnectionPool:
        pool = super().get_connection_with_tls_context(self._sample, verify=True, proxies=self._proxies)
        return cast("HTTPConnectionPool", pool)

    def cert_verify(self, *_: Any) -> None:
        """Leave it to the context, which has read the certificates."""

    def request_url(self, request: requests.PreparedRequest, _proxies: Any) -> str:
        """Return an address as the first line of a request has it."""
        return str(request.url) if self._is_forwarded else request.path_url


def parse_base_url(target: Target) -> Url:
    """Return the base URL as it goes over the wire: percent-encoded, and its host in Punycode.

    Raises:
        ConfigurationError: it has a host that cannot be one.
    """
    try:
        return parse_url(str(target.base_url))
    except LocationParseError:
        raise ConfigurationError(
            f"the base URL of the target {target.name!r} has a host that cannot be one",
            hint="check RUNNER_BASE_URL, or `base_url` in targets.yaml",
        ) from None


def name_origin(url: Url) -> str:
    """Return the scheme, host and port of an address, the same for all that mean the same."""
    port = "" if url.port in (None, _PORTS.get(str(url.scheme))) else f":{url.port}"
    return f"{url.scheme}://{url.host}{port}"


def open_session(target: Target, *, verify: bool | str) -> requests.Session:
    """Return a session for a target, which has read the environment once: no cookies, no netrc, no retries.

    Args:
        target: its base URL must be there.
        verify: a CA bundle, as a file or a folder; True for the system's and that of requests.

    Raises:
        ConfigurationError: the proxy or the CA bundle is not one that can be used.
    """
    url = parse_base_url(target).url
    session = requests.Session()
    session.trust_env = False
    session.headers.clear()
    session.headers.update(
        {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"sms-campaign-runner/{__version__}",
        }
    )
    # The sandbox is on this machine, which a proxy would look for on its own.
    session.proxies = {} if target.name == SANDBOX else get_environ_proxies(url)
    proxy = select_proxy(url, session.proxies) or ""
    needs_tls = any(address.lower().startswith("https:") for address in (url, proxy))
    context = _make_tls_context(verify) if needs_tls else None
    try:
        adapter = ServiceAdapter(url, session.proxies, context, target.concurrency + _SPARE)
    except (requests.RequestException, HTTPError, TypeError):
        # Their messages hold the proxy's password. A TypeError is what requests makes of one without a host.
        raise ConfigurationError(
            f"the proxy for the target {target.name!r} is not one that can be used",
            hint="check http_proxy, https_proxy and all_proxy",
        ) from None
    # There is no way to anywhere else.
    session.adapters.clear()
    session.mount(url, adapter)
    return session


def _make_tls_context(verify: bool | str) -> ssl.SSLContext:  # noqa: FBT001  as in requests
    context = create_urllib3_context()
    if not isinstance(verify, str):
        # The system's, for companies that have their own; and requests', for systems that have none.
        context.load_default_certs()
        verify = certifi.where()
    is_folder = Path(verify).is_dir()
    try:
        context.load_verify_locations(None if is_folder else verify, verify if is_folder else None)
    except OSError:
        raise ConfigurationError(
            f"the CA bundle {verify} cannot be read", hint="check REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE"
        ) from None
    return context
