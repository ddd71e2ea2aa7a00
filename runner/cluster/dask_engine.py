"""Calls of functions on a Dask cluster, by workers that are fit for them.

Each call is a Dask task named after its function's verb and its campaign: `plan-spring-0003-9f2c64d1`. Calls
may be made twice, even at once, so they are repeated after a worker or the scheduler was lost.
"""

from __future__ import annotations

import copy
import secrets
import time
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self, TypeVar

from distributed import get_worker
from distributed.scheduler import KilledWorker

from runner.cluster.address import TaskOutcome, make_call, pack_call
from runner.cluster.roster import LOST, Roster
from runner.errors import ConfigurationError, LedgerError, RunnerError, StorageError
from runner.telemetry.recording import carry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from distributed import Client, Future

PATIENCE_S = 60.0
"""Seconds that a scheduler, or the last of the fit workers, may be away."""
_CALLS_PER_SLOT = 4
_MOST_LOSSES = 3
"""The most times to repeat a call that the scheduler gave up, or that workers could not begin."""
_RETRIES = 2
"""Repetitions by Dask of a task that raises: failures of calls are values, so nothing of it was begun."""
_LOOK_S = 1.0
_TELL_S = 15.0
"""Seconds between two notes of the same kind, and without a sign of life before the first."""
_IDLE_S = 20.0
_SHOWN = 5
_OF_WORKER = (LedgerError, StorageError)
"""The errors that may be their worker's own, so that the call is made once more elsewhere."""
_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Call:
    """A call; `allowed` are the workers that may make it, None for all."""

    place: int
    packed: bytes
    losses: int = 0
    refused: RunnerError | None = None
    allowed: frozenset[str] | None = None


@dataclass(slots=True)
class _Waiting:
    """The notes of one client on its waiting.

    Attributes:
        told_at: the moment of the last note of each kind.
        progress_at: the moment of the last sign of progress.
    """

    told_at: dict[str, float]
    progress_at: float = 0.0


class Cluster:
    """A connected cluster. `open_cluster` makes it.

    Args:
        client: connected to the scheduler.
        where: the address, for messages.
        patience_s: seconds that the scheduler, or the last of the fit workers, may be away.
        tell: receives the reasons for waiting, and for putting workers aside.
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
        self._roster = Roster(client, tell)
        self._campaign = ""
        self._waiting = _Waiting({})
        self._runs = count()
        self._looked_at = 0.0

    def of_campaign(self, name: str) -> Self:
        """Return this cluster for calls that are named after a campaign, in Dask and in notes."""
        own = copy.copy(self)
        own._campaign = name  # noqa: SLF001  a copy of this
        return own

    @property
    def slots(self) -> int:
        """The current number of simultaneous calls; waits for fit workers if there are none.

        Raises:
            RunnerError: the scheduler does not answer, or no fit worker has come.
        """
        return self._require_workers()

    def admit_workers(self, check: bytes | None) -> None:
        """Have only those workers make calls, now and later, for which a check finds nothing.

        The check is from `pack_call`; it takes a worker's address, and returns the reason for which that is
        unfit, or None. Without a check, all are admitted again.

        Raises:
            ConfigurationError: no worker is fit.
            RunnerError: there is none, or none can be asked.
        """
        before, self._roster = self._roster, Roster(self._client, self._tell)
        self._roster.check = check
        try:
            self._require_workers(is_start=True)
        except RunnerError:
            self._roster = before
            raise

    def _note_progress(self) -> None:
        self._waiting.progress_at = time.monotonic()

    def _note_waiting(self, kind: str, words: str) -> None:
        """Tell a reason for waiting, unless one of its kind was told a short while ago."""
        now = time.monotonic()
        if now - self._waiting.told_at.get(kind, -_TELL_S) >= _TELL_S:
            self._waiting.told_at[kind] = now
            self._tell(f"{self._campaign or 'cluster'}: {words}.")

    def run(
        self, task: Callable[..., _Result], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, _Result]]:
        """Call a function with each of several arguments, and yield places (from 0) and results as they come.

        A call whose worker is lost is repeated, so it may happen twice, even at once. Only some of many calls
        are at the scheduler at a time. Arguments go through the scheduler, so they must hold no secrets.

        Raises:
            RunnerError: raised by a call; or a call failed otherwise, which is told without its words; or the
                cluster is lost.
        """
        trace = carry()
        waiting = (_Call(place, pack_call(task, each, trace)) for place, each in enumerate(arguments))
        running = _RunningCalls(self._client, self._roster, self._name(task), next(self._runs))
        self._note_progress()
        try:
            while True:
                most = _CALLS_PER_SLOT * self._find_slots(running)
                while len(running.calls) < most and (call := next(waiting, None)):
                    self._submit(running, call)
                if not running.calls:
                    return
                call, outcome = self._await_outcome(running)
                if outcome is None:
                    self._submit(running, call)
                    continue
                self._note_progress()
                if outcome.error is not None:
                    self._repeat_elsewhere(running, call, outcome)
                else:
                    yield call.place, outcome.value
        finally:
            running.cancel()

    def _name(self, task: Callable[..., object]) -> str:
        """Return the first part of the names of a function's tasks, such as `plan-spring`."""
        verb = task.__name__.strip("_").partition("_")[0]
        return f"{verb}-{self._campaign}" if self._campaign else verb

    def _submit(self, running: _RunningCalls, call: _Call) -> None:
        self._await_scheduler()
        if not self._roster.slots:
            self._require_workers()
        running.submit(call)

    def _await_outcome(self, running: _RunningCalls) -> tuple[_Call, TaskOutcome | None]:
        """Wait for the end of a call; its outcome is None if it has to be made again.

        Raises:
            RunnerError: the call cannot be made, or the cluster is lost.
        """
        while True:
            try:
                future = running.ended.get(timeout=_LOOK_S)
            except Empty:
                self._find_slots(running)
                self._tell_waiting(running)
                continue
            call = running.calls.pop(future)
            try:
                return call, _find_outcome(future, call, self._patience_s)
            finally:
                future.release()

    def _repeat_elsewhere(self, running: _RunningCalls, call: _Call, outcome: TaskOutcome) -> None:
        """Make a call again if the failure may be its worker's own.

        Raises:
            RunnerError: it is not, or no fit worker is left.
        """
        error = outcome.error or RunnerError(self._where)
        if not outcome.is_unmade:
            if not isinstance(error, _OF_WORKER):
                raise error
            if outcome.worker not in error.message:
                words = f"the worker {outcome.worker} fails: {error.message}"
                error = type(error)(words, hint=error.hint)
            if call.refused is not None or self._roster.fit <= {outcome.worker}:
                raise error
            call.refused = error
        self._roster.put_aside(outcome.worker, error)
        self._submit(running, call)

    def _find_slots(self, running: _RunningCalls) -> int:
        """Return the number of simultaneous calls, looked up now and then as workers come and go."""
        if time.monotonic() - self._looked_at > _LOOK_S or not self._roster.slots:
            self._require_workers()
            running.follow_workers()
        return self._roster.slots

    def _require_workers(self, *, is_start: bool = False) -> int:
        """Wait for fit workers; at the start, no longer than until all that are there have been judged."""
        started = time.monotonic()
        while True:
            self._await_scheduler()
            self._roster.look()
            now = self._looked_at = time.monotonic()
            away = self._roster.unanswered_s
            if away > self._patience_s:
                raise self._gone()
            if away > _TELL_S:
                self._note_waiting(
                    "scheduler", f"waiting for the scheduler, which has not answered for {away:.0f} s"
                )
            passed = now - started
            is_settled = not (is_start and self._roster.is_judging) or passed > _TELL_S
            if self._roster.slots and is_settled:
                return self._roster.slots
            if self._roster.errors and is_start and not self._roster.is_judging:
                raise self._describe_unfit()
            if passed > self._patience_s:
                raise self._describe_unfit()
            if passed > _LOOK_S and is_settled:
                left = f"{self._patience_s - passed:.0f} s at most"
                self._note_waiting("workers", f"waiting for a worker that is fit, {left}")
            time.sleep(_LOOK_S / 10)

    def _describe_unfit(self) -> RunnerError:
        errors = self._roster.errors
        if not errors:
            return RunnerError(
                f"the cluster at {self._where} has had no worker for {self._patience_s:g} s",
                hint=f"start workers, as with: dask worker {self._where}",
            )
        if len(errors) == 1:
            return errors[0]
        reasons = "; ".join(error.message for error in errors[:_SHOWN])
        if len(errors) > _SHOWN:
            reasons += f"; and {len(errors) - _SHOWN} more"
        hints = dict.fromkeys(error.hint for error in errors if error.hint)
        return ConfigurationError(f"none of the cluster's workers is fit: {reasons}", hint="; ".join(hints))

    def _await_scheduler(self) -> None:
        """Wait until the scheduler is there; the client looks for it as long as its patience lasts."""
        started = time.monotonic()
        while self._client.status == "connecting":
            if time.monotonic() - started > _LOOK_S:
                words = f"waiting for the scheduler at {self._where}, which has gone"
                self._note_waiting("scheduler", f"{words}, {self._patience_s:g} s at most")
            time.sleep(_LOOK_S / 20)
        if self._client.status != "running":
            raise self._gone()

    def _gone(self) -> RunnerError:
        return RunnerError(
            f"the scheduler at {self._where} has gone, and did not come back within {self._patience_s:g} s",
            hint="start it and its workers, then run the same command again: what was done is recorded",
        )

    def _tell_waiting(self, running: _RunningCalls) -> None:
        """Say which workers are waited for: silent ones, or all if nothing comes of the calls for long."""
        silent = self._roster.find_silent(_TELL_S)
        idle_s = time.monotonic() - self._waiting.progress_at
        if not silent and idle_s < _IDLE_S:
            return
        busy = running.find_workers()
        for worker, passed in silent.items():
            if worker in busy:
                words = f"waiting for worker {worker}, which has not answered for {passed:.0f} s"
                self._note_waiting(worker, words)
        others = ", ".join(sorted(busy - silent.keys()))
        if others and idle_s >= _IDLE_S:
            self._note_waiting(
                "calls", f"waiting for {others}: nothing has come of {running.name} for {idle_s:.0f} s"
            )


class _RunningCalls:
    """The calls of one function that are at the scheduler.

    Args:
        client: connected to the scheduler.
        roster: the workers.
        name: the first part of the tasks' names.
        number: the number of this function's turn; earlier ones have priority.

    Attributes:
        calls: the calls by future.
        ended: receives futures that have ended, or were lost.
    """

    def __init__(self, client: Client, roster: Roster, name: str, number: int) -> None:
        self.name = name
        self.calls: dict[Future, _Call] = {}
        self.ended: SimpleQueue[Future] = SimpleQueue()
        self._client = client
        self._roster = roster
        self._priority = -number

    def submit(self, call: _Call) -> None:
        """Submit a call to the fit workers."""
        fit = self._roster.fit
        # Without restrictions, workers that come later get calls of those that wait.
        call.allowed = None if fit == self._roster.known else fit
        future = self._client.submit(
            make_checked_call,
            self._roster.check,
            call.packed,
            key=f"{self.name}-{call.place:04}-{secrets.token_hex(4)}",
            priority=self._priority,
            retries=_RETRIES,
            workers=None if call.allowed is None else sorted(call.allowed),
            pure=False,
        )
        self.calls[future] = call
        future.add_done_callback(self.ended.put)

    def follow_workers(self) -> None:
        """Open calls to workers that have come, and give up those whose workers have all gone."""
        fit, known = self._roster.fit, self._roster.known
        narrow: list[tuple[Future, _Call]] = []
        for future, call in self.calls.items():
            if call.allowed is None or call.allowed == fit:
                continue
            if not call.allowed & known:
                # Dask would wait for them. The queue gets it, as one that was lost.
                future.cancel()
            elif fit - call.allowed:
                narrow.append((future, call))
        if not narrow:
            return
        try:
            widen = self._client.scheduler.set_restrictions
            restrictions = {future.key: sorted(fit) for future, _ in narrow}
            self._client.sync(widen, worker=restrictions, callback_timeout=_LOOK_S)
        except (*LOST, KeyError, AttributeError):
            # One may have ended meanwhile; it is tried again at the next look.
            return
        for _, call in narrow:
            call.allowed = fit

    def find_workers(self) -> frozenset[str]:
        """Return the workers that have some of the calls; none if the scheduler does not answer."""
        keys = {future.key for future in self.calls}
        try:
            told = self._client.sync(
                self._client.scheduler.processing, workers=None, callback_timeout=_LOOK_S
            )
        except (*LOST, AttributeError):
            return frozenset()
        return frozenset(worker for worker, held in told.items() if keys.intersection(held))

    def cancel(self) -> None:
        """Cancel all calls; those that have begun go on."""
        if self.calls and self._client.status == "running":
            try:
                self._client.cancel(list(self.calls))
            except LOST:
                return


_passed: set[bytes] = set()
"""The checks that this process, a worker, has passed."""
_MOST_PASSED = 64


def make_checked_call(check: bytes | None, packed: bytes) -> TaskOutcome:
    """Make a call on a worker that passes a check; both are from `pack_call`."""
    worker: str = get_worker().address
    if check is not None and check not in _passed:
        judged = make_call(check, worker)
        error = judged.error or judged.value
        if error is not None:
            return TaskOutcome(error=error, worker=worker, is_unmade=True)
        if len(_passed) >= _MOST_PASSED:
            _passed.clear()
        _passed.add(check)
    return replace(make_call(packed), worker=worker)


def _find_outcome(future: Future, call: _Call, patience_s: float) -> TaskOutcome | None:
    """Return the outcome of a call; None if it is unknown and the call has to be repeated.

    Raises:
        RunnerError: the call was given up several times.
    """
    try:
        if future.status == "finished":
            outcome: TaskOutcome = future.result(timeout=patience_s)
            return outcome
        error = future.exception(timeout=patience_s) if future.status == "error" else None
    except (*LOST, CancelledError, KilledWorker):
        return None
    if error is None:
        return None
    call.losses += 1
    if call.losses <= _MOST_LOSSES:
        return None
    if isinstance(error, KilledWorker):
        raise RunnerError(
            "the cluster's workers die, again and again, of the same task",
            hint="look at their logs; most likely their memory does not suffice: give them more",
        )
    raise RunnerError(
        f"a task cannot be run on the cluster: {type(error).__name__}",
        hint="its workers need sms-campaign-runner[cluster] in the same version as here",
    )
