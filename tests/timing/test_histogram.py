"""When deferred people are due."""

from __future__ import annotations

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
