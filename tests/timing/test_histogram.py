"""When deferred people are due."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime

from runner.timing.decision import DueHour, count_due


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_people_are_counted_by_their_own_clocks() -> None:
    """Nine in New York and nine in Los Angeles are the same hour, three hours apart."""
    due = [
        (utc("2026-12-01T14:00"), "America/New_York"),
        (utc("2026-12-01T17:59"), "America/Los_Angeles"),
        (utc("2026-12-01T18:00"), "America/Los_Angeles"),
        (utc("2026-12-02T03:30"), "Asia/Kolkata"),
    ]
    assert count_due(due) == (
        DueHour(date(2026, 12, 1), 9, 2),
        DueHour(date(2026, 12, 1), 10, 1),
        DueHour(date(2026, 12, 2), 9, 1),
    )


def test_counts_may_be_handed_over_added_up() -> None:
    """A million people in one place are one entry."""
    shared = Counter({(utc("2026-12-01T14:00"), "America/New_York"): 1_000_000})
    assert count_due(shared) == (DueHour(date(2026, 12, 1), 9, 1_000_000),)
    assert count_due(dict(shared)) == count_due(shared)


def test_nobody_due_is_no_hour() -> None:
    """Hours in which nobody is due are not there."""
    assert count_due([]) == ()
