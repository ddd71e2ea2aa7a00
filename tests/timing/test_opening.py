"""Openings on the time line, around changes of clocks, midnights, and several zones at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.timing.window import (
    Calendar,
    LocalWindow,
    WeeklyWindow,
    intersect,
    make_window,
    parse_clock,
)

NEW_YORK, LOS_ANGELES, KOLKATA = "America/New_York", "America/Los_Angeles", "Asia/Kolkata"
LORD_HOWE, SANTIAGO, APIA = "Australia/Lord_Howe", "America/Santiago", "Pacific/Apia"
MINUTE = timedelta(minutes=1)


def span(start: str, end: str, days: tuple[int, ...] = tuple(range(7))) -> WeeklyWindow:
    first, last = parse_clock(start), parse_clock(end)
    assert first is not None
    assert last is not None
    return make_window((first, last), days)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def open_next(window: WeeklyWindow, moment: str, *zones: str) -> str | None:
    found = Calendar(tuple(LocalWindow(window, zone) for zone in zones)).find_opening(utc(moment))
    return None if found is None else f"{max(found[0], utc(moment)):%Y-%m-%dT%H:%M:%S}"


@pytest.mark.slow
def test_a_frozen_clock_changes_no_opening() -> None:
    """Openings are the same under a frozen clock, whose moments do not know which of two equal times they are."""
    with freeze_time(utc("2031-11-02T05:00"), real_asyncio=True):
        assert open_next(span("01:30", "01:45"), "2031-11-02T05:45", NEW_YORK) == "2031-11-02T06:30:00"


def test_zones_without_a_common_hour_never_open() -> None:
    """Office hours of New York and Kolkata never meet, and that is the answer."""
    assert open_next(span("10:00", "17:00"), "2026-12-01T00:00", NEW_YORK, KOLKATA) is None


ZONES = st.sampled_from(
    [
        NEW_YORK,
        LOS_ANGELES,
        KOLKATA,
        LORD_HOWE,
        SANTIAGO,
        "Europe/London",
        "Asia/Kathmandu",
        "Africa/Casablanca",
    ]
)
MOMENTS = st.datetimes(
    datetime(2026, 1, 1),  # noqa: DTZ001 - hypothesis wants it without a zone, and adds one
    datetime(2028, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
CHANGES = st.sampled_from(
    [utc("2026-03-08T07:00"), utc("2026-11-01T06:00"), utc("2026-10-03T15:30"), utc("2026-09-06T04:00")]
)
NEAR_CHANGES = st.builds(lambda change, minutes: change + minutes * MINUTE, CHANGES, st.integers(-2000, 2000))


@st.composite
def windows(draw: st.DrawFn) -> WeeklyWindow:
    start = draw(st.integers(0, 1439))
    end = draw(st.integers(start + 1, 1440))
    return make_window((start, end), draw(st.sets(st.integers(0, 6), min_size=1)))


def is_open(window: WeeklyWindow, zones: list[str], moment: datetime) -> bool:
    """The obvious way: look at every clock."""
    return all(LocalWindow(window, zone).is_open(moment) for zone in zones)


@settings(max_examples=60, deadline=None)
@given(windows(), st.lists(ZONES, min_size=1, max_size=3), MOMENTS | NEAR_CHANGES)
def test_an_opening_is_open_to_its_end(window: WeeklyWindow, zones: list[str], moment: datetime) -> None:
    """The interval is open in every zone, at its ends and every few minutes between."""
    found = Calendar(tuple(LocalWindow(window, zone) for zone in zones)).find_opening(moment)
    if found is None:
        return
    minute, end = max(found[0], moment), min(found[1], found[0] + timedelta(days=2))
    while minute < end:
        assert is_open(window, zones, minute)
        minute += 7 * MINUTE
    assert minute == found[0] or end <= found[0] or is_open(window, zones, end - MINUTE)


OPENINGS = st.lists(st.integers(0, 200), unique=True).map(
    lambda ends: tuple(zip(*[iter(sorted(ends))] * 2, strict=False))
)


@given(OPENINGS, OPENINGS)
def test_an_intersection_is_what_both_have(
    one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]
) -> None:
    """Second by second, it is the intersection of the sets; its intervals are in order and none is empty."""

    def seconds(openings: tuple[tuple[int, int], ...]) -> set[int]:
        return {second for start, end in openings for second in range(start, end)}

    both = intersect(one, other)
    assert seconds(both) == seconds(one) & seconds(other)
    ends = [end for interval in both for end in interval]
    assert ends == sorted(ends)
    assert all(start < end for start, end in both)
