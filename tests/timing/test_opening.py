"""Openings on the time line, around changes of clocks, midnights, and several zones at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.timing.window import (
    WHOLE_WEEK,
    Calendar,
    LocalWindow,
    WeeklyWindow,
    find_openings,
    intersect,
    make_window,
    parse_clock,
)
from runner.timing.zone import load_zone

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


A_WINDOW_OPENS_BY_THE_CLOCKS_ON_THE_WALL: list[tuple[WeeklyWindow, str, str, str]] = [
    # At eight it is open, at twenty no longer.
    (span("08:00", "20:00"), NEW_YORK, "2026-12-01T13:00", "2026-12-01T13:00:00"),
    (span("08:00", "20:00"), NEW_YORK, "2026-12-02T00:59:59", "2026-12-02T00:59:59"),
    (span("08:00", "20:00"), NEW_YORK, "2026-12-02T01:00", "2026-12-02T13:00:00"),
    # The same wall time, an hour of UTC apart, on either side of 8 March 2026.
    (span("08:00", "20:00"), NEW_YORK, "2026-03-08T02:00", "2026-03-08T12:00:00"),
    (span("08:00", "20:00"), NEW_YORK, "2026-03-07T02:00", "2026-03-07T13:00:00"),
    # It opens at a time that clocks skip: as soon as they have.
    (span("02:30", "04:00"), NEW_YORK, "2026-03-08T06:00", "2026-03-08T07:00:00"),
    # All of it is skipped: the next day.
    (span("02:10", "02:50"), NEW_YORK, "2026-03-08T06:00", "2026-03-09T06:10:00"),
    # It opens at a time that comes twice: the first, and again when clocks go back into it.
    (span("01:30", "01:45"), NEW_YORK, "2026-11-01T05:00", "2026-11-01T05:30:00"),
    (span("01:30", "01:45"), NEW_YORK, "2026-11-01T05:45", "2026-11-01T06:30:00"),
    # Half an hour, on Lord Howe Island.
    (span("02:00", "02:15"), LORD_HOWE, "2026-10-03T15:00", "2026-10-04T15:00:00"),
    # Clocks that skip midnight.
    (span("00:00", "00:30"), SANTIAGO, "2026-09-06T02:00", "2026-09-07T03:00:00"),
    (span("00:00", "02:00"), SANTIAGO, "2026-09-06T02:00", "2026-09-06T04:00:00"),
    # A whole day that was skipped: Samoa's Friday, 30 December 2011.
    (span("09:00", "20:00", (4,)), APIA, "2011-12-29T00:00", "2012-01-05T19:00:00"),
    # Friday evening to Monday; the local day counts.
    (span("09:00", "20:00", (0, 1, 2, 3, 4)), NEW_YORK, "2026-12-05T00:30", "2026-12-05T00:30:00"),
    (span("09:00", "20:00", (0, 1, 2, 3, 4)), NEW_YORK, "2026-12-05T01:00", "2026-12-07T14:00:00"),
    (WHOLE_WEEK, NEW_YORK, "2026-03-08T07:00", "2026-03-08T07:00:00"),
    (span("00:00", "24:00", (6,)), NEW_YORK, "2026-12-05T12:00", "2026-12-06T05:00:00"),
]


def test_a_window_opens_by_the_clocks_on_the_wall() -> None:
    """The first open second from a moment on, where clocks change, around midnight, and over days."""
    for window, zone, moment, expected in A_WINDOW_OPENS_BY_THE_CLOCKS_ON_THE_WALL:
        assert open_next(window, moment, zone) == expected


@pytest.mark.slow
def test_a_frozen_clock_changes_no_opening() -> None:
    """Openings are the same under a frozen clock, whose moments do not know which of two equal times they are."""
    with freeze_time(utc("2031-11-02T05:00"), real_asyncio=True):
        assert open_next(span("01:30", "01:45"), "2031-11-02T05:45", NEW_YORK) == "2031-11-02T06:30:00"


def test_adjacent_days_are_one_opening() -> None:
    """A window that is open all weekend is open over the midnight between, and an hour longer in November."""
    start, end = (int(utc(text).timestamp()) for text in ("2026-10-30", "2026-11-04"))
    ((opens, closes),) = find_openings(span("00:00", "24:00", (5, 6)), NEW_YORK, start, end)
    assert closes - opens == 49 * 3600


def test_several_zones_have_to_be_open_at_once() -> None:
    """A number that may be on either coast is texted when it is allowed on both."""
    both = (NEW_YORK, LOS_ANGELES)
    assert open_next(span("09:00", "20:00"), "2026-12-01T15:00", *both) == "2026-12-01T17:00:00"
    assert open_next(span("09:00", "20:00"), "2026-12-02T01:00", *both) == "2026-12-02T17:00:00"


def test_zones_without_a_common_hour_never_open() -> None:
    """Office hours of New York and Kolkata never meet, and that is the answer."""
    assert open_next(span("10:00", "17:00"), "2026-12-01T00:00", NEW_YORK, KOLKATA) is None


def test_an_opening_that_comes_once_in_a_season_is_found() -> None:
    """Zones that only meet while one of them has winter time are waited for."""
    window = span("09:00", "13:00")
    # London is four hours ahead of New York for some weeks a year, else five: they never meet at five.
    found = open_next(span("09:00", "13:30"), "2026-06-01T00:00", NEW_YORK, "Europe/London")
    assert found == "2026-10-25T13:00:00"
    assert open_next(window, "2026-06-01T00:00", NEW_YORK, "Europe/London") is None


def test_what_was_worked_out_does_not_outlive_itself() -> None:
    """A calendar that is asked again a year later, at the end of what it knows, still finds the next opening."""
    calendar = Calendar(tuple(LocalWindow(span("09:00", "13:30"), z) for z in (NEW_YORK, "Europe/London")))
    for moment, opens in (
        ("2026-06-01", "2026-10-25"),
        ("2027-05-30", "2027-10-31"),
        ("2026-06-01", "2026-10-25"),
    ):
        found = calendar.find_opening(utc(f"{moment}T00:00"))
        assert found is not None
        assert found[0] == utc(f"{opens}T13:00")


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
    return all(window.contains(moment.astimezone(load_zone(zone))) for zone in zones)


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
