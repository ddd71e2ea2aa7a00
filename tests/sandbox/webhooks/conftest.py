"""Real receivers on real sockets, which keep what they were sent and answer as they are told."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.definition import read_send
from tests.patient_server import PatientServer

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from runner.sandbox.service import Service

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


@dataclass(slots=True)
class Hook:
    """A running receiver.

    Attributes:
        port: where it listens.
        answers: the statuses that it gives next, in order; then 200.
        requests: path, headers and body of each request, as they came.
    """

    port: int
    answers: list[int] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where results are to be sent."""
        return f"http://127.0.0.1:{self.port}/hook"

    def wait(self, count: int, seconds: float = 60) -> None:
        """Wait until so many requests have come."""
        ends = time.monotonic() + seconds
        while len(self.requests) < count and time.monotonic() < ends:
            time.sleep(0.01)
        assert len(self.requests) >= count


class _Server(PatientServer):
    hook: Hook


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        hook = self.server.hook
        # Before the answer, after which a test may look.
        hook.requests.append((self.path, dict(self.headers), body))
        status = hook.answers.pop(0) if hook.answers else 200
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", f"{hook.url}/elsewhere")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def receive() -> Callable[..., AbstractContextManager[Hook]]:
    """Run a receiver while a block lasts: on which address and port, and with which TLS if any."""

    @contextmanager
    def run(host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Hook]:
        with _Server((host, port), _Handler) as server:
            server.hook = Hook(server.server_port)
            if tls is not None:
                server.socket = tls.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            try:
                yield server.hook
            finally:
                server.shutdown()
                thread.join()

    return run


@pytest.fixture
def hook(receive: Callable[..., AbstractContextManager[Hook]]) -> Iterator[Hook]:
    """A receiver on a loopback port."""
    with receive() as running:
        yield running


@pytest.fixture
def record() -> Callable[..., None]:
    """Record a result of each phone, with a webhook on a receiver: service, host and port, phones."""

    def answer(service: Service, receiver: str, *phones: str) -> None:
        questions = [{"text": "Why?", "webhook": f"http://{receiver}/hook"}]
        request = read_send(json.dumps({"questions": questions, "phone": list(phones)}).encode())
        service.send(request.definition, request.phones, NOON)
        for phone in phones:
            service.receive(phone, "calm", NOON)

    return answer


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for localhost that only itself vouches for, and its key."""
    made, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        [*command.split(), *names, "-out", made, "-keyout", key], check=True, capture_output=True, timeout=60
    )
    return made, key
