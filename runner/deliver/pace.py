"""Keeps a run's sends within a rate, across its threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Pace:
    """Hands out moments to send at, evenly spaced.

    Args:
        rate: the most sends a second; None for no limit.
        clock: returns seconds that never go back.
        stop: ends every wait when it is set.
    """

    def __init__(self, rate: float | None, clock: Callable[[], float], stop: threading.Event) -> None:
        self._interval = 1 / rate if rate else 0.0
        self._clock = clock
        self._stop = stop
        self._lock = threading.Lock()
        self._next = clock()

    def wait(self) -> None:
        """Wait until the caller may send, or until the run stops."""
        if not self._interval:
            return
        with self._lock:
            now = self._clock()
            moment = max(self._next, now)
            self._next = moment + self._interval
        if moment > now:
            self._stop.wait(moment - now)
