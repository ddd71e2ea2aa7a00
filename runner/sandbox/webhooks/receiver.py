"""Webhook addresses: what a URL says, and where on the network it may lead."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_DEFAULT_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9])")  # RFC 3986, section 3.1
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,252}[a-z0-9_.])?")
_KEPT = "%/:@!$&'()*+,;=~-._"  # RFC 3986, section 3.3: what a path may hold, and what is escaped already


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where a webhook URL leads.

    Attributes:
        is_secure: whether it is https.
        host: name or IP address, in lower case, a name in its ASCII form, an IPv6 address without brackets.
        port: TCP port.
        target: path and query, escaped, as the request line carries them; may hold secrets.
    """

    is_secure: bool
    host: str
    port: int
    target: str = field(repr=False)

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == _DEFAULT_PORTS["https" if self.is_secure else "http"]
        return host if is_default else f"{host}:{self.port}"


def has_scheme(url: str) -> bool:
    """Tell whether a webhook says how it is called; what it begins with may be a host and its port."""
    return _SCHEME.match(url) is not None


@lru_cache(maxsize=1024)  # a launch has many results and few addresses
def parse_receiver(url: str) -> Receiver | None:
    """Read a webhook URL.

    Returns:
        Where it leads, or None if it is no http or https URL that could be called. One with a user's name and
        password counts as none: they would be sent to nobody.
    """
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


def choose_addresses(
    receiver: Receiver, addresses: Iterable[str], allowed_hosts: Collection[str]
) -> list[str]:
    """Choose the addresses to connect to: without being told otherwise, nothing but this very machine.

    The caller connects to the addresses themselves, so that the name cannot mean others by then.

    Args:
        receiver: who is called.
        addresses: what its host's name stands for now.
        allowed_hosts: names and addresses that may be called wherever they lead, as `read_host` gives them,
            without a dot at the end.

    Returns:
        The addresses that may be called, each once, in their order.
    """
    is_allowed = receiver.host.rstrip(".") in allowed_hosts
    return [address for address in dict.fromkeys(addresses) if is_allowed or _is_loopback(address)]


def read_host(written: str) -> str | None:
    """Read a host as `Receiver.host` has it, an IPv6 address without brackets; None if it is none."""
    try:
        return str(ip_address(written))
    except ValueError:
        pass
    try:
        host = written.encode("idna").decode().lower()
    except UnicodeError:
        return None
    return host if _NAME.fullmatch(host) else None


def _is_loopback(address: str) -> bool:
    # A scope id, as in fe80::1%eth0, is none of ours.
    return "%" not in address and ip_address(address).is_loopback
