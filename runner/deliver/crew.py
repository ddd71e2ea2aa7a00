"""The threads that send: each takes a launch that is due, has it sent, and hands the reply back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.model import Intent
    from runner.plan.model import PlannedLaunch
    from runner.service.model import SendReply


@dataclass(frozen=True, slots=True)
class Flight:
    """A launch whose intent is durable.

    Attributes:
        launch_id: the ledger's number of the launch.
        intent: as it was recorded.
        launch: what is to be sent.
    """

    launch_id: int
    intent: Intent
    launch: PlannedLaunch


class Crew:
    """Sends flights, so many at once. Use it as a context manager; leave nothing in flight behind.

    A thread takes launches from a queue until there are none: a future for each would cost more than that.

    Args:
        size: threads, at most.
        fly: sends a flight, in one of the threads; must not raise.

    Attributes:
        in_flight: flights that were sent off and not taken back yet.
    """

    def __init__(self, size: int, fly: Callable[[Flight], SendReply]) -> None:
        self.in_flight = 0
        self._size = size
        self._fly = fly
        self._threads = 0
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="send")
        self._due: SimpleQueue[Flight | None] = SimpleQueue()
        self._replies: SimpleQueue[tuple[Flight, SendReply]] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _thread in range(self._threads):
            self._due.put(None)
        self._pool.shutdown()

    def send_off(self, flight: Flight) -> None:
        """Have a flight sent as soon as a thread is free."""
        self.in_flight += 1
        self._due.put(flight)
        if self._threads < min(self.in_flight, self._size):
            self._threads += 1
            self._pool.submit(self._work)

    def take_back(self) -> list[tuple[Flight, SendReply]]:
        """Wait for a reply, and return all that are there, each with its flight."""
        taken = [self._replies.get()]
        while not self._replies.empty():
            taken.append(self._replies.get())
        self.in_flight -= len(taken)
        return taken

    def _work(self) -> None:
        while (flight := self._due.get()) is not None:
            self._replies.put((flight, self._fly(flight)))
