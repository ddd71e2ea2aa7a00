"""Connects to a cluster, or starts one of processes on this machine; keeps Dask's own words to itself."""

from __future__ import annotations

import logging
import os
import signal
import socket
import warnings
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import dask
from distributed import Client, LocalCluster
from distributed.security import Security
from distributed.versions import VersionMismatchWarning

from runner.cluster.engine import PATIENCE_S, Cluster
from runner.errors import RunnerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runner.cluster.address import Address

_CONNECT_S = 10.0
_SAFE_PATH = "PYTHONSAFEPATH"
_SILENT = logging.CRITICAL + 1
_LOGGERS = (
    "distributed",
    "distributed.client",
    "distributed.gc",
    "tornado",
    "tornado.application",
    "asyncio",
)
_SETTINGS: dict[str, Any] = {
    # Tasks keep their own memory small: what counts as too much for Dask is the page cache of the files.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.http.routes": [],
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.allowed-failures": 5,
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.diagnostics.nvml": False,
    # Dask reads this when it starts in a worker, which writes to the same terminal.
    "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": _SILENT,
}


@contextmanager
def open_cluster(
    address: Address, environment: Mapping[str, str], patience_s: float = PATIENCE_S
) -> Iterator[Cluster]:
    """Connect to a cluster while the block lasts; `local:N` starts one of N processes on this machine.

    Args:
        address: where it is.
        environment: variables that workers started here have beside those of this process.
        patience_s: how long the scheduler, or the last of the workers, may be away, in seconds.

    Raises:
        RunnerError: there is no scheduler there, or the processes cannot be started.
    """
    with _silence(), dask.config.set(_SETTINGS), _start_safely():
        if address.workers is None:
            with _connect(address.text, patience_s) as client:
                yield Cluster(client, address.text, patience_s)
        else:
            with _start_local(address.workers, environment) as local, _join(local, patience_s) as client:
                yield Cluster(client, address.text, patience_s)


@contextmanager
def _start_safely() -> Iterator[None]:
    """Keep the working folder off the workers' path, and take back what Dask leaves in the environment."""
    names = ("PYTHONHASHSEED", _SAFE_PATH, *dask.config.get("distributed.nanny.pre-spawn-environ"))
    before = {name: os.environ[name] for name in names if name in os.environ}
    # A worker, and what restarts one, begins with `python -c`, which would import from a checkout first.
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep Dask's own words from the terminal: what matters of them is said as an error."""
    # For good: its threads go on speaking while they end, after an interrupt even later than this block.
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(_SILENT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)
        yield


@contextmanager
def _connect(address: str, patience_s: float) -> Iterator[Client]:
    _require_listener(address)
    try:
        client = Client(address, timeout=patience_s, set_as_default=False)
    except (OSError, TimeoutError, TypeError, ValueError) as error:
        raise _no_scheduler(address, error) from None
    with client:
        yield client


@contextmanager
def _join(local: LocalCluster, patience_s: float) -> Iterator[Client]:
    with Client(local, timeout=patience_s, set_as_default=False) as client:
        yield client


def _require_listener(address: str) -> None:
    """See soon if no scheduler listens at an address: the client itself would wait, some even for ever."""
    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=_CONNECT_S) as probe:
            # Without TLS, both sides begin to speak at once.
            if parts.scheme == "tcp" and not probe.recv(1):
                raise _no_scheduler(address, EOFError())
    except OSError as error:
        raise _no_scheduler(address, error) from None


def _no_scheduler(address: str, error: Exception) -> RunnerError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "it does not answer as one"
    return RunnerError(
        f"there is no Dask scheduler at {address}: {reason}",
        hint="start one with `dask scheduler`, or work on this machine alone, with --cluster local:N",
    )


@contextmanager
def _start_local(workers: int, environment: Mapping[str, str]) -> Iterator[LocalCluster]:
    try:
        # Who starts this first has SIGINT unblocked again, so it must not be that thread.
        resource_tracker.ensure_running()
        # The thread that starts the workers inherits the mask, and they do from it: Ctrl-C in the terminal
        # reaches this process alone, which then ends them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            local = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                security=Security.temporary(),
                silence_logs=False,
                env=dict(environment),
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    except (OSError, RuntimeError, TimeoutError) as error:
        raise RunnerError(
            f"the {workers} processes of --cluster local:{workers} cannot be started: {error}",
            hint="check the memory of this machine, and how many processes and files this user may have",
        ) from None
    pids: set[int] = set()
    with ExitStack() as stack:
        # Last: Dask's own ending of busy workers can be cut short, and its threads wait for them for ever.
        stack.callback(_kill, pids)
        stack.enter_context(local)
        stack.callback(lambda: pids.update(nanny.pid for nanny in local.workers.values() if nanny.pid))
        yield local


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
