"""Machines that share a ledger: the real command, as processes with folders of their own (docs/delivery.md)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import urlsplit

import pytest
import requests

from runner.sandbox.web.server import running_service
from tests.postgres import PASSWORD
from tests.service.wire import WireServer, read_message, write_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress
    from tests.postgres import PostgresServer

PEOPLE = 12
CAMPAIGN = f"""\
version: 1
name: pulse
tag: pulse-2026
recipients:
{"".join(f"  - {{phone: '+141555501{number:02}', vars: {{name: P{number}}}}}{chr(10)}" for number in range(PEOPLE))}messages:
  - {{id: ask, text: "Hi {{{{ name }}}}!"}}
"""
PATIENCE_S = 100


class Machine:
    """A checkout of the campaigns, and the environment that its commands run in."""

    def __init__(self, folder: Path, name: str, service: Service, ledger: str) -> None:
        self.folder = folder / name
        (self.folder / "campaigns").mkdir(parents=True)
        (self.folder / "campaigns" / "pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
        # Slow enough that another run can meet it.
        targets = f"version: 1\ntargets:\n  live: {{base_url: '{service.url}', limits: {{rate: 5/s}}}}\n"
        (self.folder / "campaigns" / "targets.yaml").write_text(targets, encoding="utf-8")
        self._environment = {
            **os.environ,
            "RUNNER_TARGET": "live",
            "RUNNER_USERNAME": service.username,
            "RUNNER_API_KEY": service.api_key,
            "RUNNER_LEDGER": ledger,
            "RUNNER_SETTLE_WINDOW": "1s",
            "CI_JOB_URL": f"https://ci.example.com/{name}",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "runner", *arguments],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; return its exit code, its output and its messages."""
        return finish(self.start(*arguments))

    @property
    def lockfile(self) -> Path:
        """Where the lockfile stands."""
        return self.folder / "campaigns" / "pulse.live.lock.json"


class Door:
    """Stands before a service, and lets no more sends in than a test says, until it is opened.

    So a run lasts as long as a test needs it to, however busy the machine is.
    """

    def __init__(self, url: str) -> None:
        self._port = urlsplit(url).port or 0
        self._lock = threading.Lock()
        self._opened = threading.Event()
        self._sends = 0
        self._most: int | None = None

    def let_in(self, most: int) -> None:
        """Let in as many sends, and keep the rest waiting."""
        self._most = most

    def open(self) -> None:
        """Let everything in."""
        self._opened.set()

    def serve(self, stream: socket.socket, reader: BinaryIO) -> None:
        """Serve one connection of a `WireServer`."""
        while request := read_message(reader):
            if request.method == "POST":
                with self._lock:
                    self._sends += 1
                    is_kept = self._most is not None and self._sends > self._most
                if is_kept:
                    self._opened.wait(PATIENCE_S)
            head = [request.start, *(f"{name}: {value}" for name, value in request.headers.items()), "", ""]
            # One at a time: the service ends connections that stand idle.
            with (
                socket.create_connection(("127.0.0.1", self._port)) as upstream,
                upstream.makefile("rb") as answers,
            ):
                upstream.sendall("\r\n".join(head).encode() + request.body)
                answer = read_message(cast("BinaryIO", answers))
            if answer is None:
                return
            stream.sendall(write_answer(int(answer.start.split(" ")[1]), answer.body))


class Service:
    """A sandbox that both machines reach, and who was texted there."""

    def __init__(self, address: ServiceAddress, url: str, door: Door) -> None:
        self.url = url
        self.door = door
        self.username = address.username
        self.api_key = address.api_key

    def list_texted(self) -> list[str]:
        """Return the phone of each session, in order: one that was texted twice is there twice."""
        answer = requests.get(
            f"{self.url}/api/stats/",
            params={"username": self.username, "api_key": self.api_key, "limit": "100"},
            timeout=PATIENCE_S,
        )
        launches = answer.json()["objects"]
        return sorted(session["to"] for launch in launches for session in launch["sessions"])

    def wait_until_texted(self, count: int) -> None:
        """Wait until so many people were texted."""
        wait_for(lambda: len(self.list_texted()) >= count)


EVERYONE = [f"+141555501{number:02}" for number in range(PEOPLE)]


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert PASSWORD not in stdout + stderr
    return process.returncode, stdout, stderr


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """The service, and who was texted there."""
    with running_service(tmp_path / "service.sqlite") as address:
        door = Door(address.url)
        with WireServer(door.serve) as server:
            try:
                yield Service(address, f"http://127.0.0.1:{server.port}", door)
            finally:
                door.open()


@pytest.fixture
def machines(tmp_path: Path, service: Service, new_url: Callable[[], str]) -> list[Machine]:
    """Two machines that share a ledger: an SQLite file on a disk of both, or a database on a server."""
    ledger = new_url()
    return [Machine(tmp_path, name, service, ledger) for name in ("here", "there")]


@pytest.mark.slow
def test_of_two_runs_at_once_one_sends(machines: list[Machine], service: Service) -> None:
    """One texts everyone, the other exits with 6 and says who; status needs no lock and reads meanwhile."""
    service.door.let_in(1)
    processes = [machine.start("apply", "--auto-approve") for machine in machines]
    # The one that sends goes on as long as the other one has not met it.
    wait_for(lambda: any(process.poll() is not None for process in processes))
    code, stdout, stderr = machines[0].run("status", "--format", "json")
    assert code == 0, stderr
    (message,) = json.loads(stdout)["campaigns"][0]["messages"]
    assert message["sent"] + message["unresolved"] + message["planned"] == PEOPLE
    service.door.open()
    ended = [finish(process) for process in processes]
    assert sorted(code for code, _, _ in ended) == [0, 6], ended
    loser = next(index for index, (code, _, _) in enumerate(ended) if code == 6)
    winner = machines[1 - loser]
    message, hint = ended[loser][2].splitlines()
    assert message.startswith("Error: pulse on live is being sent by another run: process ")
    assert f" (https://ci.example.com/{winner.folder.name}) since 20" in message
    assert hint == "  wait until that run has ended, or have this one wait with --lock-timeout"
    assert service.list_texted() == EVERYONE
    code, stdout, _ = machines[loser].run("apply", "--auto-approve")
    assert (code, stdout) == (0, "pulse: nothing sent.\n")
    assert machines[0].lockfile.read_bytes() == machines[1].lockfile.read_bytes()


@pytest.mark.slow
def test_a_server_that_restarts_during_a_run_loses_nothing(
    tmp_path: Path, service: Service, postgres: PostgresServer
) -> None:
    """Connections that break end the run in words; the next one sends the rest, and nobody is texted twice."""
    database = postgres.create_database()
    machine = Machine(tmp_path, "here", service, postgres.url(database, scheme="postgresql"))
    service.door.let_in(3)
    process = machine.start("apply", "--auto-approve")
    service.wait_until_texted(3)
    postgres.end_sessions(database)
    service.door.open()
    code, _, stderr = finish(process)
    assert code == 1
    assert "\nError: " in f"\n{stderr}"
    assert "Traceback" not in stderr
    code, _, stderr = machine.run("apply", "--auto-approve")
    assert code == 0, stderr
    assert service.list_texted() == EVERYONE
