"""The pace of a run's sends: a rate, pauses that the service asks for, tries, and a circuit breaker.

A launch is tried again only after requests that have certainly not left this machine.
The breaker ends a run whose sends all fail, before it has used up its audience. It is that of Nygard, Release
It! (2nd ed. 2018, chapter 5), without the half-open state: the next run tries again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING

from runner.service.model import SendReply

if TYPE_CHECKING:
    from datetime import timedelta


_LONGEST_NAP_S = 0.25
"""The longest sleep of a waiting thread, in seconds, before it notices the end of its run."""
LEAST_MARGIN_S = 2.0
"""Seconds before the end of the hours at which the last sends leave if the service answers at once."""
_RECENT = 64
_TIMES = 2
"""The factor by which the next answer may be slower than the slowest recent one."""


class Pace:
    """A source of evenly spaced moments to send at; time lost in a pause is not made up for.

    `rate` is in sends a second, `clock` returns seconds that never go back, and `stop` ends every wait.
    """

    def __init__(self, rate: float | None, clock: Callable[[], float], stop: threading.Event) -> None:
        self._clock = clock
        self._stop = stop
        self._interval = 1 / rate if rate else 0.0
        self._turn = threading.Lock()
        self._next = self._paused_until = clock()
        self._pausing = threading.Lock()

    def now(self) -> float:
        """Return the time on the pace's clock, in seconds."""
        return self._clock()

    def set_rate(self, rate: float | None) -> None:
        """Use another rate from the next send on: one pace may serve campaigns with limits of their own."""
        with self._turn:
            self._interval = 1 / rate if rate else 0.0

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Wait until the caller may send, or until the run stops or is over."""
        if not self._interval and self._clock() >= self._paused_until:
            return
        # One thread at a time waits for the next moment, so that a machine that wakes from sleep has
        # one send due, and not one for each thread.
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
        """Wait, in this thread only, or until the run stops or is over."""
        end = self._clock() + seconds
        while (left := end - self._clock()) > 0 and not (self._stop.is_set() or is_over()):
            self._stop.wait(min(left, _LONGEST_NAP_S))

    def pause(self, seconds: float) -> None:
        """Let no thread send for a while; a longer pause under way stays."""
        with self._pausing:
            self._paused_until = max(self._paused_until, self._clock() + seconds)


class Margin:
    """The time before the end of the hours in which a launch may be accepted too late.

    It follows recent response times unless it is `fixed`.
    """

    def __init__(self, fixed: timedelta | None) -> None:
        self._fixed_s = None if fixed is None else fixed.total_seconds()
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._turn = threading.Lock()
        self.seconds = LEAST_MARGIN_S if self._fixed_s is None else self._fixed_s

    def observe(self, seconds: float) -> None:
        """Record a response time."""
        if self._fixed_s is None:
            with self._turn:
                self._recent.append(seconds)
                self.seconds = max(LEAST_MARGIN_S, _TIMES * max(self._recent))


FEWEST_FAILURES = 10
"""Failures that open a breaker at least; it stays closed while one of the sends in flight may succeed."""
_MOST_PAUSES = 5
"""Pauses in a row, without a success in between, that a run makes at the service's request."""


class Breaker:
    """A circuit breaker that opens at so many failures in a row as `limit` says.

    Launches are ordered by their starts. By their ends, a service with quick failures and slow successes
    would look dead while half of its answers are good.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._started = 0
        # The length of each run of failures, at its first and its last number.
        self._runs: dict[int, int] = {}
        self._pauses = 0
        self._paused_at = 0

    def enter(self) -> int:
        """Return the number of a launch that is about to be sent."""
        with self._lock:
            self._started += 1
            return self._started

    def observe(self, number: int, reply: SendReply) -> bool:
        """Record the last answer to a launch numbered by `enter`; return whether it opens the breaker.

        A service that asks for one pause after the other opens it, too; a success restarts their count.
        """
        with self._lock:
            if reply.is_busy:
                # Answers to launches in flight at the first such answer are part of the same pause.
                if number > self._paused_at:
                    self._pauses += 1
                    self._paused_at = self._started
                return self._pauses >= _MOST_PAUSES
            if is_failure(reply):
                before, after = self._runs.pop(number - 1, 0), self._runs.pop(number + 1, 0)
                length = before + 1 + after
                self._runs[number - before] = self._runs[number + after] = length
                return length >= self.limit
            if reply.outcome == "sent":
                self._pauses = 0
            return False


def is_failure(reply: SendReply) -> bool:
    """Return whether an answer is a failure of the service; a rejection is one of the launch."""
    return reply.outcome in ("unknown", "not_sent")


Send = Callable[[str, list[str], Callable[[], None]], SendReply]
"""One POST: definition, phones, and a function called once connected, before the first byte."""


class WithheldError(Exception):
    """A recipient must no longer be texted; earlier tries have not been accepted."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits on the tries of one launch.

    Attributes:
        tries: the most requests for one launch.
        base_s: the longest wait after the first failure, in seconds; it doubles with every further one.
        pause_s: the longest pause that the service may ask for, in seconds; a longer one ends the run.
    """

    tries: int = 5
    base_s: float = 0.5
    pause_s: float = 300.0

    def backoff(self, failures: int, chance: float) -> float:
        """Return the seconds to wait after at least one failure: exponential backoff with full jitter.

        `chance` is uniform, from 0 to 1. Source: M. Brooker, "Exponential Backoff And Jitter", AWS
        Architecture Blog, 2015.
        """
        return chance * self.base_s * 2.0 ** (failures - 1)


DEFAULT_POLICY = RetryPolicy()
_PAUSE = 3
"""The failures whose backoff is added to a pause: some 2 s at most, with the default policy."""


@dataclass(frozen=True, slots=True)
class Retrier:
    """Sends of a launch until an answer is final, from any number of threads.

    A `Retry-After` pauses `pace`, and so all threads. `guard` is called before each try and right before its
    first byte, and raises if nothing may be sent any more. `is_over` returns whether the run has ended.
    """

    post: Send
    _: KW_ONLY
    policy: RetryPolicy
    pace: Pace
    random: Callable[[], float]
    is_over: Callable[[], bool]
    guard: Callable[[], None]

    def send(
        self, definition: str, phones: list[str], check: Callable[[], None] = lambda: None
    ) -> SendReply | None:
        """Return the answer to the last try; None if the run ended before the first.

        `definition` is the send body without `phone`, as a JSON object; phones are E.164. `check` is called
        right before each try, after all waits.

        Raises:
            WithheldError: from the check; the launch has not been accepted either.
        """
        reply: SendReply | None = None
        for failures in range(1, self.policy.tries + 1):
            self.pace.wait(self.is_over)
            if self.is_over():
                break
            self.guard()
            check()
            # The guard's reading of the ledger, or connecting, may have taken any time: the sender
            # checks once more, and after that only the machine takes time.
            reply = self.post(definition, phones, self.guard)
            if reply.is_busy:
                return self._make_pause(reply)
            if not reply.may_retry or failures == self.policy.tries:
                break
            self.pace.rest(self.policy.backoff(failures, self.random()), self.is_over)
        return reply

    def _make_pause(self, reply: SendReply) -> SendReply:
        """Pause all threads for as long as the service asks; the launch's outcome stays unknown."""
        asked = reply.retry_after_s or 0.0
        if asked > self.policy.pause_s:
            detail = f"{reply.detail}; it asks to be left alone for {asked:,.0f} s"
            return replace(reply, detail=detail, is_final_for_run=True)
        # The jitter spreads the requests of several runs.
        self.pace.pause(asked + self.policy.backoff(_PAUSE, self.random()))
        return reply
