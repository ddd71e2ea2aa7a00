"""At run time every request to the service goes through requests, whatever command makes it."""

from __future__ import annotations

import socket
from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import urlsplit

import pytest
from requests.adapters import HTTPAdapter

from runner.cli.main import run
from runner.sandbox.web.server import running_service
from tests.service.wire import WireServer, read_message, write_answer

if TYPE_CHECKING:
    from pathlib import Path

    import requests

CAMPAIGN = """\
version: 1
name: pulse
tag: pulse-2026
recipients:
  - phone: "+14155550101"
  - phone: "+14155550102"
  - phone: "+14155550103"
limits: {recipients_per_send: 1}
messages:
  - id: ask
    text: Hello, how are you?
"""


class Witness:
    """Stands before a service, and takes note of every request that comes over the wire.

    Attributes:
        received: methods and paths.
        is_troubled: whether answers to sends are lost, and reads refused.
    """

    def __init__(self, port: int) -> None:
        self.received: Counter[tuple[str, str]] = Counter()
        self.is_troubled = False
        self._port = port

    def serve(self, stream: socket.socket, reader: BinaryIO) -> None:
        """Serve one connection."""
        while request := read_message(reader):
            self.received[request.method, urlsplit(request.target).path] += 1
            if self.is_troubled and request.method == "GET" and self.received["POST", "/api/send"]:
                stream.sendall(write_answer(500))
                continue
            head = [
                request.start,
                *(f"{name}: {value}" for name, value in request.headers.items()),
                "",
                "",
            ]
            # A connection for each: the sandbox ends those that stand idle, as on a busy machine.
            with (
                socket.create_connection(("127.0.0.1", self._port)) as upstream,
                upstream.makefile("rb") as answers,
            ):
                upstream.sendall("\r\n".join(head).encode() + request.body)
                answer = read_message(cast("BinaryIO", answers))
            assert answer is not None
            if self.is_troubled and request.method == "POST":
                return
            stream.sendall(write_answer(int(answer.start.split(" ")[1]), answer.body))


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """Methods and paths of all that the adapters of requests send."""
    counts: Counter[tuple[str, str]] = Counter()
    send = HTTPAdapter.send

    def count(self: HTTPAdapter, request: requests.PreparedRequest, *args: Any, **options: Any) -> Any:
        counts[str(request.method), urlsplit(str(request.url)).path] += 1
        return send(self, request, *args, **options)

    monkeypatch.setattr(HTTPAdapter, "send", count)
    return counts


@pytest.mark.slow
def test_requests_carries_every_request(
    carried: Counter[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the service received is what requests has sent: of each command, and of each kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / "pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
    with running_service(tmp_path / "service.sqlite") as service:
        witness = Witness(urlsplit(service.url).port or 0)
        with WireServer(witness.serve) as server:
            monkeypatch.setenv("RUNNER_BASE_URL", f"http://127.0.0.1:{server.port}")
            monkeypatch.setenv("RUNNER_USERNAME", service.username)
            monkeypatch.setenv("RUNNER_API_KEY", service.api_key)
            monkeypatch.setenv("RUNNER_SETTLE_WINDOW", "0s")

            def count(*arguments: str) -> int:
                before = witness.received.total()
                run(arguments)
                assert carried == witness.received
                return witness.received.total() - before

            assert count("validate") == 0
            assert count("plan") > 0
            witness.is_troubled = True
            assert count("apply", "--auto-approve", "--concurrency", "1") > 0
            witness.is_troubled = False
            assert count("resolve") > 0
            assert count("apply", "--auto-approve") > 0
            assert count("reconcile") > 0
    assert carried["POST", "/api/send"] == 3
    assert carried["GET", "/api/stats/"] > 0
