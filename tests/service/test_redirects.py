"""Reads follow the service's own redirects, with our own credentials; nothing else is followed anywhere."""

from __future__ import annotations

import json
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import parse_qsl, urlsplit

import pytest

from runner.errors import ServiceError
from runner.service.client import ServiceClient
from runner.service.connection import Connection
from runner.service.target import Credentials, Target
from tests.service.wire import ForwardProxy, WireServer, read_message, write_answer

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

USERNAME, API_KEY = "ada@example.com", "a-secret-key"
LIST = json.dumps({"meta": {"total_count": 0}, "objects": []}).encode()
ASKED = {
    "project_tag": "pulse",
    "limit": "100",
    "offset": "0",
    "format": "json",
    "username": USERNAME,
    "api_key": API_KEY,
}


class Redirecting:
    """A service that answers each path with a redirect, or with an empty list.

    Attributes:
        locations: where paths lead, `{port}` standing for the service's own port.
        status: of all redirects.
        requests: methods, paths and queries that came.
        port: its own.
    """

    def __init__(self) -> None:
        self.locations: dict[str, str] = {}
        self.status = 302
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.port = 0

    def serve(self, stream: socket.socket, reader: BinaryIO) -> None:
        """Serve one connection."""
        while request := read_message(reader):
            parts = urlsplit(request.target)
            self.requests.append((request.method, parts.path, dict(parse_qsl(parts.query))))
            location = self.locations.get(parts.path)
            if location is None:
                stream.sendall(write_answer(200, LIST))
            else:
                header = f"Location: {location.format(port=self.port)}"
                stream.sendall(write_answer(self.status, b"", header))


@contextmanager
def serving(service: Redirecting, path: str = "") -> Iterator[ServiceClient]:
    """Give a client of a service whose base URL has a path."""
    with WireServer(service.serve) as server:
        service.port = server.port
        target = Target("live", f"http://127.0.0.1:{server.port}{path}", Credentials(USERNAME, API_KEY))
        connection = Connection(target)
        try:
            yield ServiceClient(target, connection, wait=lambda _: None)
        finally:
            connection.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location",
    [
        "/v2/stats/",
        "../v2/stats/",
        "//127.0.0.1:{port}/v2/stats/",
        "http://127.0.0.1:{port}/v2/stats/?username=eve&api_key=another&offset=7",
        "HTTP://eve:pass@127.0.0.1:{port}/v2/stats/#here",
    ],
)
def test_a_redirect_within_the_service_is_followed(location: str, status: int) -> None:
    """Of the new address just the path counts: query and credentials are those that we asked with."""
    service = Redirecting()
    service.status = status
    service.locations = {"/api/stats/": location.replace("../", "../../") if location[0] == "." else location}
    with serving(service) as client:
        assert client.read_stats("pulse", 0).total_count == 0
    assert service.requests == [("GET", "/api/stats/", ASKED), ("GET", "/v2/stats/", ASKED)]


def test_a_redirect_is_followed_below_a_base_path() -> None:
    """A new address counts from the origin, and not from the base URL."""
    service = Redirecting()
    service.locations = {"/sms/api/stats/": "/sms/api/v2/stats/"}
    with serving(service, "/sms") as client:
        assert client.count_launches("pulse") == 0
    assert [path for _, path, _ in service.requests] == ["/sms/api/stats/", "/sms/api/v2/stats/"]


def test_a_redirect_is_followed_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that is told the whole address is told the whole new one."""
    service = Redirecting()
    service.locations = {"/api/stats/": "http://sms.example/v2/stats/"}
    with WireServer(service.serve) as upstream:
        proxy = ForwardProxy(upstream.port)
        with WireServer(proxy.serve) as server:
            monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
            monkeypatch.delenv("no_proxy", raising=False)
            target = Target("live", "http://sms.example:80", Credentials(USERNAME, API_KEY))
            connection = Connection(target)
            assert ServiceClient(target, connection).count_launches("pulse") == 0
            connection.close()
    assert [request.target.split("?")[0] for request in proxy.requests] == [
        "http://sms.example:80/api/stats/",
        "http://sms.example/v2/stats/",
    ]


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://sms.example.com/v2/?api_key=x#y", "https://sms.example.com/v2/"),
        ("https://127.0.0.1:{port}/api/stats/", "https://127.0.0.1:{port}/api/stats/"),
        ("//localhost:{port}", "http://localhost:{port}/"),
        ("http://eve:a-secret-key@127.0.0.1:1/a-secret-key/+14155550101", "http://127.0.0.1:1/•••/•••"),
    ],
)
def test_a_redirect_to_another_origin_is_not_followed(location: str, shown: str) -> None:
    """Credentials go to the service alone; the error names where it leads, and nothing that is secret."""
    service = Redirecting()
    service.locations = {"/api/stats/": location}
    with serving(service) as client, pytest.raises(ServiceError) as caught:
        client.read_stats("pulse", 0)
    assert caught.value.message == (
        "the service redirects GET /api/stats/ to another origin, which is not followed "
        f"(it leads to {shown.format(port=service.port)})"
    )
    assert (
        caught.value.hint == "if that is the service, make it the base URL (RUNNER_BASE_URL, or `base_url`)"
    )
    assert API_KEY not in "".join(traceback.format_exception(caught.value))
    assert len(service.requests) == 1


@pytest.mark.parametrize("location", ["", "mailto:ada@example.com", "http://[::1/", "http://_ü.example/"])
def test_a_redirect_to_nowhere_is_a_refusal(location: str) -> None:
    """A redirect that does not say where to cannot be followed, and says no more than its status."""
    service = Redirecting()
    service.locations = {"/api/stats/": location}
    message = "the service refuses GET /api/stats/: HTTP 302"
    if not location:
        message = "the service cannot be asked (GET /api/stats/): it redirects more than 5 times"
    with serving(service) as client, pytest.raises(ServiceError) as caught:
        client.read_stats("pulse", 0)
    assert caught.value.message == message


def test_redirects_have_an_end() -> None:
    """A service that sends its client round and round is given up."""
    service = Redirecting()
    service.locations = {"/api/stats/": "/a", "/a": "/b", "/b": "/a"}
    with serving(service) as client, pytest.raises(ServiceError) as caught:
        client.read_stats("pulse", 0)
    assert caught.value.message == (
        "the service cannot be asked (GET /api/stats/): it redirects more than 5 times"
    )
    assert len(service.requests) == 6


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/v2/send?username=ada", "http://127.0.0.1:{port}/v2/send"),
        ("https://sms.example.com/send", "https://sms.example.com/send"),
    ],
)
def test_a_redirected_send_is_not_sent_again(location: str, shown: str, status: int) -> None:
    """What a redirected POST has done nobody knows: it is sent once, and its detail says where it leads."""
    service = Redirecting()
    service.status = status
    service.locations = {"/api/send": location}
    with serving(service) as client:
        reply = client.send('{"text": "Hello"}', ["+14155550101"])
    assert reply.outcome == "unknown"
    assert reply.detail == f"HTTP {status} (it leads to {shown.format(port=service.port)})"
    assert len(service.requests) == 1


def test_where_a_send_leads_is_masked() -> None:
    """Neither credentials nor phones of a redirect's address are shown."""
    service = Redirecting()
    service.locations = {"/api/send": f"/send/{API_KEY}/+14155550101?x={API_KEY}"}
    with serving(service) as client:
        detail = client.send('{"text": "Hello"}', ["+14155550101"]).detail
    assert detail == f"HTTP 302 (it leads to http://127.0.0.1:{service.port}/send/•••/•••)"
