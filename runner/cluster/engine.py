"""The cluster as a way to have functions called elsewhere: the door to Dask, with `connection`."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from runner.cluster.task import Outcome, make_call, pack_call
from runner.errors import RunnerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from distributed import Client, Future

PATIENCE_S = 60.0
"""How long a scheduler, or the last of the workers, may be away."""
_CALLS_PER_SLOT = 4
_MOST_LOSSES = 3
"""How often a call is made anew that the scheduler has given up, since several workers died of it."""
_LOOK_S = 1.0
_LOST = (CommClosedError, OSError, TimeoutError, KilledWorker)
_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Call:
    place: int
    packed: bytes
    losses: int = 0


class Cluster:
    """A cluster that is connected. `open_cluster` makes it.

    Args:
        client: connected to the scheduler.
        where: the address, for messages.
        patience_s: how long the scheduler, or the last of the workers, may be away, in seconds.
    """

    def __init__(self, client: Client, where: str, patience_s: float) -> None:
        self._client = client
        self._where = where
        self._patience_s = patience_s
        self._most = 0
        self._asked_at = 0.0

    @property
    def slots(self) -> int:
        """How many calls can be made at once, as of now; waits for workers if there are none.

        Raises:
            RunnerError: the scheduler cannot be asked, or no worker has come.
        """
        return self._require_workers()

    def _require_workers(self) -> int:
        deadline = time.monotonic() + self._patience_s
        while True:
            self._await_scheduler()
            try:
                slots: int = sum(self._client.nthreads().values())
            except _LOST:
                slots = 0
            if slots:
                return slots
            if time.monotonic() > deadline:
                raise RunnerError(
                    f"the cluster at {self._where} has had no worker for {self._patience_s:g} s",
                    hint=f"start workers, as with: dask worker {self._where}",
                )
            time.sleep(_LOOK_S / 10)

    def run(
        self, task: Callable[..., _Result], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, _Result]]:
        """Have a function called once with each of several arguments, and yield what comes back as it comes.

        A call whose worker is lost is made again, so it may happen twice, or twice at once. However many
        there are, only some of them are at the scheduler at a time.

        Args:
            task: a function of a module that the workers have, too.
            arguments: what it is called with; goes through the scheduler, so nothing secret.

        Yields:
            The place of the arguments, from 0, and what the call returned.

        Raises:
            RunnerError: what a call has raised, as it raised it; something else that a call failed of, but
                without its words; or the cluster is lost.
        """
        waiting = (_Call(place, pack_call(task, each)) for place, each in enumerate(arguments))
        ended: SimpleQueue[Future] = SimpleQueue()
        calls: dict[Future, _Call] = {}
        try:
            while True:
                most = self._find_most()
                while len(calls) < most and (call := next(waiting, None)):
                    self._submit(call, calls, ended)
                if not calls:
                    return
                future = self._next_ended(ended)
                call = calls.pop(future)
                outcome = self._find_outcome(future, call)
                future.release()
                if outcome is None:
                    self._submit(call, calls, ended)
                elif outcome.error is not None:
                    raise outcome.error
                else:
                    yield call.place, outcome.value
        finally:
            self._cancel(calls)

    def ask_workers(self, task: Callable[..., _Result], *arguments: Any) -> dict[str, _Result]:
        """Have a function called once by each worker that is there, and return what they say, by address.

        Args:
            task: a quick function of a module that the workers have, too.
            arguments: what it is called with; goes through the scheduler, so nothing secret.

        Raises:
            RunnerError: what a call has raised, a worker does not have this program, or is lost each time.
        """
        packed = pack_call(task, arguments)
        deadline = time.monotonic() + self._patience_s
        while (said := self._try_asking(packed)) is None:
            if time.monotonic() > deadline:
                raise RunnerError(
                    f"the workers of the cluster at {self._where} could not all be asked within "
                    f"{self._patience_s:g} s",
                    hint="look at their logs: some come and go, or cannot be reached",
                )
            time.sleep(_LOOK_S / 10)
        return said

    def _try_asking(self, packed: bytes) -> dict[str, Any] | None:
        """Return what the workers say; None if one of them, or the scheduler, was lost meanwhile."""
        self._require_workers()
        try:
            answers = self._client.run(make_call, packed, on_error="return")
        except (*_LOST, CancelledError):
            return None
        if any(isinstance(outcome, _LOST) for outcome in answers.values()):
            return None
        for worker, outcome in answers.items():
            if not isinstance(outcome, Outcome):
                raise RunnerError(
                    f"the worker {worker} cannot run this program",
                    hint="install sms-campaign-runner[cluster] there, in the same version as here",
                )
            if outcome.error is not None:
                raise outcome.error
        return {worker: outcome.value for worker, outcome in answers.items()}

    def _find_most(self) -> int:
        """Return how many calls may be at the scheduler: workers come, so it is asked now and then."""
        now = time.monotonic()
        if not self._most or now - self._asked_at > _LOOK_S:
            self._most, self._asked_at = _CALLS_PER_SLOT * self.slots, now
        return self._most

    def _submit(self, call: _Call, calls: dict[Future, _Call], ended: SimpleQueue[Future]) -> None:
        self._await_scheduler()
        future = self._client.submit(make_call, call.packed, pure=False)
        calls[future] = call
        future.add_done_callback(ended.put)

    def _next_ended(self, ended: SimpleQueue[Future]) -> Future:
        """Wait until a call has ended, or is lost, as long as there is who can make it."""
        while True:
            try:
                return ended.get(timeout=_LOOK_S)
            except Empty:
                self._require_workers()

    def _find_outcome(self, future: Future, call: _Call) -> Outcome | None:
        """Return what became of a call; None if it is not known, and the call is to be made again."""
        try:
            if future.status == "finished":
                outcome: Outcome = future.result()
                return outcome
            error = future.exception() if future.status == "error" else None
        except (*_LOST, CancelledError):
            return None
        if error is None:
            return None
        if not isinstance(error, KilledWorker):
            return Outcome(error=_describe_loss(error))
        call.losses += 1
        if call.losses > _MOST_LOSSES:
            raise RunnerError(
                "the cluster's workers die, again and again, of the same task",
                hint="look at their logs; most likely their memory does not suffice: give them more",
            )
        return None

    def _await_scheduler(self) -> None:
        """Wait until the scheduler is there; the client itself looks for it as long as its patience lasts."""
        while self._client.status == "connecting":
            time.sleep(_LOOK_S / 20)
        if self._client.status != "running":
            raise self._gone()

    def _gone(self) -> RunnerError:
        return RunnerError(
            f"the scheduler at {self._where} has gone, and did not come back within {self._patience_s:g} s",
            hint="start it and its workers, then run the same command again: what was done is recorded",
        )

    def _cancel(self, calls: Mapping[Future, _Call]) -> None:
        if calls and self._client.status == "running":
            try:
                self._client.cancel(list(calls))
            except _LOST:
                return


def _describe_loss(error: BaseException) -> RunnerError:
    return RunnerError(
        f"a task cannot be run on the cluster: {type(error).__name__}",
        hint="its workers need sms-campaign-runner[cluster] in the same version as here",
    )
