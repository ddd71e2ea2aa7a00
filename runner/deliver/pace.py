"""When a run's sends may leave: within a rate, not while the service asks for a pause, and not too late."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

_LONGEST_NAP_S = 0.25
"""How long after its run has ended by itself a thread may still wait."""
LEAST_MARGIN_S = 2.0
"""How long before the end of their hours the last sends leave while the service answers at once."""
_RECENT = 64
_TIMES = 2
"""By how much longer than the slowest of the recent answers the next one may take."""


class Pace:
    """Hands out moments to send at, evenly spaced; what a pause costs is not made up for.

    Args:
        rate: the most sends a second; None for no limit.
        clock: returns seconds that never go back.
        stop: ends every wait when it is set.
    """

    def __init__(self, rate: float | None, clock: Callable[[], float], stop: threading.Event) -> None:
        self._clock = clock
        self._stop = stop
        self._interval = 1 / rate if rate else 0.0
        self._turn = threading.Lock()
        self._next = self._paused_until = clock()
        self._pausing = threading.Lock()

    def now(self) -> float:
        """Return the time on the clock that the pace goes by, in seconds."""
        return self._clock()

    def set_rate(self, rate: float | None) -> None:
        """Keep another rate from the next send on: one pace may serve campaigns with limits of their own."""
        with self._turn:
            self._interval = 1 / rate if rate else 0.0

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Wait until the caller may send, or until the run stops or is over.

        Args:
            is_over: whether the run has ended for another reason than `stop`.
        """
        if not self._interval and self._clock() >= self._paused_until:
            return
        # One thread at a time waits for the next moment, so that a machine that was asleep wakes to
        # one send that is due, and not to as many as there are threads.
        with self._turn:
            moment = max(self._next, self._clock())
            while not (self._stop.is_set() or is_over()):
                now = self._clock()
                moment = max(moment, self._paused_until)
                if now >= moment:
                    is_late = now - moment >= self._interval
                    self._next = (now if is_late else moment) + self._interval
                    return
                self._stop.wait(min(moment - now, _LONGEST_NAP_S))

    def rest(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Wait, in this thread alone, or until the run stops or is over."""
        end = self._clock() + seconds
        while (left := end - self._clock()) > 0 and not (self._stop.is_set() or is_over()):
            self._stop.wait(min(left, _LONGEST_NAP_S))

    def pause(self, seconds: float) -> None:
        """Let no thread send for a while; a longer pause that is under way stays."""
        with self._pausing:
            self._paused_until = max(self._paused_until, self._clock() + seconds)


class Margin:
    """Time that a send may take: what leaves within it before the end of the hours may be accepted later.

    Args:
        fixed: the margin; None to go by the recent answers.
    """

    def __init__(self, fixed: timedelta | None) -> None:
        self._fixed_s = None if fixed is None else fixed.total_seconds()
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._turn = threading.Lock()
        self.seconds = LEAST_MARGIN_S if self._fixed_s is None else self._fixed_s

    def observe(self, seconds: float) -> None:
        """Take note of how long an answer took."""
        if self._fixed_s is None:
            with self._turn:
                self._recent.append(seconds)
                self.seconds = max(LEAST_MARGIN_S, _TIMES * max(self._recent))
