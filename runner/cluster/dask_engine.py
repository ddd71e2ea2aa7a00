"""Calls of functions on a Dask cluster, by workers that are fit for them.

A check goes to each worker, also to those that join later, as a plugin. A worker in which it finds nothing
wrong gets a resource that is named after the run, and calls ask for that resource: so Dask itself gives them
to fit workers only.

Each call is a Dask task named after its function's verb and its campaign: `plan-spring-0003-9f2c64d1`. Calls
may be made twice, even at once: Dask repeats those whose worker was lost.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
import sys
import time
from concurrent.futures import CancelledError
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self, TypeVar

from distributed import WorkerPlugin, get_worker
from distributed.comm import CommClosedError
from distributed.protocol.pickle import dumps
from distributed.scheduler import KilledWorker

from runner.cluster.address import TaskOutcome, make_call, pack_call
from runner.errors import ConfigurationError, LedgerError, RunnerError, StorageError
from runner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from distributed import Client, Future, Worker

LOST = (CommClosedError, OSError, TimeoutError)
"""The errors of a connection to a scheduler or worker that has gone, or does not answer."""
PATIENCE_S = 60.0
"""Seconds for which there may be no fit worker."""
PACKAGE = "sms-campaign-runner"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_RETRIES = 2
"""Repetitions by Dask of a call that raises."""
_ANSWER_S = 30.0
"""Seconds for the answer of a scheduler, or of workers, to a question."""
_LOOK_S = 1.0
_IDLE_S = 20.0
"""Seconds without a result after which it is said what is waited for, and between two such notes."""
_SHOWN = 5
_OF_WORKER = (LedgerError, StorageError)
"""The errors that may be their worker's own, so that the call is made once more elsewhere."""
_Result = TypeVar("_Result")


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

    async def teardown(self, worker: Worker) -> None:
        """Give a worker no more calls of the run."""
        await worker.set_resources(**{self.name: 0})

    def _judge(self, address: str) -> RunnerError | None:
        for what, theirs in ((PACKAGE, __version__), ("Python", PYTHON)):
            if theirs != self._versions[what]:
                return refuse_version(address, what, theirs, self._versions[what])
        outcome = make_call(self._check, address)
        found: RunnerError | None = outcome.error or outcome.value
        return found


def refuse_version(worker: str, what: str, theirs: str, ours: str) -> ConfigurationError:
    """Return the error for a worker with another version of something."""
    return ConfigurationError(
        f"the worker {worker} has {what} {theirs}, and this is {ours}",
        hint="workers need the same versions as who calls them",
    )


def read_verdict(name: str, dask_worker: Worker) -> RunnerError | None:
    """Return the reason for which a worker is unfit, if that is known; called on the worker."""
    plugin = dask_worker.plugins.get(name)
    return plugin.error if isinstance(plugin, Fitness) else None


def make_task(resource: str | None, packed: bytes) -> TaskOutcome:
    """Make a call on a worker. If the failure may be the worker's own, it withdraws, and Dask calls another.

    Raises:
        LedgerError: the ledger cannot be used.
        StorageError: a file cannot be used.
    """
    outcome = make_call(packed)
    if not isinstance(outcome.error, _OF_WORKER):
        return outcome
    worker: Worker = get_worker()
    words = f"the worker {worker.address} fails: {outcome.error.message}"
    error = type(outcome.error)(words, hint=outcome.error.hint)
    plugin = worker.plugins.get(resource)
    if isinstance(plugin, Fitness):
        plugin.error = error
        leaving = asyncio.run_coroutine_threadsafe(plugin.teardown(worker), worker.loop.asyncio_loop)
        leaving.result(_ANSWER_S)
    raise error


class Cluster:
    """A connected cluster. `open_cluster` makes it.

    Args:
        client: connected to the scheduler.
        where: the address, for messages.
        patience_s: seconds for which there may be no fit worker.
        tell: receives the reasons for waiting, and for passing over workers.
    """

    def __init__(
        self,
        client: Client,
        where: str,
        patience_s: float,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._client = client
        self._where = where
        self._patience_s = patience_s
        self._tell = tell
        self._resource: str | None = None
        self._campaign = ""
        self._runs = count()
        self._unfit: dict[str, RunnerError] = {}
        self._told_of: set[str] = set()

    def of_campaign(self, name: str) -> Self:
        """Return this cluster for calls that are named after a campaign, in Dask and in notes."""
        own = copy.copy(self)
        own._campaign = name  # noqa: SLF001  a copy of this
        return own

    def admit_workers(self, check: bytes) -> None:
        """Have only those workers make calls, now and later, in which a check finds nothing wrong.

        The check is as for `Fitness`.

        Raises:
            ConfigurationError: no worker is fit.
            RunnerError: there is none, or none can be asked.
        """
        self._require_scheduler()
        self._resource = f"runner-{secrets.token_hex(4)}"
        self._unfit = {}
        plugin = dumps(Fitness(self._resource, check))
        try:
            register = self._client.scheduler.register_worker_plugin
            self._ask(register, plugin=plugin, name=self._resource, idempotent=False)
        except LOST:
            raise self._gone() from None
        except Exception:  # noqa: BLE001  of a worker that has not this program: it is named with the others
            self._look()
        self._require_workers()

    def run(
        self, task: Callable[..., _Result], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, _Result]]:
        """Call a function with each of several arguments, and yield places (from 0) and results as they come.

        A call whose worker is lost is repeated, so it may happen twice, even at once. Arguments go through
        the scheduler, so they must hold no secrets.

        Raises:
            RunnerError: raised by a call; or a call failed otherwise, which is told without its words; or the
                cluster is lost.
        """
        self._require_workers()
        name, priority = self._name(task), -next(self._runs)
        ended: SimpleQueue[Future] = SimpleQueue()
        calls: dict[Future, int] = {}
        for place, each in enumerate(arguments):
            future = self._client.submit(
                make_task,
                self._resource,
                pack_call(task, each),
                key=f"{name}-{place:04}-{secrets.token_hex(4)}",
                # Stages that began earlier come first.
                priority=priority,
                retries=_RETRIES,
                resources=None if self._resource is None else {self._resource: 1},
                pure=False,
            )
            calls[future] = place
            future.add_done_callback(ended.put)
        try:
            while calls:
                future = self._await(ended, name)
                place = calls.pop(future)
                yield place, self._read(future)
                future.release()
        finally:
            if calls and self._client.status == "running":
                self._client.cancel(list(calls))

    def _name(self, task: Callable[..., object]) -> str:
        """Return the first part of the names of a function's tasks, such as `plan-spring`."""
        verb = task.__name__.strip("_").partition("_")[0]
        return f"{verb}-{self._campaign}" if self._campaign else verb

    def _await(self, ended: SimpleQueue[Future], name: str) -> Future:
        """Wait for the end of a call, and say now and then what is waited for.

        Raises:
            RunnerError: the scheduler, or the last fit worker, has gone.
        """
        began = told = time.monotonic()
        while True:
            try:
                return ended.get(timeout=_LOOK_S)
            except Empty:
                self._require_workers()
            if (now := time.monotonic()) - told >= _IDLE_S:
                told = now
                self._note(f"waiting for {name}: nothing has come of it for {now - began:.0f} s")

    def _read(self, future: Future) -> Any:
        """Return the result of a call that has ended.

        Raises:
            RunnerError: of the call, or of the cluster.
        """
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
        if isinstance(error, RunnerError):
            raise error
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
        """Return the number of simultaneous calls; wait for a fit worker as long as patience lasts.

        Raises:
            RunnerError: the scheduler has gone; or all workers are unfit, or none has come.
        """
        started = told = time.monotonic()
        while True:
            self._require_scheduler()
            slots, others = self._look()
            if slots:
                return slots
            passed = time.monotonic() - started
            # Those that are there have been judged.
            if passed > self._patience_s or (others and others <= self._unfit.keys()):
                raise self._describe_unfit()
            if time.monotonic() - told >= _IDLE_S:
                told = time.monotonic()
                self._note(f"waiting for a worker that is fit, {self._patience_s - passed:.0f} s at most")
            time.sleep(_LOOK_S / 10)

    def _look(self) -> tuple[int, set[str]]:
        """Return the number of simultaneous calls, and the workers that get none; tell why of new ones."""
        try:
            told = self._ask(self._client.scheduler.identity, n_workers=-1)["workers"]
        except (*LOST, AttributeError):
            raise self._gone() from None
        slots = {address: self._count_slots(one) for address, one in told.items()}
        others = {address for address, count_ in slots.items() if not count_}
        for address in self._unfit.keys() - others:
            del self._unfit[address]
        self._judge(sorted(others - self._unfit.keys()))
        fit = sum(slots.values())
        for address in sorted(others & self._unfit.keys()) if fit else ():
            error = self._unfit[address]
            if address not in self._told_of:
                self._told_of.add(address)
                self._tell(f"{error.message}: it is put aside, and the others go on.")
        return fit, others

    def _count_slots(self, worker: Mapping[str, Any]) -> int:
        if self._resource is None:
            return int(worker["nthreads"])
        return int(worker["resources"].get(self._resource, 0))

    def _judge(self, workers: list[str]) -> None:
        """Ask workers without the resource for the reason; those that have none yet are asked again."""
        if not workers:
            return
        try:
            answers = self._client.run(read_verdict, self._resource, workers=workers, on_error="return")
        except LOST:
            return
        for address, answer in answers.items():
            if isinstance(answer, LOST) or answer is None:
                continue
            self._unfit[address] = (
                answer
                if isinstance(answer, RunnerError)
                else ConfigurationError(
                    f"the worker {address} cannot run this program",
                    hint=f"install {PACKAGE}[cluster] there, in the same version as here",
                )
            )

    def _describe_unfit(self) -> RunnerError:
        errors = [error for _, error in sorted(self._unfit.items())]
        if not errors:
            return RunnerError(
                f"the cluster at {self._where} has had no worker for {self._patience_s:g} s",
                hint=f"start workers, as with: dask worker {self._where}; one without {PACKAGE}[cluster] in "
                "the same version as here ends at once",
            )
        if len(errors) == 1 or any(isinstance(error, _OF_WORKER) for error in errors):
            return next((error for error in errors if isinstance(error, _OF_WORKER)), errors[0])
        reasons = "; ".join(error.message for error in errors[:_SHOWN])
        if len(errors) > _SHOWN:
            reasons += f"; and {len(errors) - _SHOWN} more"
        hints = dict.fromkeys(error.hint for error in errors if error.hint)
        return ConfigurationError(f"none of the cluster's workers is fit: {reasons}", hint="; ".join(hints))

    def _require_scheduler(self) -> None:
        if self._client.status != "running":
            raise self._gone()

    def _gone(self) -> RunnerError:
        return RunnerError(
            f"the scheduler at {self._where} has gone, or does not answer",
            hint="start it and its workers, then run the same command again: what was done is recorded",
        )

    def _ask(self, question: Callable[..., Any], **arguments: Any) -> Any:
        return self._client.sync(question, **arguments, callback_timeout=_ANSWER_S)

    def _note(self, words: str) -> None:
        self._tell(f"{self._campaign or 'cluster'}: {words}.")
