"""What a task does a few times a second beside sending: renews its lease, hears, and tells."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Self

from runner.deliver.summary import TOO_LATE
from runner.errors import RunnerError
from runner.ledger.cluster_run import FinalAnswer, read_run_state, stop_cluster_run
from runner.ledger.partition_lease import LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.cluster.shared_breaker import SharedBreaker
    from runner.cluster.shared_pace import SharedPace
    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchState
    from runner.ledger.partition_lease import LeaseClaim, PartitionLease
    from runner.service.model import SendReply

BEAT_S = 0.4
"""How often a task looks at its run, in seconds: it ends within a second of being told to."""


class Heartbeat:
    """Keeps a task in touch with its run, in a thread of its own. Use it as a context manager.

    Args:
        ledger: open.
        claim: says of which round the task is.
        lease: the task's; is renewed.
        pace: is told of pauses that other tasks were asked for.
        breaker: tells of successes.
        stop: is set when the run, or the lease, is over.

    Attributes:
        is_lost: whether the lease was lost.
        is_called_off: whether the run has told the task to end.
    """

    def __init__(
        self,
        ledger: Ledger,
        claim: LeaseClaim,
        lease: PartitionLease,
        pace: SharedPace,
        breaker: SharedBreaker,
        stop: threading.Event,
    ) -> None:
        self._ledger = ledger
        self._claim = claim
        self._lease = lease
        self._pace = pace
        self._breaker = breaker
        self._stop = stop
        self._ended = threading.Event()
        self._done = 0
        self._told = 0
        self._final: Callable[[], SendReply | None] = lambda: None
        self._has_told_final = False
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self.is_lost = False
        self.is_called_off = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        # The answer that ends the run is the run's, whatever becomes of the lease.
        with contextlib.suppress(RunnerError):
            self._tell_final()
        with contextlib.suppress(RunnerError):
            self._lease.release(self._done - self._told)

    def watch_final(self, final: Callable[[], SendReply | None]) -> None:
        """Tell the run of the answer that ends it, once there is one."""
        self._final = final

    def observe_outcome(self, outcome: LaunchState, recipients: int, detail: str | None) -> None:
        """Take note of one launch's outcome (`DeliveryObserver`): of what may be tried again, nothing."""
        if outcome in ("sent", "rejected") or detail == TOO_LATE:
            self._done += recipients

    def _beat(self) -> None:
        while not self._ended.wait(min(BEAT_S, self._lease.terms.renew_s / 2)):
            try:
                self._exchange()
            except LeaseLostError:
                self.is_lost = True
                self._stop.set()
                return
            except RunnerError:
                # The ledger cannot be reached: the lease runs out by itself if that lasts.
                continue

    def _exchange(self) -> None:
        self._tell_final()
        self._breaker.tell_success()
        with self._ledger.reading() as connection:
            state = read_run_state(connection, self._claim.run_id)
        if state is None or state.round != self._claim.round or state.is_stopped or state.is_abandoned:
            self.is_called_off = True
            self._stop.set()
        elif state.paused_s:
            self._pace.note_pause(state.paused_s)
        if self._lease.is_due:
            done = self._done
            self._lease.renew(done - self._told)
            self._told = done

    def _tell_final(self) -> None:
        reply = self._final()
        if reply is not None and not self._has_told_final:
            with self._ledger.writing() as connection:
                final = FinalAnswer(reply.status, reply.detail or "")
                stop_cluster_run(connection, self._claim.run_id, final)
            self._has_told_final = True
