"""The state that tasks of a run share in one row of the ledger: pace, breaker and heartbeat.

Each failure is counted at once; successes are recorded a few times a second, and before the task's next
failure. So at the limit the count is checked again after all tasks have had time to record successes; until
then the threads that met a failure wait and send nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Self

from runner.delivery.delivery_summary import TOO_LATE
from runner.delivery.pace import Breaker, Pace
from runner.errors import RunnerError
from runner.ledger.locks.cluster_run import (
    FinalAnswer,
    count_failure,
    end_failures,
    pause_cluster_run,
    read_run_state,
    stop_cluster_run,
    take_slots,
)
from runner.ledger.locks.partition_lease import LeaseLostError
from runner.telemetry.recording import measure

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.locks.partition_lease import LeaseClaim, PartitionLease
    from runner.ledger.model import LaunchState
    from runner.service.model import SendReply

BEAT_S = 0.4
"""Seconds between a task's looks at its run: it ends within a second of being told to."""


_AT_ONCE_S = 0.05
"""Seconds whose moments a task takes with one statement: 20 statements a second do for any rate. A task that
dies loses no more than that.
"""
_GOOD_FOR_S = 1.0
"""Seconds that a moment stays usable; missed moments are lost, not made up for."""
_NAP_S = 0.25


class SharedPace(Pace):
    """A source of moments to send at, evenly spaced over all tasks of a run.

    Args:
        ledger: open; has the run's row.
        rate: the most sends a second of all tasks together; None for no limit.
        clock: returns seconds that never go back.
        stop: ends every wait when it is set.
    """

    def __init__(
        self,
        ledger: Ledger,
        run_id: str,
        rate: float | None,
        clock: Callable[[], float],
        stop: threading.Event,
    ) -> None:
        super().__init__(rate, clock, stop)
        self._ledger = ledger
        self._run_id = run_id
        self._slots: deque[float] = deque()
        self._at_once = max(1, int(_AT_ONCE_S * rate)) if rate else 0

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Wait until the caller may send, the task stops, or `is_over` says that it has ended otherwise.

        Raises:
            LedgerError: the ledger cannot be asked.
        """
        if not self._interval and self._clock() >= self._paused_until:
            return
        # One thread at a time: the thread that takes a moment waits for it.
        with self._turn:
            while not (self._stop.is_set() or is_over()):
                now = self._clock()
                if now < self._paused_until:
                    self._slots.clear()
                    self._stop.wait(min(self._paused_until - now, _NAP_S))
                elif not self._interval:
                    return
                elif (moment := self._find_slot(now)) <= now:
                    self._slots.popleft()
                    return
                else:
                    self._stop.wait(min(moment - now, _NAP_S))

    def pause(self, seconds: float) -> None:
        """Stop all tasks from sending for a while; a longer pause under way stays.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        self.note_pause(seconds)
        with self._ledger.writing() as connection:
            pause_cluster_run(connection, self._run_id, seconds)

    def note_pause(self, seconds: float) -> None:
        """Stop this task's threads from sending for a while, after another task was asked to pause."""
        super().pause(seconds)

    def _find_slot(self, now: float) -> float:
        """Return this task's next moment on the clock; take further ones if there is none."""
        while self._slots and self._slots[0] < now - _GOOD_FOR_S:
            self._slots.popleft()
        if not self._slots:
            with self._ledger.writing() as connection:
                wait_s = take_slots(connection, self._run_id, self._at_once, self._interval)
            # A run that is over has none; its tasks are about to end.
            first = self._clock() + (_NAP_S if wait_s is None else wait_s)
            self._slots.extend(first + place * self._interval for place in range(self._at_once))
        return self._slots[0]


class SharedBreaker(Breaker):
    """A breaker that opens at a run of failures, in any tasks, without a success among them.

    Args:
        ledger: open; has the run's row.
        limit: failures in a row that open it.
        told_s: seconds that a task may take to record a success.
        stop: ends every wait when it is set.
    """

    def __init__(self, ledger: Ledger, run_id: str, limit: int, told_s: float, stop: threading.Event) -> None:
        super().__init__(limit)
        self._ledger = ledger
        self._run_id = run_id
        self._told_s = told_s
        self._stop = stop
        self._counting = threading.Lock()
        self._has_succeeded = False

    def observe_failure(self, _number: int) -> bool:
        """Count a failure of the whole run; return whether it opens the breaker."""
        # A ledger that cannot be written ends the task anyway.
        with contextlib.suppress(RunnerError):
            return self._count() >= self.limit and self._is_full_still()
        return False

    def observe_success(self, reply: SendReply) -> None:
        """Note an answer that is not a failure."""
        super().observe_success(reply)
        self._has_succeeded = True

    def tell_success(self) -> None:
        """Record successes for the other tasks; to be called a few times a second.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        if self._take_success():
            with self._ledger.writing() as connection:
                end_failures(connection, self._run_id)

    def _take_success(self) -> bool:
        with self._counting:
            had_success, self._has_succeeded = self._has_succeeded, False
        return had_success

    def _count(self) -> int:
        had_success = self._take_success()
        with self._ledger.writing() as connection:
            return count_failure(connection, self._run_id, has_succeeded=had_success)

    def _is_full_still(self) -> bool:
        self._stop.wait(self._told_s)
        with self._ledger.reading() as connection:
            state = read_run_state(connection, self._run_id)
        return state is not None and state.failures >= self.limit


class Heartbeat:
    """A thread that keeps a task in touch with its run. Use it as a context manager.

    Args:
        claim: names the task's round.
        lease: the task's; is renewed.
        pace: receives other tasks' pauses.
        breaker: records successes.
        stop: is set when the run, or the lease, is over, or the worker is leaving.
        final: returns the answer that ends the run, if any, which is recorded with the run.
        is_leaving: returns whether the task's worker is leaving its cluster.

    Attributes:
        is_lost: whether the lease was lost.
    """

    def __init__(
        self,
        ledger: Ledger,
        claim: LeaseClaim,
        lease: PartitionLease,
        pace: SharedPace,
        breaker: SharedBreaker,
        stop: threading.Event,
        final: Callable[[], SendReply | None],
        is_leaving: Callable[[], bool],
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
        self._final = final
        self._is_leaving = is_leaving
        self._has_told_final = False
        # No daemon: the process stays until the sends in flight are recorded, and the lease is released.
        self._thread = threading.Thread(target=self._keep_in_touch, name="heartbeat", daemon=False)
        self.is_lost = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def observe_outcome(self, outcome: LaunchState, recipients: int, detail: str | None) -> None:
        """Count the recipients of a launch whose outcome is final (`ObserveOutcome`)."""
        if outcome in ("sent", "rejected") or detail == TOO_LATE:
            self._done += recipients

    def _keep_in_touch(self) -> None:
        try:
            self._beat()
        finally:
            self._ended.wait()
            # The answer ends the whole run, whether or not the lease still lasts.
            with contextlib.suppress(RunnerError):
                self._tell_final()
            with contextlib.suppress(RunnerError):
                self._lease.release(self._done - self._told)

    def _beat(self) -> None:
        while not self._ended.wait(min(BEAT_S, self._lease.terms.renew_s / 2)):
            if self._is_leaving():
                # The lease is renewed until the sends in flight are recorded.
                self._stop.set()
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
            self._stop.set()
        elif state.paused_s:
            self._pace.note_pause(state.paused_s)
        if self._lease.is_due:
            done = self._done
            self._renew(done - self._told)
            self._told = done

    def _renew(self, done: int) -> None:
        outcome = "failed"
        try:
            self._lease.renew(done)
            outcome = "renewed"
        except LeaseLostError:
            outcome = "lost"
            raise
        finally:
            measure("sms_campaign.lease.renewals", 1, lease="partition", outcome=outcome)

    def _tell_final(self) -> None:
        reply = self._final()
        if reply is not None and not self._has_told_final:
            with self._ledger.writing() as connection:
                final = FinalAnswer(reply.status, reply.detail or "")
                stop_cluster_run(connection, self._claim.run_id, final)
            self._has_told_final = True
