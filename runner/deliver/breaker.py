"""Ends a run whose sends all fail, before it has burnt through its audience.

The circuit breaker of Nygard, Release It! (2nd ed. 2018, chapter 5), without its half-open state:
the next run is the one that tries again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.service.model import SendReply

_FEWEST_FAILURES = 10
_MOST_PAUSES = 5
"""How often in a row a run makes a pause that the service asks for, without a success in between."""


class Breaker:
    """Opens at a run of failures without a success among them.

    The run is counted in the order in which launches started. In the order of their ends a service
    whose failures are quicker than its successes would look dead while half of its answers are good.

    Args:
        limit: failures in a row that open it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._started = 0
        # The length of each run of failures, at its first and its last number.
        self._runs: dict[int, int] = {}
        self._pauses = 0
        self._paused_at = 0

    @classmethod
    def for_concurrency(cls, concurrency: int) -> Breaker:
        """Return a breaker that stays closed while one of the sends in flight may still succeed."""
        return cls(max(_FEWEST_FAILURES, concurrency))

    @property
    def limit(self) -> int:
        """The failures in a row that open it."""
        return self._limit

    def enter(self) -> int:
        """Return the number of a launch that is about to be sent."""
        with self._lock:
            self._started += 1
            return self._started

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
            return False
        with self._lock:
            before, after = self._runs.pop(number - 1, 0), self._runs.pop(number + 1, 0)
            length = before + 1 + after
            self._runs[number - before] = self._runs[number + after] = length
        return length >= self._limit

    def observe_pause(self, number: int) -> bool:
        """Take note that the service asks to be left alone; return whether it has done so too often.

        What was on its way when it first asked is part of the same pause.
        """
        with self._lock:
            if number > self._paused_at:
                self._pauses += 1
                self._paused_at = self._started
            return self._pauses >= _MOST_PAUSES

    def observe_success(self, reply: SendReply) -> None:
        """Take note of an answer that is no failure: if it was a success, pauses are counted anew."""
        if reply.outcome == "sent":
            with self._lock:
                self._pauses = 0


def is_failure(reply: SendReply) -> bool:
    """Return whether an answer says that the service is in trouble; a rejection blames the launch alone."""
    return reply.outcome in ("unknown", "not_sent")
