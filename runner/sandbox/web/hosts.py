"""Refuses requests that name another host than this one.

A page of any web site can make its name lead to 127.0.0.1 and then read what the sandbox answers, as if that
came from the site (DNS rebinding). The browser gives itself away by the name in the Host header.
"""

from __future__ import annotations

import re
import socket
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

from runner.sandbox.web.answers import answer_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]@/]+))(?::[0-9]*)?")


class HostGuard:
    """Lets through what names this host, or, as HTTP/1.0 may, no host; answers 421 to everything else.

    Args:
        app: the application behind it.
        names: host names and addresses that are this host, beside `localhost` and the loopback addresses.
        takes_addresses: whether any IP address is this host, for a service that listens on all of them. An
            address can't be rebound, names alone can.
    """

    def __init__(self, app: ASGIApp, *, names: Collection[str], takes_addresses: bool = False) -> None:
        self._app = app
        self._names = {name.lower() for name in names} | {"localhost"}
        self._takes_addresses = takes_addresses
        # A handful of spellings reaches a service; strangers push each other out.
        self._is_own = lru_cache(maxsize=64)(self._names_this_host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it (RFC 9110, section 15.5.20)."""
        for name, value in scope["headers"]:
            if name == b"host" and not self._is_own(value):
                message = "The Host header names another host than this one."
                await answer_error(421, "misdirected_request", message)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _names_this_host(self, header: bytes) -> bool:
        match = _HOST.fullmatch(header.decode("latin-1").strip().lower())
        if match is None:
            return False
        host = match["v6"] or match["name"]
        if host in self._names:
            return True
        try:
            address = ip_address(host)
        except ValueError:
            return False
        return self._takes_addresses or address.is_loopback


def guard_hosts(app: ASGIApp, listens_on: str, allowed: Collection[str] = ()) -> HostGuard:
    """Guard an application by what it listens on.

    Args:
        app: the application.
        listens_on: the host that the service was told to listen on.
        allowed: further names, as of a container or a tunnel.
    """
    try:
        is_everywhere = ip_address(listens_on).is_unspecified
    except ValueError:
        is_everywhere = False
    names = {listens_on, *allowed} | ({socket.gethostname()} if is_everywhere else set())
    return HostGuard(app, names=names, takes_addresses=is_everywhere)
