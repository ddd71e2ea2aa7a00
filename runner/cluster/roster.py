"""The workers of a cluster as one client sees them: fit for calls, not yet judged, or put aside.

A worker is judged when it is first seen, and one that was put aside is judged again now and then. Only fit
workers get calls.
"""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from distributed.comm import CommClosedError

from runner.cluster.address import TaskOutcome, make_call
from runner.errors import ConfigurationError, RunnerError
from runner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from distributed import Client, Worker

LOST = (CommClosedError, OSError, TimeoutError)
"""The errors of a connection to a scheduler or worker that has gone, or does not answer."""
_ANSWER_S = 5.0
"""Seconds for the scheduler's answer to a short question."""
_JUDGE_S = 30.0
_AGAIN_S = 15.0
_PACKAGE = "sms-campaign-runner"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(slots=True)
class _Worker:
    """A worker that the scheduler knows.

    Attributes:
        threads: the number of its simultaneous calls.
        stamp: the scheduler's time of its last sign of life.
        changed_at: the moment, by this process's monotonic clock, at which that stamp changed.
        is_fit: whether it may get calls.
        error: the reason for which it was put aside.
        judgement: the running judgement.
        judged_at: the start of the last judgement.
    """

    threads: int
    stamp: float
    changed_at: float
    is_fit: bool = False
    error: RunnerError | None = None
    judgement: Future[RunnerError | None] | None = None
    judged_at: float = 0.0


class Roster:
    """The workers of a cluster.

    Args:
        client: connected to the scheduler.
        tell: receives a note on each worker that is put aside, once.

    Attributes:
        check: a packed call that takes a worker's address, and returns the reason for which it is unfit, or
            None; None if all are fit.
        slots: the simultaneous calls of the fit workers.
    """

    def __init__(self, client: Client, tell: Callable[[str], None]) -> None:
        self.check: bytes | None = None
        self.slots = 0
        self._answered_at = time.monotonic()
        self._unanswered_at: float | None = None
        self._client = client
        self._tell = tell
        self._workers: dict[str, _Worker] = {}
        self._told: set[str] = set()
        self._untold: list[str] = []

    @property
    def known(self) -> frozenset[str]:
        """The addresses of all workers."""
        return frozenset(self._workers)

    @property
    def fit(self) -> frozenset[str]:
        """The addresses of the fit workers."""
        return frozenset(address for address, worker in self._workers.items() if worker.is_fit)

    @property
    def is_judging(self) -> bool:
        """True if some worker is being judged for the first time."""
        return any(worker.error is None and not worker.is_fit for worker in self._workers.values())

    @property
    def errors(self) -> list[RunnerError]:
        """The reasons for which workers are put aside, by address."""
        return [worker.error for _, worker in sorted(self._workers.items()) if worker.error is not None]

    @property
    def unanswered_s(self) -> float:
        """The seconds since the first question that the scheduler has not answered; 0 if it answers."""
        return 0.0 if self._unanswered_at is None else time.monotonic() - self._unanswered_at

    def look(self) -> None:
        """Ask the scheduler for its workers, and go on with their judgement."""
        asked_at = time.monotonic()
        try:
            ask = self._client.scheduler.identity
            told = self._client.sync(ask, n_workers=-1, callback_timeout=_ANSWER_S)["workers"]
        except (*LOST, AttributeError):
            # The client has no scheduler while it looks for a lost one.
            self._unanswered_at = self._unanswered_at or asked_at
            return
        self._answered_at, self._unanswered_at = time.monotonic(), None
        self._note_workers(told)
        for address, worker in self._workers.items():
            self._judge(address, worker)
        self._count_slots()

    def put_aside(self, address: str, error: RunnerError) -> None:
        """Give a worker no more calls, until it is found to be fit again."""
        worker = self._workers.get(address)
        if worker is not None:
            worker.is_fit, worker.error, worker.judged_at = False, error, time.monotonic()
        if address not in self._told:
            self._told.add(address)
            self._untold.append(f"{error.message}: it is put aside, and the others go on.")
        self._count_slots()

    def _count_slots(self) -> None:
        self.slots = sum(worker.threads for worker in self._workers.values() if worker.is_fit)
        # Without a fit worker, the reasons are the error's.
        while self.slots and self._untold:
            self._tell(self._untold.pop(0))

    def find_silent(self, seconds: float) -> dict[str, float]:
        """Return the seconds for which workers have given no sign of life, if it is that long or longer."""
        silent = {address: self._answered_at - one.changed_at for address, one in self._workers.items()}
        return {address: passed for address, passed in silent.items() if passed >= seconds}

    def _note_workers(self, told: Mapping[str, Mapping[str, Any]]) -> None:
        for address in self._workers.keys() - told.keys():
            del self._workers[address]
        for address, one in told.items():
            worker = self._workers.get(address)
            if worker is None:
                worker = self._workers[address] = _Worker(
                    one["nthreads"], one["last_seen"], self._answered_at
                )
            if worker.stamp != one["last_seen"]:
                worker.stamp, worker.changed_at = one["last_seen"], self._answered_at

    def _judge(self, address: str, worker: _Worker) -> None:
        if self.check is None:
            worker.is_fit = True
            return
        if worker.judgement is None:
            is_due = not worker.judged_at or time.monotonic() - worker.judged_at > _AGAIN_S
            if not worker.is_fit and is_due:
                worker.judged_at = time.monotonic()
                worker.judgement = self._start_judgement(address, self.check)
            return
        if not worker.judgement.done():
            return
        judgement, worker.judgement = worker.judgement, None
        try:
            error = judgement.result()
        except (*LOST, asyncio.CancelledError):
            # It does not answer; it is asked again, and has no calls until then.
            return
        if error is None:
            worker.is_fit, worker.error = True, None
        else:
            self.put_aside(address, error)

    def _start_judgement(self, address: str, check: bytes) -> Future[RunnerError | None]:
        asking = judge_worker(self._client, address, check)
        return asyncio.run_coroutine_threadsafe(asking, self._client.loop.asyncio_loop)


async def judge_worker(client: Client, address: str, check: bytes) -> RunnerError | None:
    """Return the reason for which a worker is unfit; None if it is fit."""
    outcome = await _ask(client, address, make_check_apart, check)
    if isinstance(outcome, LOST):
        raise outcome
    if isinstance(outcome, TaskOutcome) and outcome.error is None:
        found: RunnerError | None = outcome.value
        return found
    # Standard functions, since another version of this program may have none of these.
    version = await _ask(client, address, metadata.version, _PACKAGE)
    python = await _ask(client, address, platform.python_version_tuple)
    for what, theirs, ours in (
        (_PACKAGE, version, __version__),
        ("Python", ".".join(python[:2]) if isinstance(python, tuple) else None, PYTHON),
    ):
        if isinstance(theirs, str) and theirs != ours:
            return refuse_version(address, what, theirs, ours)
    if isinstance(outcome, TaskOutcome) and outcome.error is not None:
        return RunnerError(f"the worker {address} fails: {outcome.error.message}", hint=outcome.error.hint)
    return RunnerError(
        f"the worker {address} cannot run this program",
        hint="install sms-campaign-runner[cluster] there, in the same version as here",
    )


def refuse_version(worker: str, what: str, theirs: str, ours: str) -> ConfigurationError:
    """Return the error for a worker with another version of something."""
    return ConfigurationError(
        f"the worker {worker} has {what} {theirs}, and this is {ours}",
        hint="workers need the same versions as who calls them",
    )


async def _ask(client: Client, address: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a worker's result; or the error."""
    asking = client.run(
        function,
        *arguments,
        workers=[address],
        on_error="return",
        asynchronous=True,
        callback_timeout=_JUDGE_S,
    )
    answers = await asking
    return answers.get(address, CommClosedError(address))


async def make_check_apart(packed: bytes, dask_worker: Worker) -> TaskOutcome:
    """Make a check in another thread than the worker's own, which would give no sign of life meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(None, make_call, packed, dask_worker.address)
