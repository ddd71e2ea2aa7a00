"""Tries again what has certainly not left this machine, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.service.model import SendReply

if TYPE_CHECKING:
    from runner.deliver.pace import Pace

Send = Callable[[str, list[str], Callable[[], None]], SendReply]
"""One POST: definition, phones, and what is called once the connection stands, before the first byte."""


class WithheldError(Exception):
    """These people must not be texted now; what was tried before has not been accepted.

    Args:
        reason: why, in words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and for how long, one launch is tried again.

    Attributes:
        tries: the most requests for one launch.
        base_s: the longest wait after its first failure, in seconds; it doubles with every further one.
        cap_s: the longest wait of all.
        total_s: the longest time from the first try to the last.
    """

    tries: int = 5
    base_s: float = 0.5
    cap_s: float = 30.0
    total_s: float = 300.0

    def backoff(self, failures: int, chance: float) -> float:
        """Return seconds to wait after so many failures: exponential backoff with full jitter.

        Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.

        Args:
            failures: at least 1.
            chance: uniform, from 0 to 1.
        """
        doublings = min(failures - 1, 64)  # beyond any cap, and within what a float can hold
        return chance * min(self.cap_s, self.base_s * 2.0**doublings)


DEFAULT_POLICY = RetryPolicy()
_PAUSE = 3
"""The failures whose backoff is added to a pause: some 2 s at most, with the default policy."""


class Retrier:
    """Sends a launch until it has an answer that stands, from any number of threads.

    Args:
        send: one POST.
        policy: the bounds.
        pace: is kept by every try; a `Retry-After` pauses it, and so all threads.
        random: returns a uniform number from 0 to 1.
        is_over: whether the run has ended, so that nothing may be sent any more.
        guard: is called before each try, and right before its first byte, and raises if nothing may be sent
            any more.
    """

    def __init__(
        self,
        send: Send,
        *,
        policy: RetryPolicy,
        pace: Pace,
        random: Callable[[], float],
        is_over: Callable[[], bool],
        guard: Callable[[], None],
    ) -> None:
        self._send = send
        self._policy = policy
        self._pace = pace
        self._random = random
        self._is_over = is_over
        self._guard = guard

    def send(
        self, definition: str, phones: list[str], check: Callable[[], None] = lambda: None
    ) -> SendReply | None:
        """Return the answer of the last try; None if the run ended before the first.

        Args:
            definition: the send body less `phone`, as a JSON object.
            phones: E.164, at least one.
            check: is called right before each try, after all waits, and raises `WithheldError` if these
                people must not be texted any more.

        Raises:
            RunnerError: the guard's or the check's; the launch has certainly not been accepted.
            WithheldError: the check's; nor has it.
        """
        reply: SendReply | None = None
        latest = self._pace.now() + self._policy.total_s
        for failures in range(1, self._policy.tries + 1):
            self._pace.wait(self._is_over)
            if self._is_over():
                break
            self._guard()
            check()
            # What was asked of the ledger meanwhile, or the connecting, may have taken any time: the sender
            # looks once more, and after that nothing takes time but the machine.
            reply = self._send(definition, phones, self._guard)
            if reply.is_busy:
                return self._make_pause(reply)
            if not reply.may_retry or failures == self._policy.tries:
                break
            if not self._wait_for_next(failures, latest):
                break
        return reply

    def _make_pause(self, reply: SendReply) -> SendReply:
        """Have all threads leave the service alone for as long as it asks; the launch stays unknown."""
        asked = reply.retry_after_s or 0.0
        if asked > self._policy.total_s:
            detail = f"{reply.detail}; it asks to be left alone for {asked:,.0f} s"
            return replace(reply, detail=detail, is_final_for_run=True)
        # The jitter is for other runs' sake.
        self._pace.pause(asked + self._policy.backoff(_PAUSE, self._random()))
        return reply

    def _wait_for_next(self, failures: int, latest: float) -> bool:
        """Wait before the next try; return False, at once, if it would come too late."""
        backoff = self._policy.backoff(failures, self._random())
        if self._pace.now() + backoff > latest:
            return False
        self._pace.rest(backoff, self._is_over)
        return True
