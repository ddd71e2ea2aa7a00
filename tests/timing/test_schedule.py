"""What a `schedule` says, and what is wrong with it."""

from __future__ import annotations

from datetime import UTC, datetime

from runner.timing.schedule import Schedule, read_schedule

DESIGN = {
    "not_before": "2026-12-01T09:00",
    "expires": "2026-12-05T18:00",
    "timezone": "America/New_York",
    "send_between": ["09:00", "20:00"],
    "days": ["mon", "tue", "wed", "thu", "fri"],
}


def test_the_design_s_schedule_is_read() -> None:
    """Moments are of the campaign's zone, the window has its days."""
    schedule = read_schedule(DESIGN)
    assert isinstance(schedule, Schedule)
    assert schedule.not_before == datetime(2026, 12, 1, 14, tzinfo=UTC)
    assert schedule.expires == datetime(2026, 12, 5, 23, tzinfo=UTC)
    assert schedule.timezone == "America/New_York"
    assert schedule.window.days == (((540, 1200),),) * 5 + ((), ())


def test_of_a_time_that_comes_twice_the_careful_one_is_meant() -> None:
    """Clocks go back at two: `not_before` is the second 01:30, `expires` the first."""
    zone = {"timezone": "America/New_York"}
    late = read_schedule({**zone, "not_before": "2026-11-01T01:30"})
    early = read_schedule({**zone, "expires": "2026-11-01T01:30"})
    assert isinstance(late, Schedule)
    assert isinstance(early, Schedule)
    assert late.not_before == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
    assert early.expires == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
