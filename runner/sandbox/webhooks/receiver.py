"""Webhook addresses: their URLs, and the hosts that they may lead to.

Webhooks lead to this machine, and beyond it only to hosts that the person who starts a service allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from runner.sandbox.sandbox_errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterable


_DEFAULT_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9])")  # RFC 3986, section 3.1
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,252}[a-z0-9_.])?")
_KEPT = "%/:@!$&'()*+,;=~-._"  # RFC 3986, section 3.3: characters that a path may hold, and escapes


@dataclass(frozen=True, slots=True)
class Receiver:
    """The destination of a webhook URL.

    Attributes:
        is_secure: True for https.
        host: name in lower case and ASCII, or IP address without brackets.
        port: TCP port.
        target: path and query, escaped as in the request line; may hold secrets.
    """

    is_secure: bool
    host: str
    port: int
    target: str = field(repr=False)

    @property
    def authority(self) -> str:
        """The Host header's value."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == _DEFAULT_PORTS["https" if self.is_secure else "http"]
        return host if is_default else f"{host}:{self.port}"


def has_scheme(url: str) -> bool:
    """Return whether a webhook has a scheme, rather than a host and its port."""
    return _SCHEME.match(url) is not None


@lru_cache(maxsize=1024)  # a launch has many results and few addresses
def parse_receiver(url: str) -> Receiver | None:
    """Return the destination of a webhook URL; None unless it is http or https without a user's name."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = read_host(parts.hostname or "")
    if parts.scheme not in _DEFAULT_PORTS or host is None or port == 0 or "@" in parts.netloc:
        return None
    query = f"?{quote(parts.query, safe=_KEPT + '?')}" if parts.query else ""
    return Receiver(
        is_secure=parts.scheme == "https",
        host=host,
        port=port or _DEFAULT_PORTS[parts.scheme],
        target=(quote(parts.path, safe=_KEPT) or "/") + query,
    )


def read_host(written: str) -> str | None:
    """Return a host as in `Receiver.host`; None if it is none."""
    try:
        return str(ip_address(written))
    except ValueError:
        pass
    try:
        host = written.encode("idna").decode().lower()
    except UnicodeError:
        return None
    return host if _NAME.fullmatch(host) else None


def is_local(host: str) -> bool:
    """Return whether a host is this machine, whatever names stand for: addresses with a scope are not."""
    try:
        return "%" not in host and ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_hosts(written: Iterable[str]) -> tuple[str, ...]:
    """Return hosts' names and addresses normalized as receivers', without a final dot.

    Raises:
        SandboxError: one is no host, as with a scheme or a port.
    """
    hosts = []
    for each in written:
        host = read_host(each)
        if host is None:
            raise SandboxError(
                f"{each!r} is no host: give a name or an address alone, as in hooks.example, 10.0.0.5 or ::1"
            )
        hosts.append(host.rstrip("."))
    return tuple(hosts)
