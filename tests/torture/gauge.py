"""What a service sees of a client's limits: requests in flight at once, and how fast they come."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Protocol

from tests.torture.arrival import read_age_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AHEAD_S = 1.0
"""Seconds of its rate by which a client may be ahead: a worker that stood still may use the moments to send at
that it missed for so long (`runner.cluster.heartbeat`)."""


class Meter(Protocol):
    """Is told of each request to send."""

    def enter(self, connection: socket.socket) -> None:
        """Note that a request has come over a connection, body and all."""

    def leave(self, connection: socket.socket) -> None:
        """Note that its answer, if there is one, is about to leave."""


class Gauge:
    """Counts requests in flight, and how far they are ahead of a rate: a bucket that leaks at that rate.

    A request is in flight until its answer leaves, or until its client has hung up and waits for it no more.
    Both limits are judged at each request, so over every span of time and not over windows of some length. A
    request came when the system received it: this process may have stood still since.

    Args:
        concurrency: the most requests in flight.
        rate: the most a second; None for no limit.
        clock: returns seconds that never go back.

    Attributes:
        concurrency: the most requests in flight that are allowed.
        requests: that have come.
        most: in flight at once that there were.
    """

    def __init__(
        self, concurrency: int, rate: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.concurrency = concurrency
        self.requests = self.most = 0
        self._arrivals: list[float] = []
        self._crowds: list[str] = []
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._in_flight: set[socket.socket] = set()
        self._started_at = clock()

    @property
    def overruns(self) -> list[str]:
        """Requests above a limit, in words."""
        with self._lock:
            arrivals = sorted(self._arrivals)
            return [*self._crowds, *(self._find_hasty(arrivals, self._rate) if self._rate else ())]

    def enter(self, connection: socket.socket) -> None:
        """Note that a request has come over a connection, body and all."""
        with self._lock:
            now = self._clock() - read_age_s(connection)
            self._arrivals.append(now)
            self._in_flight = {each for each in self._in_flight if not _has_hung_up(each)} | {connection}
            self.requests += 1
            number = len(self._in_flight)
            self.most = max(self.most, number)
            if number > self.concurrency:
                self._crowds.append(
                    self._describe(now, f"{number} requests in flight, of at most {self.concurrency}")
                )

    def leave(self, connection: socket.socket) -> None:
        """Note that its answer, if there is one, is about to leave."""
        with self._lock:
            self._in_flight.discard(connection)

    def _find_hasty(self, arrivals: list[float], rate: float) -> Iterator[str]:
        """Describe the requests that came too early for the rate."""
        full_until = self._started_at
        for at in arrivals:
            ahead_s = max(0.0, full_until - at)
            full_until = at + ahead_s + 1 / rate
            if ahead_s > AHEAD_S:
                yield self._describe(at, f"{ahead_s:.2f} s ahead of {rate:g} requests a second")

    def _describe(self, at: float, what: str) -> str:
        return f"{at - self._started_at:6.2f} {what}"


def _has_hung_up(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
