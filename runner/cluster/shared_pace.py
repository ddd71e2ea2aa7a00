"""One pace for all tasks of a run: moments to send at come from one row of the ledger."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from runner.deliver.pace import Pace
from runner.ledger.cluster_run import pause_cluster_run, take_slots

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from runner.ledger.database import Ledger

_AT_ONCE_S = 0.05
"""Of how much time a task takes the moments with one statement: 20 statements a second do for any
rate. A task that dies takes no more than that with it."""
_GOOD_FOR_S = 1.0
"""How late a moment may be used; one that is missed for longer is lost, not made up for."""
_NAP_S = 0.25


class SharedPace(Pace):
    """Hands out moments to send at, evenly spaced over all tasks of a run.

    Args:
        ledger: open; has the run's row.
        run_id: the run.
        rate: the most sends a second, of all tasks together; None for no limit.
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
        """Wait until the caller may send, or until the task stops or is over.

        Args:
            is_over: whether the task has ended for another reason than `stop`.

        Raises:
            LedgerError: the ledger cannot be asked.
        """
        if not self._interval and self._clock() >= self._paused_until:
            return
        # One thread at a time: a moment that was taken is waited for by who uses it.
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
        """Let no task send for a while; a longer pause that is under way stays.

        Raises:
            LedgerError: the others cannot be told.
        """
        self.note_pause(seconds)
        with self._ledger.writing() as connection:
            pause_cluster_run(connection, self._run_id, seconds)

    def note_pause(self, seconds: float) -> None:
        """Let no thread of this task send for a while: another task was asked for that."""
        super().pause(seconds)

    def _find_slot(self, now: float) -> float:
        """Return the next moment that this task has, on the clock, taking further ones if there is none."""
        while self._slots and self._slots[0] < now - _GOOD_FOR_S:
            self._slots.popleft()
        if not self._slots:
            with self._ledger.writing() as connection:
                wait_s = take_slots(connection, self._run_id, self._at_once, self._interval)
            # A run that is over has none; its tasks are about to hear of it.
            first = self._clock() + (_NAP_S if wait_s is None else wait_s)
            self._slots.extend(first + place * self._interval for place in range(self._at_once))
        return self._slots[0]
