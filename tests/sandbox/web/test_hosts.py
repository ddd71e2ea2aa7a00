"""Which names the service answers to: another web site's name must not lead a browser here (DNS rebinding)."""

from __future__ import annotations

import http.client
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from runner.sandbox.web.server import running_service

if TYPE_CHECKING:
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress


def ask(address: ServiceAddress, path: str, *hosts: str) -> tuple[int, bytes]:
    """Return status and body of a request with these Host headers."""
    url = urlsplit(address.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port or 0, timeout=60)
    query = urlencode({"username": address.username, "api_key": address.api_key})
    connection.putrequest("GET", f"{path}?{query}", skip_host=True)
    for host in hosts:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


OWN = ("localhost", "LocalHost:8025", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:8025", " 127.0.0.1 ")
OTHER = (
    "evil.example", "evil.example:8025", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.1",
    "[2001:db8::1]", "", "localhost@evil.example", "evil.example/localhost", "0.0.0.0", "[::]", "2130706433",  # noqa: S104  a name like others
)  # fmt: skip


def test_only_own_names_are_answered(address: ServiceAddress) -> None:
    """Localhost and loopback addresses are this host, whatever the port; other names are refused on every path."""
    for host in OWN:
        assert ask(address, "/livez", host)[0] == 200, host
    for host in OTHER:
        for path in ("/", "/api/stats/", "/_sandbox/state", "/livez", "/nothing"):
            status, body = ask(address, path, host)
            assert (status, b"misdirected_request" in body) == (421, True), host


def test_request_without_a_host_is_answered(address: ServiceAddress) -> None:
    """HTTP/1.0 needs no Host header: no browser is that old."""
    url = urlsplit(address.url)
    with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        connection.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_further_names_can_be_allowed(db: Path) -> None:
    """A service takes the names that it was told to, in any case, and no others for that."""
    with running_service(db, allowed_hosts=["Sandbox.Internal"]) as address:
        assert ask(address, "/livez", "sandbox.internal:80")[0] == 200
        assert ask(address, "/livez", "other.internal")[0] == 421


def test_service_on_all_addresses_takes_addresses_and_its_own_name(db: Path) -> None:
    """A service that listens everywhere is called by any address, which can't be rebound, and this machine's name."""
    with running_service(db, host="0.0.0.0") as address:  # noqa: S104  loopback alone is called
        for host in ("192.0.2.7:8025", "[2001:db8::1]", socket.gethostname()):
            assert ask(address, "/livez", host)[0] == 200
        assert ask(address, "/livez", "evil.example")[0] == 421
