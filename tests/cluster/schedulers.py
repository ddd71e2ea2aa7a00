"""Dask schedulers and workers as operators run them: processes of their own, on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATIENCE_S = 30.0


def free_port() -> int:
    """Return a TCP port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@dataclass(slots=True)
class DaskScheduler:
    """A scheduler with its workers, while a `with` block lasts.

    Attributes:
        port: where it listens.
    """

    port: int
    _scheduler: subprocess.Popen[bytes] | None = None
    _workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Its address."""
        return f"tcp://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        arguments = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        self._scheduler = _start("distributed.cli.dask_scheduler", *arguments)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def add_worker(self, environment: Mapping[str, str] | None = None) -> None:
        """Start a worker of one thread, with some variables beside those of this process."""
        arguments = (self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        self._workers.append(_start("distributed.cli.dask_worker", *arguments, environment=environment))

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
        for process in filter(None, (self._scheduler, *self._workers)):
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
