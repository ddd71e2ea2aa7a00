"""Connections to Dask clusters, and calls of functions there, by workers that are fit for them.

A check goes to each worker, also to those that join later, as a plugin. A worker in which it finds nothing
wrong gets a resource that is named after the run, and calls ask for that resource: so Dask itself gives them
to fit workers only. Calls may be made twice, even at once: Dask repeats those whose worker was lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import sys
import time
import warnings
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing import active_children, resource_tracker
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import dask
from distributed import Client, LocalCluster, WorkerPlugin
from distributed.comm import CommClosedError
from distributed.protocol.pickle import dumps
from distributed.scheduler import KilledWorker
from distributed.security import Security
from distributed.versions import VersionMismatchWarning

from runner.cluster.address import TaskOutcome, make_call, pack_call
from runner.cluster.folder import open_key
from runner.errors import ConfigurationError, RunnerError
from runner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from multiprocessing.process import BaseProcess

    from distributed import Future, Worker

    from runner.cluster.address import Address
    from runner.cluster.folder import SharedFolder
    from runner.ledger.fingerprint import TargetKey


LOST = (CommClosedError, OSError, TimeoutError)
"""The errors of a connection to a scheduler or worker that has gone, or does not answer."""
PATIENCE_S = 60.0
"""Seconds for which there may be no fit worker."""
PACKAGE = "sms-campaign-runner"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_RETRIES = 2
"""Repetitions by Dask of a call whose worker fails."""
_ANSWER_S = 30.0
"""Seconds for the answer of a scheduler, or of workers, to a question."""
_LOOK_S = 1.0
_Result = TypeVar("_Result")


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


class Fitness(WorkerPlugin):  # type: ignore[misc]  # the types of distributed are not read
    """Gives a worker the resource `name`, if a check finds nothing wrong with it.

    `check` is from `pack_call`; it takes a worker's address, and returns the reason for which that is unfit,
    or None. `error` is that reason, once it is known.
    """

    def __init__(self, name: str, check: bytes) -> None:
        self.name = name
        self.error: RunnerError | None = None
        self._check = check
        self._versions = {PACKAGE: __version__, "Python": PYTHON}

    async def setup(self, worker: Worker) -> None:
        """Judge a worker, in another thread than the one by which it gives signs of life."""
        judge = asyncio.get_running_loop().run_in_executor(None, self._judge, worker.address)
        self.error = await judge
        if self.error is None:
            await worker.set_resources(**{self.name: worker.state.nthreads})

    def _judge(self, address: str) -> RunnerError | None:
        for what, theirs in ((PACKAGE, __version__), ("Python", PYTHON)):
            if theirs != self._versions[what]:
                return ConfigurationError(
                    f"the worker {address} has {what} {theirs}, and this is {self._versions[what]}",
                    hint="workers need the same versions as who calls them",
                )
        outcome = make_call(self._check, address)
        found: RunnerError | None = outcome.error or outcome.value
        return found


def read_verdict(name: str, dask_worker: Worker) -> RunnerError | None:
    """Return the reason for which a worker is unfit, if that is known; called on the worker."""
    plugin = dask_worker.plugins.get(name)
    return plugin.error if isinstance(plugin, Fitness) else None


class Cluster:
    """A connected cluster. `open_cluster` makes it.

    Args:
        client: connected to the scheduler.
        where: the address, for messages.
        patience_s: seconds for which there may be no fit worker.
    """

    def __init__(self, client: Client, where: str, patience_s: float) -> None:
        self._client = client
        self._where = where
        self._patience_s = patience_s
        self._resource: str | None = None
        self._runs = count()

    def admit_workers(self, check: bytes) -> None:
        """Have only those workers make calls, now and later, in which a check finds nothing wrong.

        The check is as for `Fitness`.
        """
        self._resource = f"runner-{secrets.token_hex(4)}"
        plugin = dumps(Fitness(self._resource, check))
        try:
            register = self._client.scheduler.register_worker_plugin
            self._ask(register, plugin=plugin, name=self._resource, idempotent=False)
        except LOST:
            raise self._gone() from None
        except Exception:  # noqa: BLE001, S110  of a worker that has not this program: named with the others
            pass
        self._require_workers()

    def run(
        self, task: Callable[..., _Result], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, _Result]]:
        """Call a function with each of several arguments, and yield places (from 0) and results as they come.

        A call whose worker is lost is repeated, so it may happen twice, even at once. Arguments go through
        the scheduler, so they must hold no secrets.
        """
        self._require_workers()
        # Stages that began earlier come first.
        priority = -next(self._runs)
        ended: SimpleQueue[Future] = SimpleQueue()
        calls: dict[Future, int] = {}
        for place, each in enumerate(arguments):
            future = self._client.submit(
                make_call,
                pack_call(task, each),
                key=f"{task.__name__}-{place:04}-{secrets.token_hex(4)}",
                priority=priority,
                retries=_RETRIES,
                resources=None if self._resource is None else {self._resource: 1},
                pure=False,
            )
            calls[future] = place
            future.add_done_callback(ended.put)
        try:
            while calls:
                try:
                    future = ended.get(timeout=_LOOK_S)
                except Empty:
                    self._require_workers()
                    continue
                place = calls.pop(future)
                yield place, self._read(future)
                future.release()
        finally:
            if calls and self._client.status == "running":
                self._client.cancel(list(calls))

    def _read(self, future: Future) -> Any:
        """Return the result of a call that has ended."""
        try:
            if future.status == "finished":
                outcome: TaskOutcome = future.result(timeout=_ANSWER_S)
                if outcome.error is not None:
                    raise outcome.error
                return outcome.value
            error = future.exception(timeout=_ANSWER_S) if future.status == "error" else None
        except (*LOST, CancelledError):
            error = None
        if error is None:
            # The scheduler has forgotten it.
            raise self._gone()
        if isinstance(error, KilledWorker):
            raise RunnerError(
                "the cluster's workers die, again and again, of the same task",
                hint="look at their logs; most likely their memory does not suffice: give them more",
            )
        raise RunnerError(
            f"a task cannot be run on the cluster: {type(error).__name__}",
            hint=f"its workers need {PACKAGE}[cluster] in the same version as here",
        )

    def _require_workers(self) -> int:
        """Return the number of simultaneous calls; wait for a fit worker as long as patience lasts."""
        deadline = time.monotonic() + self._patience_s
        while True:
            slots, others = self._count_slots()
            if slots:
                return slots
            unfit = dict(self._judge(sorted(others)))
            # Those that are there have been judged.
            if time.monotonic() > deadline or (others and others <= unfit.keys()):
                raise self._describe_unfit([unfit[one] for one in sorted(unfit)])
            time.sleep(_LOOK_S / 10)

    def _count_slots(self) -> tuple[int, set[str]]:
        """Return the number of simultaneous calls, and the workers that get none."""
        if self._client.status != "running":
            raise self._gone()
        try:
            workers = self._ask(self._client.scheduler.identity, n_workers=-1)["workers"]
        except (*LOST, AttributeError):
            raise self._gone() from None
        name = self._resource
        slots = {
            address: int(one["nthreads"] if name is None else one["resources"].get(name, 0))
            for address, one in workers.items()
        }
        return sum(slots.values()), {address for address, own in slots.items() if not own}

    def _judge(self, workers: list[str]) -> Iterator[tuple[str, RunnerError]]:
        """Ask workers without the resource for the reason; those that have none yet are left out."""
        try:
            ask = self._client.run
            answers = ask(read_verdict, self._resource, workers=workers, on_error="return") if workers else {}
        except LOST:
            return
        for address, answer in answers.items():
            if isinstance(answer, RunnerError):
                yield address, answer
            elif answer is not None and not isinstance(answer, LOST):
                words = f"the worker {address} cannot run this program"
                hint = f"install {PACKAGE}[cluster] there, in the same version as here"
                yield address, ConfigurationError(words, hint=hint)

    def _describe_unfit(self, errors: list[RunnerError]) -> RunnerError:
        if not errors:
            return RunnerError(
                f"the cluster at {self._where} has had no worker for {self._patience_s:g} s",
                hint=f"start workers, as with: dask worker {self._where}; one without {PACKAGE}[cluster] in "
                "the same version as here ends at once",
            )
        if len(errors) == 1:
            return errors[0]
        hints = dict.fromkeys(error.hint for error in errors if error.hint)
        reasons = "; ".join(error.message for error in errors)
        return ConfigurationError(f"none of the cluster's workers is fit: {reasons}", hint="; ".join(hints))

    def _gone(self) -> RunnerError:
        return RunnerError(
            f"the scheduler at {self._where} has gone, or does not answer",
            hint="start it and its workers, then run the same command again: what was done is recorded",
        )

    def _ask(self, question: Callable[..., Any], **arguments: Any) -> Any:
        return self._client.sync(question, **arguments, callback_timeout=_ANSWER_S)


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
        security = Security(require_encryption=True) if address.text.startswith("tls:") else Security()
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
