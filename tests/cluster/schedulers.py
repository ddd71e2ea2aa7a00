"""Dask schedulers and workers as operators run them: processes of their own, on this machine."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import dask
from distributed import Client

from tests.torture.door import hold_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PATIENCE_S = 100.0


def free_port() -> int:
    """Return a TCP port that nobody listens at, and that this process keeps for who is told of it.

    A port that is only known to be free may be another connection's by the time a scheduler has started.
    """
    holder = hold_port()
    atexit.register(holder.close)
    port: int = holder.getsockname()[1]
    return port


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files for TLS, in PEM: the cluster's CA, a certificate and its key."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    @contextmanager
    def set(self) -> Iterator[None]:
        """Have Dask's own settings name the client's files while a block lasts."""
        tls = "distributed.comm.tls"
        with dask.config.set(
            {f"{tls}.ca-file": self.ca, f"{tls}.client.cert": self.cert, f"{tls}.client.key": self.key}
        ):
            yield


@dataclass(slots=True)
class DaskScheduler:
    """A scheduler with its workers, while a `with` block lasts.

    Attributes:
        port: where it listens.
        tls: the certificates of scheduler and workers; None for tcp.
    """

    port: int
    tls: TlsFiles | None = None
    _scheduler: subprocess.Popen[bytes] | None = None
    _workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _left: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Its address."""
        return f"{'tls' if self.tls else 'tcp'}://127.0.0.1:{self.port}"

    @property
    def _certificates(self) -> tuple[str, ...]:
        tls = self.tls
        files = (tls.ca, tls.cert, tls.key) if tls else ()
        names = ("--tls-ca-file", "--tls-cert", "--tls-key")
        return tuple(word for name, file in zip(names, files, strict=False) for word in (name, str(file)))

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Start the scheduler, and wait until it listens."""
        arguments = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        self._scheduler = _start("distributed.cli.dask_scheduler", *arguments, *self._certificates)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                return

    def kill_scheduler(self) -> None:
        """Kill the scheduler alone: its workers end by themselves, after the calls that they make."""
        assert self._scheduler is not None
        self._scheduler.kill()
        self._scheduler.wait()
        self._left += self._workers
        self._workers = []

    def __exit__(self, *_: object) -> None:
        self.kill()

    def add_worker(self, environment: Mapping[str, str] | None = None, *, nanny: bool = False) -> None:
        """Start a worker of one thread, with some variables beside those of this process."""
        kind = "--nanny" if nanny else "--no-nanny"
        arguments = (self.address, "--nthreads", "1", kind, "--no-dashboard", "--host", "127.0.0.1")
        words = (*arguments, *self._certificates)
        self._workers.append(_start("distributed.cli.dask_worker", *words, environment=environment))

    def wait_for_workers(self) -> None:
        """Wait until all workers that were started are known to the scheduler."""
        with Client(self.address, timeout=_PATIENCE_S) as client:
            client.wait_for_workers(len(self._workers), timeout=_PATIENCE_S)

    def find_worker(self, pid: int) -> subprocess.Popen[bytes]:
        """Return the worker with a process: itself, or its nanny."""
        with Client(self.address, timeout=_PATIENCE_S) as client:
            parents = {client.run(os.getpid)[each]: parent for each, parent in client.run(os.getppid).items()}
        (found,) = [worker for worker in self._workers if worker.pid in {pid, parents[pid]}]
        return found

    def retire_worker(self, pid: int) -> None:
        """Have the scheduler let a worker go, given its process, as autoscaling does."""
        address = self.find_address(pid)
        with Client(self.address, timeout=_PATIENCE_S) as client:
            client.retire_workers([address])

    def find_address(self, pid: int) -> str:
        """Return the address of a worker, given its process."""
        with Client(self.address, timeout=_PATIENCE_S) as client:
            (address,) = [worker for worker, found in client.run(os.getpid).items() if found == pid]
        return str(address)

    def wait_until_leaving(self, address: str) -> None:
        """Wait until the scheduler has heard of a worker that it is leaving, or has left."""
        deadline = time.monotonic() + _PATIENCE_S
        with Client(self.address, timeout=_PATIENCE_S) as client:
            while client.scheduler_info(n_workers=-1)["workers"].get(address, {}).get("status") == "running":
                assert time.monotonic() < deadline
                time.sleep(0.05)

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        """The workers that were started, and not killed on their own."""
        return self._workers

    def kill_worker(self, process: subprocess.Popen[bytes] | None = None) -> None:
        """Kill a worker: the one that was started last, if none is named."""
        process = process or self._workers[-1]
        self._workers.remove(process)
        process.kill()
        process.wait()

    def kill(self) -> None:
        """Kill the scheduler and its workers, as a power cut would."""
        for process in filter(None, (self._scheduler, *self._workers, *self._left)):
            process.kill()
            process.wait()


def _start(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", f"from {module} import main; main()", *arguments],
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
