"""The way to a target: its address, the proxy before it, and whom to believe that it is the one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import certifi
import requests
from requests.utils import get_environ_proxies
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.util import parse_url
from urllib3.util.ssl_ import create_urllib3_context

from runner.errors import ConfigurationError
from runner.service.target import SANDBOX

if TYPE_CHECKING:
    import ssl

    from requests.adapters import HTTPAdapter
    from urllib3 import HTTPConnectionPool
    from urllib3.util import Url

    from runner.service.target import Target


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


def open_pool(adapter: HTTPAdapter, target: Target, *, verify: bool | str) -> HTTPConnectionPool:
    """Return a pool set up as requests would for its own calls: with certificates, and the proxy if any.

    Args:
        adapter: keeps the pool.
        target: its base URL must be there.
        verify: a CA bundle, as a file or a folder; True for the system's and that of requests.

    Raises:
        ConfigurationError: the proxy or the CA bundle is not one that can be used.
    """
    request, url = requests.PreparedRequest(), str(target.base_url)
    request.method, request.url, request.headers = "GET", url, requests.structures.CaseInsensitiveDict()
    # The sandbox is on this machine, which a proxy would look for on its own.
    proxies: Any = {} if target.name == SANDBOX else get_environ_proxies(url)
    try:
        pool: Any = adapter.get_connection_with_tls_context(request, verify=True, proxies=proxies)
    except (requests.RequestException, HTTPError, TypeError):
        # Their messages hold the proxy's password. A TypeError is what requests makes of one without a host.
        raise ConfigurationError(
            f"the proxy for the target {target.name!r} is not one that can be used",
            hint="check http_proxy, https_proxy and all_proxy",
        ) from None
    if pool.scheme == "https":
        # One for all connections: to read all certificates again takes longer than many sends.
        context = _make_tls_context(verify)
        pool.conn_kw["ssl_context"] = context
        if pool.proxy_config is not None:
            pool.conn_kw["proxy_config"] = pool.proxy_config._replace(ssl_context=context)
    return cast("HTTPConnectionPool", pool)


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
