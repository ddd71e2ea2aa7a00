"""A rate is kept on a clock of its own: no time passes in these tests."""

from __future__ import annotations

import threading
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from runner.deliver.pace import Pace


class Clock(threading.Event):
    """A clock that stands still until somebody waits; then it is as late as they wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if not self.is_set():
            self.now += timeout
        return self.is_set()


def list_moments(pace: Pace, clock: Clock, count: int) -> list[float]:
    moments = []
    for _ in range(count):
        pace.wait()
        moments.append(clock.now)
    return moments


def test_without_a_rate_nobody_waits() -> None:
    """No limit means no waiting at all."""
    clock = Clock()
    assert list_moments(Pace(None, clock, clock), clock, 50) == [1000.0] * 50


def test_the_first_may_go_at_once() -> None:
    """A run of one send takes no longer because of its rate."""
    clock = Clock()
    Pace(0.001, clock, clock).wait()
    assert clock.now == 1000.0


@given(st.floats(0.01, 1000), st.integers(2, 60))
def test_sends_are_evenly_spaced(rate: float, count: int) -> None:
    """No two sends are closer than the rate allows, and none is later than it has to be."""
    clock = Clock()
    moments = list_moments(Pace(rate, clock, clock), clock, count)
    assert all(abs(later - earlier - 1 / rate) < 1e-6 for earlier, later in pairwise(moments))


@given(st.lists(st.floats(0, 3), min_size=1, max_size=30))
def test_a_pause_is_not_made_up_for(pauses: list[float]) -> None:
    """After a slow send the next ones don't come in a burst: no second has more sends than the rate."""
    clock = Clock()
    pace = Pace(1.0, clock, clock)
    moments = []
    for pause in pauses:
        pace.wait()
        moments.append(clock.now)
        clock.now += pause
    assert all(later - earlier > 1 - 1e-6 for earlier, later in pairwise(moments))


def test_a_stopped_run_waits_no_more() -> None:
    """Stopping ends every wait at once, however slow the rate."""
    stop = threading.Event()
    stop.set()
    pace = Pace(0.0001, lambda: 1000.0, stop)
    for _ in range(5):
        pace.wait()


def test_threads_share_one_rate() -> None:
    """Threads that ask at once get moments of their own."""
    waits: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            return False

    pace = Pace(10.0, lambda: 1000.0, Stop())
    threads = [threading.Thread(target=pace.wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The first one doesn't wait at all.
    assert [round(wait, 6) for wait in sorted(waits)] == [round(number / 10, 6) for number in range(1, 20)]
