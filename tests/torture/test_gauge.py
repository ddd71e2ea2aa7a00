"""The harness's own eyes: what it would miss, nobody would see."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import pytest

from tests.torture.gauge import AHEAD_S, Gauge

RATE = 10


@dataclass
class Clock:
    """Time that passes when it is told to."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Time that passes when it is told to."""
    return Clock()


def test_one_request_too_many_in_flight_is_noted(clock: Clock) -> None:
    """Two requests may be in flight, one after the other or at once; a third may not."""
    gauge = Gauge(2, clock=clock)
    ends = [socket.socketpair() for _ in range(4)]
    gauge.enter(ends[0][0])
    gauge.leave(ends[0][0])
    gauge.enter(ends[1][0])
    gauge.enter(ends[2][0])
    assert (gauge.most, gauge.overruns) == (2, [])
    gauge.enter(ends[3][0])
    assert (gauge.most, len(gauge.overruns)) == (3, 1)
    for near, far in ends:
        near.close()
        far.close()


def test_a_client_that_hung_up_has_nothing_in_flight(clock: Clock) -> None:
    """Nobody waits any more for the answer to a request whose client has hung up, or died."""
    gauge = Gauge(1, clock=clock)
    (near, far), (other, its_far) = socket.socketpair(), socket.socketpair()
    gauge.enter(near)
    far.close()
    gauge.enter(other)
    assert (gauge.most, gauge.overruns) == (1, [])
    for each in (near, other, its_far):
        each.close()


def test_a_client_that_is_too_far_ahead_of_its_rate_is_noted(clock: Clock) -> None:
    """Missed moments may be made up for, up to a second's worth; one request more may not."""
    gauge = Gauge(100, RATE, clock)
    near, far = socket.socketpair()
    with near, far:
        for _ in range(round(RATE * AHEAD_S) + 1):
            gauge.enter(near)
        assert not gauge.overruns
        gauge.enter(near)
        assert len(gauge.overruns) == 1
        clock.now = 1 / RATE
        gauge.enter(near)
        assert len(gauge.overruns) == 2
        clock.now = 10.0
        gauge.enter(near)
        assert len(gauge.overruns) == 2
