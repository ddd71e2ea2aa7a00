"""Tries of one launch: again only after requests that have certainly not left this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING

from runner.service.model import SendReply

if TYPE_CHECKING:
    from runner.delivery.pace import Pace


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
