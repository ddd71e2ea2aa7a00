"""Through a real proxy, as the environment names it: what it forwards, what it tunnels, what it refuses."""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from runner.errors import ConfigurationError
from runner.service.client import ServiceClient
from runner.service.connection import Connection, NetworkError
from runner.service.target import SANDBOX, Credentials, Target
from tests.service.wire import ForwardProxy, WireServer, echo, write_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import trustme


PLAIN, TLS = "http://sms.example", "https://sms.example"
"""The proxy's own words for the service: nobody else can resolve them."""
LOGIN = "ada:p@ss w/rd%"
IN_URL = quote(LOGIN, safe=":")
"""As a proxy's address has it."""
API_KEY = "a-secret-key"
USERNAME = "grace@example.com"
QUERY = f"username={quote(USERNAME, safe='')}&api_key={API_KEY}"
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without any proxy."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def make_context(authority: trustme.CA) -> Callable[[str], ssl.SSLContext]:
    """Make what a server needs to speak TLS under a name."""

    def make(name: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(name).configure_cert(context)
        return context

    return make


@pytest.fixture
def plain_port() -> Iterator[int]:
    """A service without TLS that answers with what it was sent."""
    with WireServer(echo) as server:
        yield server.port


@pytest.fixture
def tls_port(make_context: Callable[[str], ssl.SSLContext]) -> Iterator[int]:
    """The same with TLS."""
    with WireServer(echo, make_context("sms.example")) as server:
        yield server.port


@contextmanager
def reach(url: str, bundle: str | None = None, *, name: str = "live") -> Iterator[Connection]:
    """Yield a connection for a base URL."""
    target = Target(name, url, Credentials(USERNAME, API_KEY), connect_timeout=100.0)
    connection = Connection(target, verify=bundle or True)
    yield connection
    connection.close()


@pytest.fixture
def fail_to_post(bundle: str) -> Callable[[str], NetworkError]:
    """Return the error of a POST that cannot leave."""

    def fail(url: str) -> NetworkError:
        with reach(url, bundle) as connection, pytest.raises(NetworkError) as caught:
            connection.post("/api/send", b"{}")
        assert_silent(caught.value)
        assert not caught.value.bytes_left
        return caught.value

    return fail


def assert_silent(error: BaseException | None) -> None:
    """Hold an error, and whatever it came from, to having no credential in it."""
    while error is not None:
        for secret in (*LOGIN.split(":", 1), IN_URL, API_KEY, USERNAME, QUERY):
            # The user's name is short: it may stand in a word.
            assert len(secret) <= 3 or secret not in f"{error} {error!r}"
        error = error.__cause__ or error.__context__


def test_a_plain_request_is_forwarded(plain_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy is told the whole address (RFC 9112, 3.2.2), and its connection is used again."""
    proxy = ForwardProxy(plain_port)
    with WireServer(proxy.serve) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
        with reach(f"{PLAIN}:8080/v1") as connection:
            assert connection.post("/api/send", b"one").body == b"one"
            assert connection.get("/api/stats/", {"limit": 1}).status == 200
        assert server.connections == 1
    post, get = proxy.requests
    assert post.start == f"POST {PLAIN}:8080/v1/api/send?{QUERY} HTTP/1.1"
    assert get.start == f"GET {PLAIN}:8080/v1/api/stats/?limit=1&{QUERY} HTTP/1.1"
    assert post.headers["host"] == get.headers["host"] == "sms.example:8080"
    assert "proxy-authorization" not in post.headers


def test_a_tls_request_goes_through_a_tunnel(
    tls_port: int, bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy learns where to, and nothing else; the tunnel is used again."""
    proxy = ForwardProxy(tls_port)
    with WireServer(proxy.serve) as server:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.port}")
        with reach(TLS, bundle) as connection:
            assert [connection.post("/api/send", body).body for body in (b"1", b"2")] == [b"1", b"2"]
    assert [request.start for request in proxy.requests] == ["CONNECT sms.example:443 HTTP/1.0"]
    assert API_KEY not in repr(proxy.requests)


@pytest.mark.parametrize("url", [PLAIN, TLS])
def test_a_proxy_gets_its_login(
    url: str, plain_port: int, tls_port: int, bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name and password in a proxy's address, percent-encoded there, are what it is shown (RFC 7617)."""
    proxy = ForwardProxy(plain_port if url == PLAIN else tls_port, login=LOGIN)
    with WireServer(proxy.serve) as server:
        monkeypatch.setenv("all_proxy", f"http://{IN_URL}@127.0.0.1:{server.port}")
        with reach(url, bundle) as connection:
            assert connection.post("/api/send", b"one").body == b"one"


@pytest.mark.parametrize("bypass", ["127.0.0.1", "127.0.0.0/8", "example.com,127.0.0.1", "*"])
def test_no_proxy_is_kept_to(bypass: str, plain_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `no_proxy` names is spoken to directly."""
    proxy = ForwardProxy(plain_port)
    with WireServer(proxy.serve) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", bypass)
        with reach(f"http://127.0.0.1:{plain_port}") as connection:
            assert connection.post("/api/send", b"one").body == b"one"
        assert server.connections == 0


def test_the_sandbox_needs_no_proxy(plain_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox is on this machine: whatever the environment says, no proxy is asked for it."""
    proxy = ForwardProxy(plain_port)
    with WireServer(proxy.serve) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
        with reach(f"http://127.0.0.1:{plain_port}", name=SANDBOX) as connection:
            assert connection.post("/api/send", b"one").body == b"one"
        assert server.connections == 0


@pytest.mark.parametrize(
    "answer",
    [
        write_answer(407),
        write_answer(403, f"{LOGIN} may not do {QUERY}".encode()),
        write_answer(502),
        b"HTTP/1.1 503 \r\n\r\n",
        b"\x15\x03\x01 is no HTTP\r\n",
        b"",
    ],
)
def test_a_refused_tunnel_has_sent_nothing(
    answer: bytes, tls_port: int, monkeypatch: pytest.MonkeyPatch, fail_to_post: Callable[[str], NetworkError]
) -> None:
    """Without a tunnel nothing leaves but the proxy's own credentials, whatever it says instead."""
    proxy = ForwardProxy(tls_port, answer=answer)
    with WireServer(proxy.serve) as server:
        monkeypatch.setenv("https_proxy", f"http://{IN_URL}@127.0.0.1:{server.port}")
        assert fail_to_post(TLS).reason == "the proxy refused"
    assert [request.method for request in proxy.requests] == ["CONNECT"]


@pytest.mark.parametrize("url", [PLAIN, TLS])
def test_a_proxy_that_is_not_there_is_told(
    url: str, monkeypatch: pytest.MonkeyPatch, fail_to_post: Callable[[str], NetworkError]
) -> None:
    """It is the proxy, and not the service, that cannot be reached."""
    monkeypatch.setenv("all_proxy", f"http://{IN_URL}@proxy.invalid:3128")
    assert fail_to_post(url).reason == "the proxy cannot be reached"


def test_a_strangers_certificate_behind_a_tunnel_gets_no_byte(
    monkeypatch: pytest.MonkeyPatch,
    make_context: Callable[[str], ssl.SSLContext],
    fail_to_post: Callable[[str], NetworkError],
) -> None:
    """A tunnel that leads elsewhere is told for what it is: it is the service that proves who it is."""
    with (
        WireServer(echo, make_context("elsewhere.example")) as elsewhere,
        WireServer(ForwardProxy(elsewhere.port).serve) as server,
    ):
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.port}")
        assert fail_to_post(TLS).reason == "its certificate was not accepted, or TLS failed"


@pytest.mark.parametrize(
    ("answer", "outcome", "may_retry"),
    [
        (write_answer(407), "unknown", False),
        (write_answer(503, b"", "Retry-After: 5"), "unknown", False),
        (write_answer(502), "unknown", False),
        (write_answer(503), "unknown", False),
        (write_answer(504), "unknown", False),
        (b"", "unknown", False),
    ],
)
def test_a_forwarding_proxys_own_answer_claims_no_more_than_is_certain(
    answer: bytes,
    outcome: str,
    may_retry: bool,  # noqa: FBT001  a column of the table
    plain_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A send through a failed proxy has an unknown outcome (docs/delivery.md)."""
    proxy = ForwardProxy(plain_port, answer=answer)
    with WireServer(proxy.serve) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
        with reach(PLAIN) as connection:
            client = ServiceClient(Target("live", PLAIN, Credentials(USERNAME, API_KEY)), connection)
            reply = client.send('{"text": "Hello"}', ["+14155550101"])
    assert (reply.outcome, reply.may_retry) == (outcome, may_retry)
    assert len(proxy.requests) == 1


@pytest.mark.parametrize("proxy", ["http://ada:a-secret-key@host:port", "http://ada:a-secret-key@"])
def test_a_proxy_that_cannot_be_one_is_told(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy's address that makes no sense is the environment's mistake, and is not repeated."""
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises(ConfigurationError) as caught, reach(TLS):
        pass
    assert caught.value.message == "the proxy for the target 'live' is not one that can be used"
    assert (caught.value.hint or "").startswith("check http_proxy, https_proxy and all_proxy")
    assert caught.value.__suppress_context__
