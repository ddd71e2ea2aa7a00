"""One POST for each send, and the right report of each fault (docs/delivery.md)."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from runner.service.client import read_retry_after
from tests.deliver.conftest import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.service.client import ServiceClient
    from tests.deliver.conftest import Behaviour, FaultyService

    Connect = Callable[..., ServiceClient]

DEFINITION = '{"tag": "pulse", "text": "Hello, you"}'
PHONE = "+14155550101"
NO_GUID = "HTTP 201 without a project_launch_guid"
BROKEN = "the connection broke before an answer came"
UNREADABLE = "its answer cannot be read"
ELSEWHERE = "https://ada:s3cret@sms.example.com:443/v2/api/send?username=ada&api_key=s3cret#here"
LEADS = "HTTP 302 (it leads to https://sms.example.com/v2/api/send)"
SHORT_S = 0.3


@pytest.mark.parametrize("status", [200, 201, 202])
def test_a_guid_in_any_2xx_is_a_sent_launch(faulty: FaultyService, connect: Connect, status: int) -> None:
    """A 2xx with a project_launch_guid means sent, whichever 2xx it is."""
    faulty.behave({"status": status})
    reply = connect(faulty.url).send(DEFINITION, [PHONE])
    assert (reply.outcome, reply.project_launch_guid, reply.status) == ("sent", faulty.guids[0], status)
    assert reply.detail is None
    assert not reply.is_final_for_run
    assert len(faulty.requests) == 1


@pytest.mark.parametrize(
    ("behaviour", "outcome", "detail", "is_final"),
    [
        ({"end": "drop"}, "unknown", BROKEN, False),
        ({"end": "reset"}, "unknown", BROKEN, False),
        ({"end": "half"}, "unknown", "its answer broke off", False),
        ({"end": "noise"}, "unknown", UNREADABLE, False),
        ({"end": "hold"}, "unknown", "it did not answer in time", False),
        ({"headers": {"Content-Encoding": "gzip"}}, "unknown", UNREADABLE, False),
        ({"body": b""}, "unknown", NO_GUID, False),
        ({"body": b"OK"}, "unknown", NO_GUID, False),
        ({"body": b"\xff\xfe{"}, "unknown", NO_GUID, False),
        ({"body": b"[]"}, "unknown", NO_GUID, False),
        ({"body": b'"a-guid"'}, "unknown", NO_GUID, False),
        ({"body": b"{}"}, "unknown", NO_GUID, False),
        ({"body": b'{"project_launch_guid": null}'}, "unknown", NO_GUID, False),
        ({"body": b'{"project_launch_guid": ""}'}, "unknown", NO_GUID, False),
        ({"body": b'{"project_launch_guid": 7}'}, "unknown", NO_GUID, False),
        ({"body": b'{"project_launch_guid": "a\\u0000b"}'}, "unknown", NO_GUID, False),
        ({"body": b'{"project_launch_guid": "a\\ud800b"}'}, "unknown", NO_GUID, False),
        ({"body": '{"project_launch_guid": "gü"}'.encode()}, "unknown", NO_GUID, False),
        ({"body": b'{"project_launch_guid": "a b"}'}, "unknown", NO_GUID, False),
        ({"body": b'{"project_launch_guid": "%s"}' % (b"g" * 201)}, "unknown", NO_GUID, False),
        ({"body": b"[" * 100_000}, "unknown", NO_GUID, False),
        ({"status": 500, "body": b"oops"}, "unknown", "HTTP 500: oops", False),
        ({"status": 502, "body": b""}, "unknown", "HTTP 502", False),
        ({"status": 503, "body": b""}, "unknown", "HTTP 503", False),
        ({"status": 302, "body": b"", "headers": {"Location": ELSEWHERE}}, "unknown", LEADS, False),
        (
            {"status": 308, "body": b"moved", "headers": {"Location": ELSEWHERE}},
            "unknown",
            LEADS.replace("302", "308") + ": moved",
            False,
        ),
        ({"status": 307, "body": b""}, "unknown", "HTTP 307", False),
        ({"status": 400, "body": b"bad\r\n  text"}, "rejected", "HTTP 400: bad text", False),
        ({"status": 400, "body": "n\0o\x1b[31m\u200b\u202e".encode()}, "rejected", "HTTP 400: no[31m", False),
        ({"status": 400, "body": "nope".encode("utf-16")}, "rejected", "HTTP 400: \ufffd\ufffdnope", False),
        ({"status": 404, "body": b""}, "rejected", "HTTP 404", False),
        ({"status": 407, "body": b""}, "unknown", "HTTP 407", True),
        *(
            ({"status": status, "body": b""}, "rejected", f"HTTP {status}", False)
            for status in (405, 406, 410, 411, 413, 414, 415, 422, 431)
        ),
        ({"status": 401, "body": b""}, "rejected", "HTTP 401", True),
        ({"status": 403, "body": b""}, "rejected", "HTTP 403", True),
        *(
            ({"status": status, "body": b""}, "unknown", f"HTTP {status}", False)
            for status in (402, 408, 409, 412, 418, 425, 429, 432, 451, 499)
        ),
        ({"status": 503, "body": b"", "headers": {"retry-after": "9"}}, "unknown", "HTTP 503", False),
    ],
)
def test_each_fault_has_its_outcome(
    faulty: FaultyService,
    connect: Connect,
    behaviour: Behaviour,
    outcome: str,
    detail: str,
    is_final: bool,  # noqa: FBT001  a column of the table
) -> None:
    """Whatever goes wrong, one request has left, and its outcome claims no more than is certain."""
    faulty.behave(behaviour)
    # Short only where it has to pass: a busy machine takes its time to answer.
    timeout_s = SHORT_S if behaviour.get("end") == "hold" else PATIENCE_S
    reply = connect(faulty.url, read_timeout=timeout_s).send(DEFINITION, [PHONE])
    assert (reply.outcome, reply.detail, reply.is_final_for_run) == (outcome, detail, is_final)
    assert not reply.may_retry
    assert reply.is_busy == (reply.status in (429, 503))
    assert reply.project_launch_guid is None
    assert reply.status == behaviour.get("status", 201 if "body" in behaviour else None)
    # Who gives up after a moment may be faster than a busy service, which has yet to read what came.
    faulty.wait_for_requests(1)
    assert len(faulty.requests) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "9"}, 9.0),
        ({"retry-after": " 120 "}, 120.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "1.5"}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": ""}, None),
        # 2 minutes after the answer's own date, whatever this machine's clock says.
        ({"retry-after": "Fri, 20 Nov 2026 12:02:00 GMT", "date": "Fri, 20 Nov 2026 12:00:00 GMT"}, 120.0),
        # Without a date of its own, after this machine's clock: noon.
        ({"retry-after": "Fri, 20 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Fri, 20 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Fri, 99 Nov 2026 11:00:00 GMT"}, None),
    ],
)
def test_what_retry_after_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    """`Retry-After` is read in its two forms (RFC 9110, 10.2.3); what it isn't asks for nothing."""
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()
    assert read_retry_after(headers, noon) == seconds


def test_retry_after_comes_with_the_reply(faulty: FaultyService, connect: Connect) -> None:
    """The header's name is read in any case."""
    faulty.behave({"status": 429, "body": b"", "headers": {"retry-AFTER": "9"}})
    assert connect(faulty.url).send(DEFINITION, [PHONE]).retry_after_s == 9.0


def test_a_refused_connection_has_sent_nothing(closed_port: int, connect: Connect) -> None:
    """Where nobody listens nothing can have left: it may be tried again."""
    reply = connect(f"http://127.0.0.1:{closed_port}").send(DEFINITION, [PHONE])
    assert (reply.outcome, reply.detail) == ("not_sent", "it cannot be reached")
    assert reply.may_retry


def test_an_unknown_host_has_sent_nothing(connect: Connect) -> None:
    """A name that cannot be resolved leaves nothing sent (RFC 6761: `.invalid` never resolves)."""
    reply = connect("https://sms.invalid").send(DEFINITION, [PHONE])
    assert (reply.outcome, reply.detail) == ("not_sent", "it cannot be reached")
    assert reply.may_retry


def test_a_connection_that_is_not_taken_has_sent_nothing(connect: Connect) -> None:
    """A connect timeout is told apart from a read timeout: nothing left."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        with closing(socket.socket()) as first, closing(socket.socket()) as second:
            # They fill the queue of connections that nobody takes.
            for client in (first, second):
                client.settimeout(0)
                client.connect_ex(listener.getsockname())
            port = listener.getsockname()[1]
            reply = connect(f"http://127.0.0.1:{port}", connect_timeout=SHORT_S).send(DEFINITION, [PHONE])
    assert (reply.outcome, reply.detail) == ("not_sent", "it did not take the connection in time")


def test_https_at_a_plain_service_has_sent_nothing(faulty: FaultyService, connect: Connect) -> None:
    """A TLS handshake with a service that speaks none fails before a byte of the request leaves."""
    reply = connect(f"https://127.0.0.1:{faulty.port}").send(DEFINITION, [PHONE])
    assert (reply.outcome, reply.detail) == ("not_sent", "its certificate was not accepted, or TLS failed")
    assert reply.may_retry
    assert not faulty.requests


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(file), "-out", str(file)]
    key, made = file.with_suffix(".key"), file.with_suffix(".crt")
    names[-3], names[-1] = str(key), str(made)
    subprocess.run([openssl, *options.split(), *names], check=True, capture_output=True)
    file.write_bytes(key.read_bytes() + made.read_bytes())
    return file


@pytest.fixture
def tls_port(certificate: Path) -> Iterator[int]:
    """A TLS service that reads a request to its end, and then closes the connection without an answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            try:
                with context.wrap_socket(listener.accept()[0], server_side=True) as stream:
                    stream.recv(65536)
            except OSError:
                return

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_an_unknown_certificate_has_sent_nothing(tls_port: int, connect: Connect) -> None:
    """A service whose certificate nobody vouches for gets no byte of the request."""
    reply = connect(f"https://127.0.0.1:{tls_port}").send(DEFINITION, [PHONE])
    assert (reply.outcome, reply.detail) == ("not_sent", "its certificate was not accepted, or TLS failed")
    assert reply.may_retry


def test_a_drop_inside_tls_is_unknown(tls_port: int, certificate: Path, connect: Connect) -> None:
    """Once the handshake is done the request leaves, and a connection that ends then proves nothing."""
    reply = connect(f"https://127.0.0.1:{tls_port}", verify=str(certificate)).send(DEFINITION, [PHONE])
    assert (reply.outcome, reply.detail) == ("unknown", BROKEN)


def test_a_pooled_connection_that_was_closed_costs_no_second_request(
    faulty: FaultyService, connect: Connect
) -> None:
    """A kept connection that breaks under a send makes it unknown; nothing is sent again by itself."""
    client = connect(faulty.url)
    assert client.send(DEFINITION, [PHONE]).outcome == "sent"
    faulty.behave({"end": "reset"})
    assert client.send(DEFINITION, [PHONE]).outcome == "unknown"
    assert len(faulty.requests) == 2


def test_a_send_is_what_the_reference_asks_for(faulty: FaultyService, connect: Connect) -> None:
    """A send is a JSON POST to /api/send with the phones and the definition."""
    connect(faulty.url).send('{"tag": "pulse", "text": "Grüße 🎉"}', [PHONE, "+4915112345678"])
    request = faulty.requests[0]
    assert (request.method, request.target.split("?")[0]) == ("POST", "/api/send")
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.body) == {
        "phone": [PHONE, "+4915112345678"],
        "tag": "pulse",
        "text": "Grüße 🎉",
    }


def test_threads_tell_their_own_bytes_apart(
    faulty: FaultyService, closed_port: int, connect: Connect
) -> None:
    """What one thread has sent says nothing about another thread's send."""
    faulty.behave({"end": "drop"})
    reached, refused = connect(faulty.url), connect(f"http://127.0.0.1:{closed_port}")
    outcomes: dict[str, list[str]] = {"reached": [], "refused": []}

    def send(name: str, client: Any) -> None:
        outcomes[name] += [client.send(DEFINITION, [PHONE]).outcome for _ in range(20)]

    threads = [
        threading.Thread(target=send, args=item) for item in (("reached", reached), ("refused", refused))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {"reached": ["unknown"] * 20, "refused": ["not_sent"] * 20}
