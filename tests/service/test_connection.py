"""Requests over real sockets: what is kept, what is shared, and what certainly has not left (RFC 9112, 9)."""

from __future__ import annotations

import io
import ssl
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, BinaryIO

import pytest
import trustme

from runner.errors import ConfigurationError, LedgerError
from runner.service.connection import Connection, NetworkError
from runner.service.target import Credentials, Target
from tests.service.wire import WireServer, echo, read_message, write_answer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Connect = Callable[..., Connection]

PATIENCE_S = 100.0
"""How long a test waits for something that must happen; it is never waited for in full."""
NOT_TRUSTED = "its certificate was not accepted, or TLS failed"
TOO_LATE = "it did not answer in time"


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connect to a service on a port of this machine; `verify` and the target's limits may be given."""
    connections = []

    def make(port: int, *, scheme: str = "http", verify: bool | str = True, **limits: float) -> Connection:
        url = f"{scheme}://localhost:{port}" if scheme == "https" else f"http://127.0.0.1:{port}"
        patience = {"connect_timeout": PATIENCE_S, "read_timeout": PATIENCE_S}
        target = Target("live", url, Credentials("ada", "key"), **{**patience, **limits})  # type: ignore[arg-type]
        connections.append(Connection(target, verify=verify))
        return connections[-1]

    yield make
    for connection in connections:
        connection.close()


def make_context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    """Return what a server needs to speak TLS with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@pytest.fixture
def context(authority: trustme.CA) -> ssl.SSLContext:
    """A good certificate for this machine."""
    return make_context(authority.issue_cert("localhost"))


def post_in_threads(connection: Connection, threads: int, requests: int) -> list[tuple[bytes, bytes]]:
    """Return the bodies that were sent and answered."""
    pairs: list[tuple[bytes, bytes]] = []
    start = threading.Barrier(threads)

    def post(name: int) -> None:
        start.wait(PATIENCE_S)
        for number in range(requests):
            body = f'"{name}, {number}"'.encode() * (1 + number % 7)
            pairs.append((body, connection.post("/api/send", body).body))

    workers = [threading.Thread(target=post, args=[name]) for name in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return pairs


def test_a_connection_is_used_again(connect: Connect) -> None:
    """One thread needs one connection, however many requests it sends, of either method."""
    with WireServer(echo) as server:
        connection = connect(server.port)
        assert [connection.post("/api/send", body).body for body in (b"1", b"2", b"3")] == [b"1", b"2", b"3"]
        assert connection.get("/api/stats/", {"limit": 1}).status == 200
        assert server.connections == 1


def test_a_tls_connection_is_used_again(connect: Connect, context: ssl.SSLContext, bundle: str) -> None:
    """With the authority that vouches for it, a service is spoken to, and costs one handshake."""
    with WireServer(echo, context) as server:
        connection = connect(server.port, scheme="https", verify=bundle)
        assert [connection.post("/api/send", body).body for body in (b"1", b"2", b"3")] == [b"1", b"2", b"3"]
        assert server.connections == 1


def test_a_last_look_keeps_every_byte_back(connect: Connect) -> None:
    """Who looks when the connection stands, and finds that nothing may leave, has sent nothing."""
    received: list[bytes] = []
    ended = threading.Event()

    def serve(_stream: socket.socket, reader: BinaryIO) -> None:
        received.append(reader.read())
        ended.set()

    def refuse() -> None:
        raise LedgerError("the lease is lost")

    with WireServer(serve) as server:
        with pytest.raises(LedgerError, match="the lease is lost"):
            connect(server.port).post("/api/send", b"1", refuse)
        assert ended.wait(PATIENCE_S)
    assert received == [b""]


@pytest.mark.parametrize("tls", [False, True])
def test_a_kept_connection_that_was_closed_is_replaced(
    connect: Connect, context: ssl.SSLContext, bundle: str, *, tls: bool
) -> None:
    """A service that closes after each answer without a word gets each request once, on a new connection."""
    answered, bodies = threading.Semaphore(0), []

    def serve(stream: socket.socket, reader: BinaryIO) -> None:
        if request := read_message(reader):
            bodies.append(request.body)
            stream.sendall(write_answer(200, request.body))
            reader.close()
            stream.close()
            answered.release()

    with WireServer(serve, context if tls else None) as server:
        connection = connect(server.port, scheme="https" if tls else "http", verify=bundle)
        for number in range(20):
            body = str(number).encode()
            assert connection.post("/api/send", body).body == body
            assert answered.acquire(timeout=PATIENCE_S)
        assert server.connections == len(bodies) == 20


def test_the_end_just_behind_an_answer_is_waited_for(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that closes without a word, a moment after each answer, is not sent a request meanwhile."""
    # On a busy machine a moment may last.
    monkeypatch.setattr("runner.service.connection._DOUBT_S", PATIENCE_S)
    never, bodies = threading.Event(), []

    def serve(stream: socket.socket, reader: BinaryIO) -> None:
        if request := read_message(reader):
            bodies.append(request.body)
            stream.sendall(write_answer(200, request.body))
            never.wait(0.002)

    with WireServer(serve) as server:
        connection = connect(server.port)
        for body in (b"1", b"2", b"3", b"4"):
            assert connection.post("/api/send", body).body == body
        assert bodies == [b"1", b"2", b"3", b"4"]


@pytest.mark.slow
def test_threads_get_their_own_answers(connect: Connect) -> None:
    """Any number of threads share the connections: each is used by one at a time."""
    with WireServer(echo) as server:
        pairs = post_in_threads(connect(server.port, concurrency=32), threads=32, requests=50)
        assert len(pairs) == 32 * 50
        assert [pair for pair in pairs if pair[0] != pair[1]] == []
        assert server.connections <= 32


def test_bytes_left_over_in_tls_are_not_overlooked(
    connect: Connect, context: ssl.SSLContext, bundle: str
) -> None:
    """What TLS has deciphered, and nobody has read yet, is never taken for the next answer."""

    def serve(stream: socket.socket, reader: BinaryIO) -> None:
        while request := read_message(reader):
            head = len(write_answer(200, b"x" * 8000)) - 8000
            # As much as is read at a time, so that all else of the record stays behind it.
            body = request.body.ljust(io.DEFAULT_BUFFER_SIZE - head)
            stream.sendall(write_answer(200, body) + write_answer(200, b"stale"))

    with WireServer(serve, context) as server:
        connection = connect(server.port, scheme="https", verify=bundle)
        answers = [connection.post("/api/send", body).body.strip() for body in (b"1", b"2", b"3")]
        assert answers == [b"1", b"2", b"3"]
        assert server.connections == 3


def test_what_a_last_look_raises_comes_through(connect: Connect) -> None:
    """Whatever it is: errors of the network, which the library would take for its own, among them."""
    with WireServer(echo) as server:
        connection = connect(server.port)
        for error in (BrokenPipeError("theirs"), TimeoutError("theirs"), KeyboardInterrupt(), ValueError()):

            def refuse(error: BaseException = error) -> None:
                raise error

            error.__cause__ = RuntimeError("its own")
            with pytest.raises(type(error)) as caught:
                connection.post("/api/send", b"1", refuse)
            assert caught.value is error
            assert isinstance(error.__cause__, RuntimeError)


def test_an_answer_that_comes_before_all_was_sent_is_read(connect: Connect) -> None:
    """A service may refuse a body that it does not want to read to its end (RFC 9110, 15.5.14)."""

    def serve(stream: socket.socket, _reader: BinaryIO) -> None:
        stream.recv(100)
        stream.sendall(write_answer(413, b"too much", "Connection: close"))
        while stream.recv(1 << 16):
            pass

    with WireServer(serve) as server:
        answer = connect(server.port).post("/api/send", b"x" * 10_000_000)
    assert (answer.status, answer.body) == (413, b"too much")


class Dripper:
    """Answers with one byte at a time, and never to the end, until its client has enough.

    Attributes:
        ended: set when it got rid of an answer, or its client has gone.
    """

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._never = threading.Event()

    def serve(self, stream: socket.socket, reader: BinaryIO) -> None:
        """Serve one connection."""
        try:
            if read_message(reader):
                stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not self._never.wait(0.05):
                    stream.sendall(b"x")
        finally:
            self.ended.set()


@pytest.mark.parametrize("tls", [False, True])
def test_an_answer_that_drips_is_late(
    connect: Connect, context: ssl.SSLContext, bundle: str, *, tls: bool
) -> None:
    """The read timeout is the whole answer's: a byte now and then doesn't hold a thread."""
    dripper = Dripper()
    with WireServer(dripper.serve, context if tls else None) as server:
        scheme = "https" if tls else "http"
        connection = connect(server.port, scheme=scheme, verify=bundle, read_timeout=0.3)
        with pytest.raises(NetworkError) as caught:
            connection.post("/api/send", b"{}")
        assert (caught.value.reason, caught.value.bytes_left) == (TOO_LATE, True)
        assert dripper.ended.wait(PATIENCE_S)


class SteppingClock:
    """A clock that stands still until a service lets its client's time pass, however busy the machine is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 1000.0
        self._looks = threading.Semaphore(0)
        monkeypatch.setattr("runner.service.connection.monotonic", lambda: self._now)
        monkeypatch.setattr("runner.service.answer.monotonic", self._look)

    def _look(self) -> float:
        self._looks.release()
        return self._now

    def step(self, seconds: float) -> None:
        """Let time pass when the client has looked, after a piece, how much it has left for the next one."""
        assert self._looks.acquire(timeout=PATIENCE_S)
        self._now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppingClock:
    """The clock by which answers are late."""
    return SteppingClock(monkeypatch)


def test_the_last_piece_of_an_answer_can_be_late(connect: Connect, clock: SteppingClock) -> None:
    """A piece that comes in time gives the next one no more time."""

    def serve(stream: socket.socket, reader: BinaryIO) -> None:
        read_message(reader)
        whole = write_answer(200, b"{}")
        stream.sendall(whole[:20])
        clock.step(0.5 * PATIENCE_S)
        stream.sendall(whole[20:-2])
        clock.step(0.75 * PATIENCE_S)
        stream.sendall(whole[-2:-1])
        clock.step(0)
        stream.sendall(whole[-1:])

    with WireServer(serve) as server:
        connection = connect(server.port)
        with pytest.raises(NetworkError) as caught:
            connection.post("/api/send", b"{}")
        assert (caught.value.reason, caught.value.bytes_left) == (TOO_LATE, True)


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-"])
@pytest.mark.parametrize("tls", [False, True])
def test_an_answer_that_never_comes_is_late(
    connect: Connect, context: ssl.SSLContext, bundle: str, begin: bytes, *, tls: bool
) -> None:
    """A service that falls silent, before or within its answer, has the request."""

    def serve(stream: socket.socket, reader: BinaryIO) -> None:
        read_message(reader)
        stream.sendall(begin)
        reader.read(1)

    with WireServer(serve, context if tls else None) as server:
        scheme = "https" if tls else "http"
        connection = connect(server.port, scheme=scheme, verify=bundle, read_timeout=0.2)
        with pytest.raises(NetworkError) as caught:
            connection.post("/api/send", b"{}")
    assert (caught.value.reason, caught.value.bytes_left) == (TOO_LATE, True)


def test_a_handshake_that_never_ends_has_sent_nothing(connect: Connect, bundle: str) -> None:
    """Until TLS stands a service is being connected to, for as long as the connect timeout says."""

    def serve(_stream: socket.socket, reader: BinaryIO) -> None:
        while reader.read(1):
            pass

    with WireServer(serve) as server:
        connection = connect(server.port, scheme="https", verify=bundle, connect_timeout=0.2)
        with pytest.raises(NetworkError) as caught:
            connection.post("/api/send", b"{}")
    assert caught.value.reason == "it did not take the connection in time"
    assert not caught.value.bytes_left


@pytest.mark.parametrize("wrong", ["authority", "name", "date"])
def test_a_certificate_that_proves_nothing_gets_no_byte(
    connect: Connect, authority: trustme.CA, bundle: str, wrong: str
) -> None:
    """A certificate of a stranger, for another name or of the past ends it before the request leaves."""
    requests = []

    def serve(_stream: socket.socket, reader: BinaryIO) -> None:
        requests.append(read_message(reader))

    issuer = trustme.CA() if wrong == "authority" else authority
    until = datetime.now(UTC) - timedelta(days=1) if wrong == "date" else None
    name = "elsewhere.example" if wrong == "name" else "localhost"
    context = make_context(issuer.issue_cert(name, not_after=until))
    with WireServer(serve, context) as server:
        with pytest.raises(NetworkError) as caught:
            connect(server.port, scheme="https", verify=bundle).post("/api/send", b"{}")
        assert (caught.value.reason, caught.value.bytes_left) == (NOT_TRUSTED, False)
    assert requests == []


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_bundle_that_is_none_is_told(connect: Connect, tmp_path: Path, content: str | None) -> None:
    """Without anything to check certificates by, nothing is even begun."""
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        connect(443, scheme="https", verify=str(file))
    assert caught.value.message == f"the CA bundle {file} cannot be read"


@pytest.mark.parametrize("host", ["a..example", "a" * 70 + ".example", "ü..example"])
def test_a_host_that_nobody_can_have_has_sent_nothing(host: str) -> None:
    """A name that the resolver refuses to look for is one that cannot be reached."""
    connection = Connection(Target("live", f"https://{host}", Credentials("ada", "key")))
    with pytest.raises(NetworkError) as caught:
        connection.post("/api/send", b"{}")
    assert (caught.value.reason, caught.value.bytes_left) == ("it cannot be reached", False)


@pytest.mark.parametrize("host", ["_ü.example", "ü" * 70 + ".example"])
def test_a_host_that_cannot_be_one_is_told(host: str) -> None:
    """A name that no resolver could be asked for is the configuration's mistake (RFC 5890)."""
    with pytest.raises(ConfigurationError) as caught:
        Connection(Target("live", f"https://{host}", Credentials("ada", "key")))
    assert caught.value.message == "the base URL of the target 'live' has a host that cannot be one"
    assert caught.value.hint == "check RUNNER_BASE_URL, or `base_url` in targets.yaml"
