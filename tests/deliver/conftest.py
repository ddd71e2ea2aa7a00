"""A service on a real socket that goes wrong on demand, and a repository whose campaign is sent to it."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import parse_qsl, urlsplit

import pytest

from runner.cli.main import run as run_command
from runner.git.lease import Clocks
from runner.ledger.locks.campaign_lock import read_clock
from runner.service.client import ServiceClient
from runner.service.connection import Connection
from runner.service.target import Credentials, Target
from tests.patient_server import PatientServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_S = 100.0
"""Longest wait of a test, in seconds, for something that must happen sooner."""
USERNAME = "ada@example.com"
API_KEY = "a&b=c/ü+%"
"""Each of its characters is escaped somewhere: in a query, in JSON, in HTML."""
PHONES = tuple(f"+1415555{number:04}" for number in range(100, 200))


StatJson = dict[str, Any]


class Behaviour(TypedDict, total=False):
    """The service's behaviour for one send; it is correct by default.

    Attributes:
        accepts: whether it texts the phones. Default: yes.
        status: of the answer. Default: 201.
        body: of the answer. Default: a JSON object with the guid.
        headers: beside the usual ones.
        end: the end of the exchange, if not a whole answer: `drop` closes the connection before answering,
            `reset` resets it, `half` closes it within the body, `noise` answers something that is not HTTP,
            `hold` answers when the test opens the gate.
    """

    accepts: bool
    status: int
    body: bytes
    headers: dict[str, str]
    end: Literal["drop", "reset", "half", "noise", "hold"]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as received."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters, unquoted."""
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def data(self) -> dict[str, Any]:
        """The body as JSON."""
        data: dict[str, Any] = json.loads(self.body)
        return data


class FaultyService:
    """A service that counts the texts it accepted.

    Attributes:
        requests: all sends in order of arrival.
        reads: all other requests.
        accepted: number of texts by phone.
        guids: of the accepted launches.
        launches: the accepted launches as stat records.
        plan: the plan in its lists.
        decide: returns the behaviour for a send, given its number, from 1, and the request.
        choose_listed: returns the accepted launches to list, given the number of the read, from 1, and all of
            them.
        clock_s: seconds that its clock is ahead.
        lists_results: whether it lists results; else their requests are answered like sends.
    """

    def __init__(self) -> None:
        self.clock_s = 0.0
        self.lists_results = True
        self.requests: list[Request] = []
        self.reads: list[Request] = []
        self.launches: list[dict[str, Any]] = []
        self.plan: Any = {"name": "test", "price_usd": "0.00", "renders": {"max": 100_000, "used": 0}}
        self.accepted: Counter[str] = Counter()
        self.guids: list[str] = []
        self.decide: Callable[[int, Request], Behaviour] = lambda _number, _request: {}
        self.choose_listed: Callable[[int, list[StatJson]], list[StatJson]] = lambda _number, launches: (
            launches
        )
        self._refuses_reads: int | None = None
        self._gate = threading.Event()
        self._changed = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.service = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def port(self) -> int:
        """The port of the service."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()

    def close(self) -> None:
        """Release all held answers, and end."""
        self.open_gate()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def behave(self, behaviour: Behaviour) -> None:
        """Set the behaviour for every send from now on."""
        self.decide = lambda _number, _request: behaviour

    def refuse_reads(self, status: int | None) -> None:
        """Answer everything but sends with a status from now on; None lists again."""
        self._refuses_reads = status

    def open_gate(self) -> None:
        """Release the held answers, and hold none any more."""
        self._gate.set()

    def wait_at_gate(self) -> None:
        """Wait until the test opens the gate."""
        self._gate.wait(PATIENCE_S)

    def wait_for_requests(self, count: int) -> None:
        """Wait until a total number of requests has arrived."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, PATIENCE_S)

    def take(self, request: Request) -> tuple[str, Behaviour]:
        """Count a send; return its guid and behaviour."""
        with self._changed:
            self.requests.append(request)
            number = len(self.requests)
        # Outside the lock: a test's function may take its time, or open the ledger.
        behaviour = self.decide(number, request)
        guid = f"00000000-0000-4000-8000-{number:012}"
        with self._changed:
            if behaviour.get("accepts", True):
                self.accepted.update(request.data["phone"])
                self.guids.append(guid)
                self.launches.append(_make_stat(guid, request.data))
            self._changed.notify_all()
        return guid, behaviour

    def list_launches(self, request: Request) -> tuple[int, bytes]:
        """Return status and body of an answer to `GET /api/stats/`."""
        with self._changed:
            self.reads.append(request)
            launches = self.choose_listed(len(self.reads), list(self.launches))
        if self._refuses_reads is not None:
            return self._refuses_reads, b""
        query = request.query
        found = [
            item for item in launches if item["project_tag"] == query.get("project_tag", item["project_tag"])
        ]
        offset, limit = int(query.get("offset", "0")), int(query.get("limit", "20"))
        meta = {"limit": limit, "offset": offset, "total_count": len(found), "plan": self.plan}
        return 200, json.dumps({"meta": meta, "objects": found[offset : offset + limit]}).encode()

    def list_results(self, request: Request) -> tuple[int, bytes]:
        """Return status and body of an answer to `GET /api/results`: nobody has answered."""
        with self._changed:
            self.reads.append(request)
        if self._refuses_reads is not None:
            return self._refuses_reads, b""
        meta = {"limit": 20, "offset": 0, "total_count": 0, "plan": self.plan}
        return 200, json.dumps({"meta": meta, "objects": []}).encode()

    def read_launch(self, guid: str) -> tuple[int, bytes]:
        """Return status and body of an answer to `GET /api/stats/{project_launch_guid}/`."""
        with self._changed:
            found = [item for item in self.launches if item["project_launch_guid"] == guid]
        return (200, json.dumps(found[0]).encode()) if found else (404, b"{}")


def _make_stat(guid: str, data: dict[str, Any]) -> dict[str, Any]:
    counts = ("active_sessions", "complete_sessions", "messages", "questions", "queued_sessions")
    return {
        **{f"num_{name}": 0 for name in (*counts, "renders", "results")},
        "project_definition": {key: value for key, value in data.items() if key != "phone"},
        "project_launch_guid": guid,
        "project_launch_start": datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="microseconds"),
        "project_tag": data.get("tag", ""),
        "sessions": [{"to": phone, "method": "SMS", "status": "ACTIVE"} for phone in data["phone"]],
    }


class _Server(PatientServer):
    service: FaultyService


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string((timestamp or time.time()) + self.server.service.clock_s)

    def do_POST(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        request = Request(self.command, self.path, dict(self.headers.items()), b"")
        guid = path.removeprefix("/api/stats/").strip("/")
        service = self.server.service
        if path.startswith("/api/results"):
            if not service.lists_results:
                self._answer()
                return
            status, content = service.list_results(request)
        else:
            status, content = service.read_launch(guid) if guid else service.list_launches(request)
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
        """Say nothing."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        request = Request(self.command, self.path, dict(self.headers.items()), body)
        guid, behaviour = self.server.service.take(request)
        end = behaviour.get("end")
        if end == "hold":
            self.server.service.wait_at_gate()
        if end in ("drop", "reset", "noise"):
            self._break_off(end)
            return
        content = behaviour.get("body", json.dumps({"project_launch_guid": guid}).encode())
        self.send_response(behaviour.get("status", 201))
        for name, value in behaviour.get("headers", {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) + (100 if end == "half" else 0)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = self.close_connection or end == "half"

    def _break_off(self, end: str) -> None:
        self.close_connection = True
        if end == "noise":
            self.wfile.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        if end == "reset":
            # Lingering for 0 s turns the end of the connection into a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def campaign(self) -> dict[str, Any]:
        """The first campaign of its JSON output."""
        campaign: dict[str, Any] = json.loads(self.out)["campaigns"][0]
        return campaign


class Repository:
    """A folder with one campaign, which sends one text to each of its phones, one phone a launch.

    Attributes:
        folder: the repository's root.
        ledger: the default ledger.
        lockfile: the campaign's, on the target `live`.
        campaign: the campaign file.
    """

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.ledger = folder / ".runner" / "ledger.sqlite"
        self.lockfile = folder / "campaigns" / "pulse.live.lock.json"
        self.campaign = folder / "campaigns" / "pulse.yaml"
        self._capture = capture

    def write_campaign(self, count: int, *, per_send: int = 1) -> tuple[str, ...]:
        """Write the campaign and return its phones."""
        phones = PHONES[:count]
        self.campaign.parent.mkdir(exist_ok=True)
        recipients = "".join(f'  - phone: "{phone}"\n' for phone in phones)
        self.campaign.write_text(
            f"version: 1\nname: pulse\ntag: pulse-2026\nrecipients:\n{recipients}"
            f"limits:\n  recipients_per_send: {per_send}\n"
            "messages:\n  - id: ask\n    text: Hello, how are you?\n",
            encoding="utf-8",
        )
        return phones

    def apply(self, *arguments: str) -> Applied:
        """Run `runner apply` inside this process."""
        return self.run("apply", "--auto-approve", *arguments)

    def run(self, *arguments: str) -> Applied:
        """Run a command inside this process."""
        code = run_command(arguments)
        out, err = self._capture.readouterr()
        return Applied(code, out, err)

    def start(self, *arguments: str, prelude: str = "") -> subprocess.Popen[str]:
        """Start `runner apply --auto-approve` as a process, which runs Python code first."""
        program = (
            f"{prelude}\nimport math, sys\nfrom runner.cli import console\nfrom runner.cli.main import run\n"
            # As for commands inside this process.
            "console._LINE_EVERY_S = math.inf\nsys.exit(run(sys.argv[1:]))"
        )
        return subprocess.Popen(
            [sys.executable, "-c", program, "apply", "--auto-approve", *arguments],
            cwd=self.folder,
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Query the ledger as another process would."""
        with closing(sqlite3.connect(self.ledger, timeout=PATIENCE_S)) as connection:
            return connection.execute(sql).fetchall()

    def count_recipients(self) -> dict[str, int]:
        """Return the recipients of the ledger's deliveries, by the state of their launch."""
        return dict(
            self.query(
                "SELECT state, count(*) FROM deliveries JOIN launches ON launches.id = launch_id GROUP BY state"
            )
        )


@pytest.fixture
def faulty() -> Iterator[FaultyService]:
    """The service, which behaves well by default."""
    service = FaultyService()
    service.start()
    try:
        yield service
    finally:
        service.close()


@pytest.fixture
def service_env(faulty: FaultyService) -> dict[str, str]:
    """The environment of machines that share a remote and send to a service that lists a launch at once."""
    return {
        "RUNNER_BASE_URL": faulty.url,
        "RUNNER_USERNAME": USERNAME,
        "RUNNER_API_KEY": API_KEY,
        "RUNNER_STATE_REMOTE": "origin",
        "RUNNER_SETTLE_WINDOW": "0s",
    }


@pytest.fixture
def leaping_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands inside this process sit out another machine's lease in no time.

    So leases can be long, and a busy machine loses none: the clock leaps ahead where somebody sleeps by it.
    """
    leapt = [0.0]
    clocks = Clocks(lambda: read_clock() + sum(leapt), leapt.append)
    monkeypatch.setattr("runner.workflow.workspace.state_remote._CLOCKS", clocks)


@pytest.fixture
def skipped_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs inside this process wait for a settle window of ten minutes, and let it pass in no time.

    A window of some moments is over before a busy machine has looked for the first time.
    """
    monkeypatch.setenv("RUNNER_SETTLE_WINDOW", "10m")

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return super().wait(0 if timeout is not None and timeout > PATIENCE_S else timeout)

    monkeypatch.setattr("runner.workflow.delivery.apply_session.threading", SimpleNamespace(Event=Stop))


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken but refuses connections."""
    with closing(socket.socket()) as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture
def connect() -> Iterator[Callable[..., ServiceClient]]:
    """Make a client of a base URL; `verify` and the target's limits may be given."""
    connections = []

    def make(base_url: str, *, verify: bool | str = True, **limits: Any) -> ServiceClient:
        target = Target("live", base_url, Credentials(USERNAME, API_KEY), **limits)
        connection = Connection(target, verify=verify)
        connections.append(connection)
        return ServiceClient(target, connection, wait=lambda _: None)

    yield make
    for connection in connections:
        connection.close()


@pytest.fixture
def repository(
    tmp_path: Path,
    faulty: FaultyService,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Repository:
    """A repository without a campaign yet, whose target `live` is the faulty service."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("BASE_URL", faulty.url), ("USERNAME", USERNAME), ("API_KEY", API_KEY)):
        monkeypatch.setenv(f"RUNNER_{name}", value)
    # This service lists a launch at once.
    monkeypatch.setenv("RUNNER_SETTLE_WINDOW", "0s")
    return Repository(tmp_path, capsys)
