"""Ends a run on a cluster whose sends all fail: failures in a row are counted over all of its tasks.

Each failure is counted at once, in a row of the ledger; that something succeeded is told by each task a few
times a second, and before its next failure. So when the row is full, it is looked at once more after all
tasks have had the time to tell: until then the threads that have met a failure wait, and send nothing.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from runner.deliver.breaker import Breaker, is_failure
from runner.errors import RunnerError
from runner.ledger.cluster_run import count_failure, end_failures, read_run_state

if TYPE_CHECKING:
    from runner.ledger.database import Ledger
    from runner.service.model import SendReply


class SharedBreaker(Breaker):
    """Opens at a run of failures without a success among them, in whatever task.

    Args:
        ledger: open; has the run's row.
        run_id: the run.
        limit: failures in a row that open it.
        told_s: how long a task may take to tell of a success, in seconds.
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

    def observe(self, number: int, reply: SendReply) -> bool:
        """Take note of a launch's last answer; return whether it opens the breaker.

        Args:
            number: what `enter` returned.
            reply: of its last try.
        """
        if reply.is_busy:
            return self.observe_pause(number)
        if not is_failure(reply):
            self.observe_success(reply)
            self._has_succeeded = True
            return False
        # A ledger that cannot be written ends the task by itself.
        with contextlib.suppress(RunnerError):
            return self._count() >= self.limit and self._is_full_still()
        return False

    def tell_success(self) -> None:
        """Let the other tasks know if something has succeeded; to be called a few times a second.

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
