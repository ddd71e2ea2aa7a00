"""Connections to Dask clusters, and checks that workers have this program's version, key and folder."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import warnings
from contextlib import contextmanager, suppress
from multiprocessing import active_children, resource_tracker
from typing import TYPE_CHECKING, Any

import dask
from distributed import Client, LocalCluster
from distributed.security import Security
from distributed.versions import VersionMismatchWarning

from runner.cluster.address import pack_call
from runner.cluster.dask_engine import PATIENCE_S, Cluster
from runner.cluster.plan_job import open_key
from runner.errors import ConfigurationError, RunnerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from multiprocessing.process import BaseProcess

    from runner.cluster.address import Address
    from runner.cluster.folder import SharedFolder
    from runner.ledger.fingerprint import TargetKey


_CLOSE_S = 10.0
_CONNECT_S = 15.0
"""Seconds in which a scheduler that is being started begins to listen."""
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
    # Tasks keep their own memory small; Dask would count the page cache of their files.
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

    Workers started here get the additional variables of `environment`; the last worker may be away for
    `patience_s` seconds.
    """
    with _silence(), dask.config.set(_SETTINGS), _start_safely():
        if address.workers is None:
            with _connect(address) as client:
                yield Cluster(client, address.text, patience_s)
        else:
            with (
                _start_local(address.workers, environment) as local,
                Client(local, timeout=patience_s, set_as_default=False) as client,
            ):
                yield Cluster(client, address.text, patience_s)


@contextmanager
def _start_safely() -> Iterator[None]:
    """Keep the working folder off the workers' path, and remove what Dask leaves in the environment."""
    names = ("PYTHONHASHSEED", _SAFE_PATH, *dask.config.get("distributed.nanny.pre-spawn-environ"))
    before = {name: os.environ[name] for name in names if name in os.environ}
    # Workers and their nannies begin with `python -c`, which would import from a checkout first.
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep Dask's logs from the terminal: relevant failures are raised as errors."""
    # For good: its threads log while they end, after an interrupt even later than this block.
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(_SILENT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)
        yield


@contextmanager
def _connect(address: Address) -> Iterator[Client]:
    client = Client.__new__(Client)
    try:
        # Dask's own settings name the files for TLS.
        security = Security(require_encryption=True) if address.is_secured else Security()
        Client.__init__(client, address.text, timeout=_CONNECT_S, set_as_default=False, security=security)
    except (OSError, TimeoutError, TypeError, ValueError, RuntimeError, ImportError) as error:
        # One that is not closed would be by the end of Python, which waits for its stopped thread for ever.
        with suppress(Exception):
            client.close(timeout=1)
        raise RunnerError(
            f"Dask cannot connect to a scheduler at {address.text}: {error}",
            hint="check the address, that `dask scheduler` runs there, and with tls:// Dask's own settings "
            "(distributed.comm.tls); or work on this machine alone, with --cluster local:N",
        ) from None
    try:
        yield client
    finally:
        # A scheduler that stands still would hold up the end.
        with suppress(OSError, TimeoutError):
            client.close(timeout=_CLOSE_S)


@contextmanager
def _start_local(workers: int, environment: Mapping[str, str]) -> Iterator[LocalCluster]:
    others = set(active_children())
    try:
        # The thread that starts this first gets SIGINT unblocked again, so it must not be the main thread.
        resource_tracker.ensure_running()
        # Workers inherit the mask from the thread that starts them: Ctrl-C in the terminal reaches this
        # process alone, which then ends them.
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
    try:
        yield local
    finally:
        _close(local, others)


def _close(local: LocalCluster, others: set[BaseProcess]) -> None:
    """End a cluster's processes: in order if that takes no longer than usual, else by force."""
    for nanny in list(local.workers.values()):
        nanny.auto_restart = False
    try:
        with suppress(OSError, TimeoutError):
            local.close(timeout=_CLOSE_S)
    finally:
        # Dask's ending of busy workers can be cut short, and its threads wait for them for ever; so they do
        # for one that was just being started, of which a nanny knows nothing yet.
        for child in set(active_children()) - others:
            with suppress(ValueError):  # it has ended meanwhile
                child.kill()


def check_workers(cluster: Cluster, folder: SharedFolder, key: TargetKey, key_variable: str) -> None:
    """Have only workers make calls that are like this process, and put the others aside.

    They must reach the folder, and `key_variable` must make the target's key there, unless that is public.
    Workers that come later are judged, too.
    """
    cluster.admit_workers(pack_call(judge_worker, (folder, key.target, key.name, key_variable)))


def judge_worker(
    worker: str, folder: SharedFolder, target: str, key_name: str, key_variable: str
) -> RunnerError | None:
    """Return the reason for which this process, a worker of that address, is unfit; None if it is fit."""
    try:
        folder.write(f"worker-{secrets.token_hex(4)}", b"")
        open_key(target, key_name, key_variable)
    except FileNotFoundError:
        return ConfigurationError(
            f"the worker {worker} does not see the folder {folder.path}",
            hint="name a folder that all workers reach, with --scratch or RUNNER_SCRATCH",
        )
    except RunnerError as error:
        return type(error)(f"the worker {worker} fails: {error.message}", hint=error.hint)
    return None
