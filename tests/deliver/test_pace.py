"""A rate is kept on a clock of its own: no time passes in these tests."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.delivery.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock(threading.Event):
    """A clock that stands still until somebody waits; then it is as late as they wanted, and `overshoot`."""

    def __init__(self, overshoot: float = 0.0) -> None:
        super().__init__()
        self.now = 1000.0
        self.overshoot = overshoot
        self.on_wait: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if not self.is_set():
            self.now += timeout + self.overshoot
            self.on_wait()
        return self.is_set()


def goes_on() -> bool:
    """Say that the run is not over."""
    return False


def list_moments(pace: Pace, clock: Clock, count: int) -> list[float]:
    moments = []
    for _ in range(count):
        pace.wait(goes_on)
        moments.append(clock.now)
    return moments


def test_without_a_rate_nobody_waits() -> None:
    """No limit means no waiting at all."""
    clock = Clock()
    assert list_moments(Pace(None, clock, clock), clock, 50) == [1000.0] * 50


def test_the_first_may_go_at_once() -> None:
    """A run of one send takes no longer because of its rate."""
    clock = Clock()
    Pace(0.001, clock, clock).wait(goes_on)
    assert clock.now == 1000.0


@given(st.floats(0.01, 1000), st.integers(2, 60))
def test_sends_are_evenly_spaced(rate: float, count: int) -> None:
    """No two sends are closer than the rate allows, and none is later than it has to be."""
    clock = Clock()
    moments = list_moments(Pace(rate, clock, clock), clock, count)
    assert all(abs(later - earlier - 1 / rate) < 1e-6 for earlier, later in pairwise(moments))


def test_waking_late_costs_no_rate() -> None:
    """A machine that wakes its threads a little late keeps the rate all the same."""
    clock = Clock(overshoot=0.03)
    moments = list_moments(Pace(10, clock, clock), clock, 101)
    assert moments[-1] - moments[0] == pytest.approx(10, abs=0.05)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=30))
def test_a_slow_send_is_not_made_up_for(pauses: list[float]) -> None:
    """After a slow send the next ones don't come in a burst: no second has more sends than the rate."""
    clock = Clock()
    pace = Pace(1.0, clock, clock)
    moments = []
    for pause in pauses:
        pace.wait(goes_on)
        moments.append(clock.now)
        clock.now += pause
    assert all(later - earlier > 1 - 1e-6 for earlier, later in pairwise(moments))


def test_a_machine_that_slept_sends_no_burst() -> None:
    """A thread that wakes an hour late sends, and the next one an interval after it."""
    clock = Clock()
    pace = Pace(1.0, clock, clock)
    pace.wait(goes_on)
    clock.overshoot = 3600.0
    pace.wait(goes_on)
    clock.overshoot = 0.0
    late = clock.now
    assert list_moments(pace, clock, 2) == [pytest.approx(late + 1), pytest.approx(late + 2)]


@pytest.mark.parametrize("rate", [None, 4.0])
def test_a_pause_holds_everybody(rate: float | None) -> None:
    """Nobody sends while the service wants to be left alone; the rate holds from the pause's end on."""
    clock = Clock()
    pace = Pace(rate, clock, clock)
    pace.wait(goes_on)
    pace.pause(60.0)
    pace.pause(10.0)
    step = 1 / rate if rate else 0.0
    assert list_moments(pace, clock, 3) == pytest.approx([1060.0 + step * number for number in range(3)])


def test_a_pause_reaches_who_waits_already() -> None:
    """A thread that waits for its turn when the pause begins waits for its end too."""
    clock = Clock()
    pace = Pace(0.5, clock, clock)
    pace.wait(goes_on)

    def pause_once() -> None:
        clock.on_wait = lambda: None
        pace.pause(30.0)

    clock.on_wait = pause_once
    pace.wait(goes_on)
    assert clock.now == pytest.approx(1030.25)


def test_another_rate_holds_from_the_next_send_on() -> None:
    """Campaigns with rates of their own share a pace, so that none of them starts with a burst."""
    clock = Clock()
    pace = Pace(1.0, clock, clock)
    pace.wait(goes_on)
    pace.set_rate(10.0)
    assert list_moments(pace, clock, 3) == pytest.approx([1001.0, 1001.1, 1001.2])


def test_a_stopped_run_waits_no_more() -> None:
    """Stopping ends every wait at once, however slow the rate and however long the pause."""
    stop = threading.Event()
    stop.set()
    pace = Pace(0.0001, lambda: 1000.0, stop)
    pace.pause(10.0)
    for _ in range(5):
        pace.wait(goes_on)
        pace.rest(1e9, goes_on)


def test_a_run_that_is_over_waits_no_more() -> None:
    """A wait ends soon when the run has ended for a reason that is not the user's."""
    clock = Clock()
    pace = Pace(None, clock, clock)
    pace.pause(1e12)
    pace.wait(lambda: clock.now > 1001.0)
    pace.rest(1e12, lambda: clock.now > 1002.0)
    assert clock.now < 1003.0


def test_resting_is_one_threads_own() -> None:
    """Who rests lets the others send."""
    clock = Clock()
    pace = Pace(None, clock, clock)
    pace.rest(7.5, goes_on)
    assert clock.now == pytest.approx(1007.5)
    assert list_moments(pace, clock, 2) == [clock.now] * 2


def test_threads_share_one_rate() -> None:
    """Threads that ask at once get moments of their own."""
    clock = Clock()
    pace = Pace(10.0, clock, clock)
    lock, moments = threading.Lock(), []

    def send() -> None:
        pace.wait(goes_on)
        with lock:
            moments.append(clock.now)

    threads = [threading.Thread(target=send) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The clock moves for those who wait alone: 20 sends take 19 intervals, whoever was first.
    assert clock.now == pytest.approx(1001.9)
    assert len(moments) == 20
