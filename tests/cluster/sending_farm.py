"""A scheduler with workers of its own, a ledger that they share, and a campaign that they send to a service."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.cli.main import run as run_command
from tests.cluster.schedulers import DaskScheduler, free_port
from tests.deliver.conftest import API_KEY, USERNAME

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

    from tests.deliver.conftest import FaultyService
    from tests.postgres import PostgresServer

_PATIENCE_S = 100.0
_STEP = 1637
"""From phone to phone, so that few of them are in all partitions."""
APPLY = ("apply", "--auto-approve")
SHORT_LEASES = ("--partition-lease", "2")


class Farm:
    """A scheduler and two workers that have the secrets of one ledger and one service.

    Attributes:
        server: where the ledger is.
        database: its name there.
        scheduler: with its workers.
    """

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.database = server.create_database()
        self.scheduler = DaskScheduler(free_port())
        self.environment = {
            "RUNNER_LEDGER": server.url(self.database),
            "RUNNER_USERNAME": USERNAME,
            "RUNNER_API_KEY": API_KEY,
        }

    def empty_ledger(self) -> None:
        """Make the database one that nobody has used."""
        for statement in ("DROP SCHEMA public CASCADE", "CREATE SCHEMA public"):
            self.server.execute(statement, database=self.database)

    def query(self, sql: Any) -> list[Any]:
        """Ask the ledger."""
        return self.server.execute(sql, database=self.database)

    def find_holder(self) -> tuple[str, subprocess.Popen[bytes]]:
        """Return the holder of a partition's lease, and its worker: its nanny, if it has one."""
        ((holder,), *_) = self.query("SELECT holder FROM partition_leases WHERE holder IS NOT NULL")
        return holder, self.scheduler.find_worker(int(holder.split()[1]))

    def find_sender(self) -> subprocess.Popen[bytes]:
        """Return a worker that holds the lease of a partition."""
        holders = {
            row[0] for row in self.query("SELECT holder FROM partition_leases WHERE holder IS NOT NULL")
        }
        named = {
            f"process {worker.pid} on {socket.gethostname()}": worker for worker in self.scheduler.workers
        }
        return named[min(holders & named.keys())]


@dataclass(slots=True)
class Sending:
    """A folder with one campaign, which sends one personal text to each of its phones.

    Attributes:
        folder: the repository's root.
        farm: what sends.
        service: what is sent to.
        monkeypatch: names them in the environment of this process.
        capture: has what commands write that run inside this process.
    """

    folder: Path
    farm: Farm
    service: FaultyService
    monkeypatch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def write_campaign(self, count: int, *, rate: str | None = None, per_send: int = 1) -> tuple[str, ...]:
        """Write the campaign and return its phones."""
        phones = tuple(f"+1415{5_550_100 + _STEP * number}" for number in range(count))
        people = "".join(f"  - {{phone: '{phone}', vars: {{name: P{phone[-4:]}}}}}\n" for phone in phones)
        limits = f"limits: {{recipients_per_send: {per_send}{f', rate: {rate}' if rate else ''}}}\n"
        file = self.folder / "campaigns" / "pulse.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            f"version: 1\nname: pulse\ntag: pulse-2026\nrecipients:\n{people}{limits}"
            "messages:\n  - {id: ask, text: 'Hello {{ name }}, how are you?'}\n",
            encoding="utf-8",
        )
        return phones

    def hold_after(self, count: int) -> None:
        """Have the service text everyone, but leave requests after the first ones without an answer."""
        self.service.decide = lambda number, _request: {"end": "hold"} if number > count else {}

    def start_until(self, count: int, *arguments: str) -> subprocess.Popen[str]:
        """Start `runner apply` as a process of its own, and wait until so many requests have come."""
        client = self.start_apply(*arguments)
        wait_until(lambda: len(self.service.requests) >= count)
        return client

    @property
    def lockfile(self) -> Path:
        """The campaign's."""
        return self.folder / "campaigns" / "pulse.live.lock.json"

    def list_recorded(self) -> int:
        """Return how many launches the lockfile has."""
        return len(json.loads(self.lockfile.read_text(encoding="utf-8"))["launches"])

    def enter(self) -> None:
        """Have commands of this process, and of those that it starts, run here, with everything named."""
        self.monkeypatch.chdir(self.folder)
        named = {
            **self.farm.environment,
            "RUNNER_BASE_URL": self.service.url,
            "RUNNER_CLUSTER": self.farm.scheduler.address,
            "RUNNER_SETTLE_WINDOW": "0s",
        }
        for name, value in named.items():
            self.monkeypatch.setenv(name, value)

    def end(self) -> None:
        """Let go of held requests and stopped workers, and end the commands that still run."""
        self.service.open_gate()
        for worker in self.farm.scheduler.workers:
            worker.send_signal(signal.SIGCONT)
        for process in self.processes:
            process.kill()
            process.communicate()

    def start_apply(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `runner apply` as a process of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "runner", *APPLY, *arguments],
            cwd=self.folder,
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command inside this process; return its exit code, its output and its messages."""
        code = run_command(arguments)
        out, err = self.capture.readouterr()
        return code, out, err

    def apply(self, *arguments: str) -> tuple[int, str, str]:
        """Run `runner apply` inside this process."""
        return self.run(*APPLY, "--quiet", *arguments)

    def require_everyone_once(self, phones: tuple[str, ...]) -> None:
        """Make sure that the service has texted everyone exactly once, and that the lockfile has it all."""
        assert dict(self.service.accepted) == dict.fromkeys(phones, 1)
        assert self.list_recorded() == len(self.service.launches)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the end of a command; return its exit code, its output and its messages."""
    out, err = process.communicate(timeout=_PATIENCE_S)
    return process.returncode, out, err


@contextmanager
def ending(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill a command that has not ended by the end of the block."""
    try:
        yield
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], wanted: re.Pattern[str]) -> str:
    """Read a command's messages until something is among them, and return those read."""
    assert process.stderr is not None
    stderr, said = process.stderr.fileno(), ""
    while not wanted.search(said):
        assert select.select([stderr], [], [], _PATIENCE_S)[0], said
        piece = os.read(stderr, 65_536).decode()
        assert piece, said
        said += piece
    return said


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for something that must happen."""
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
