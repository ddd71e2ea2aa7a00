"""What a `schedule` says, and what is wrong with it."""

from __future__ import annotations

from datetime import UTC, datetime

from runner.timing.schedule import Schedule, ScheduleProblem, read_schedule
from runner.timing.window import WHOLE_WEEK

DESIGN = {
    "not_before": "2026-12-01T09:00",
    "expires": "2026-12-05T18:00",
    "timezone": "America/New_York",
    "send_between": ["09:00", "20:00"],
    "days": ["mon", "tue", "wed", "thu", "fri"],
}


def problems_of(**written: object) -> list[tuple[str, str, str]]:
    found = read_schedule(written)
    assert isinstance(found, tuple)
    return [(problem.key, problem.reason, problem.hint) for problem in found]


def test_the_design_s_schedule_is_read() -> None:
    """Moments are of the campaign's zone, the window has its days."""
    schedule = read_schedule(DESIGN)
    assert isinstance(schedule, Schedule)
    assert schedule.not_before == datetime(2026, 12, 1, 14, tzinfo=UTC)
    assert schedule.expires == datetime(2026, 12, 5, 23, tzinfo=UTC)
    assert schedule.timezone == "America/New_York"
    assert schedule.window.days == (((540, 1200),),) * 5 + ((), ())


def test_what_is_not_said_limits_nothing() -> None:
    """Without keys, a campaign may send at any time; up to midnight is written 24:00."""
    assert read_schedule({}) == Schedule(window=WHOLE_WEEK)
    assert read_schedule({"send_between": ["00:00", "24:00"]}) == Schedule()


def test_of_a_time_that_comes_twice_the_careful_one_is_meant() -> None:
    """Clocks go back at two: `not_before` is the second 01:30, `expires` the first."""
    zone = {"timezone": "America/New_York"}
    late = read_schedule({**zone, "not_before": "2026-11-01T01:30"})
    early = read_schedule({**zone, "expires": "2026-11-01T01:30"})
    assert isinstance(late, Schedule)
    assert isinstance(early, Schedule)
    assert late.not_before == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
    assert early.expires == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)


A_MISTAKE_IS_TOLD_WITH_WHAT_TO_WRITE: list[tuple[dict[str, object], tuple[str, str, str]]] = [
    (
        {"timezone": "America/New_York", "not_before": "2026-03-08T02:30"},
        (
            "not_before",
            "clocks skip this time in America/New_York that day",
            "write an hour earlier or later",
        ),
    ),
    (
        {"timezone": "America/New_York", "expires": "2026-02-30T18:00"},
        (
            "expires",
            "it is no local date and time",
            "write it as in 2026-12-01T09:00, without an offset",
        ),
    ),
    (
        {**DESIGN, "expires": "2026-12-01T09:00"},
        ("expires", "it is not after `not_before`", "nobody would be texted: move one of them"),
    ),
    (
        {"send_between": ["21:00", "09:00"]},
        (
            "send_between",
            "it does not end after it starts",
            "no window goes past midnight: write the earlier time first",
        ),
    ),
    (
        {"timezone": "New York"},
        ("timezone", "there is no such time zone", "did you mean America/New_York?"),
    ),
]


def test_a_mistake_is_told_with_what_to_write() -> None:
    """Each comes alone, at its key."""
    for written, expected in A_MISTAKE_IS_TOLD_WITH_WHAT_TO_WRITE:
        assert problems_of(**written) == [expected]


def test_all_mistakes_are_told_at_once() -> None:
    """One reading finds what is wrong with every key."""
    found = read_schedule(
        {"timezone": "EST", "not_before": "2026-02-30T09:00", "send_between": ["20:00", "09:00"]}
    )
    assert isinstance(found, tuple)
    assert all(isinstance(problem, ScheduleProblem) for problem in found)
    assert [problem.key for problem in found] == ["timezone", "not_before", "send_between"]
