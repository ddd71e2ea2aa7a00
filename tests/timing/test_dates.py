"""Dates in cells: how they are read, and when a message that goes by one is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.source.diagnostic import CellProblem
from runner.timing.dates import CellTime, DatedText, read_time
from runner.timing.decision import Decision, Defer, Refuse, SendNow, Timekeeper
from runner.timing.schedule import DateRule, Schedule
from runner.timing.window import LocalWindow, make_window

NEW_YORK, KATHMANDU = "America/New_York", "Asia/Kathmandu"
PHONE = "+12125550123"
NO_ZONE = "+870773111632"
"""A satellite telephone, which may be anywhere."""
TWO_ZONES = "+18505550123"
"""Florida's west: Eastern or Central."""
HOURS = Schedule(window=make_window((9 * 60, 20 * 60), range(6)))
"""From nine to eight, but on Sundays."""
DAY_BEFORE = DateRule(before=timedelta(hours=24))


def read(written: str) -> CellTime:
    """Return the time in a cell, which must be one."""
    found = read_time(written)
    assert isinstance(found, CellTime), found
    return found


def at(written: str) -> datetime:
    """Return a moment on New York's clocks."""
    return datetime.fromisoformat(written).replace(tzinfo=ZoneInfo(NEW_YORK)).astimezone(UTC)


def decide(
    cell: str,
    now: datetime,
    rule: DateRule = DAY_BEFORE,
    schedule: Schedule = HOURS,
    *,
    phone: str = PHONE,
    zone: str | None = NEW_YORK,
) -> Decision:
    """Return the decision on a recipient's text."""
    return DatedText(Timekeeper(schedule), rule, read(cell), phone, zone, None).decide(now)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("2026-12-24T10:00", "2026-12-24T10:00"),
        (" 2026-12-24 10:00:00 ", "2026-12-24T10:00"),
        ("2026-12-24t10:00:30.0", "2026-12-24T10:00"),
        ("2026-12-24", "2026-12-24T00:00"),
        ("2026-12-24T10:00Z", "2026-12-24T10:00Z"),
        ("2026-12-24T10:00 +01:00", "2026-12-24T09:00Z"),
        ("2026-12-24T10:00-0530", "2026-12-24T15:30Z"),
    ],
)
def test_a_time_has_one_form(written: str, canonical: str) -> None:
    """ISO 8601 with its variants is read; the canonical form does not depend on the writing."""
    assert read(written).canonical == canonical


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("03/04/2026", "write 2026-04-03 or 2026-03-04"),
        ("03/04/2026 9:05 PM", "write 2026-04-03T21:05 or 2026-03-04T21:05"),
        ("03/03/2026", "write 2026-03-03"),
        ("24.12.2026 10:00", "write 2026-12-24T10:00"),
        ("2026/12/24 12:00 AM", "write 2026-12-24T00:00"),
        ("31/31/2026", "write year, month and day"),
        ("2026-02-29", "write year, month and day"),
        ("2026-12-24T24:30", "write year, month and day"),
        ("46380.41", "write year, month and day"),
        ("tomorrow", "write year, month and day"),
        ("0001-01-01", "leave the cell blank"),
    ],
)
def test_other_forms_are_refused_with_what_they_may_mean(written: str, hint: str) -> None:
    """What is no ISO 8601 date is not guessed: the hint says what to write."""
    found = read_time(written)
    assert isinstance(found, CellProblem)
    assert found.hint.startswith(hint)


@given(st.datetimes(datetime(1900, 1, 1), datetime(9989, 12, 31)), st.sampled_from([NEW_YORK, KATHMANDU]))  # noqa: DTZ001
def test_forms_with_and_without_an_offset_meet(wall: datetime, zone: str) -> None:
    """Whoever was texted for a time on their clocks has it, too, when the cell has the offset, and back."""
    local = CellTime(wall.replace(second=0, microsecond=0))
    for moment in local.find_moments(zone):
        aware = CellTime(moment)
        assert aware.canonical in local.list_forms([zone])
        if moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == local.time:
            assert local.canonical in aware.list_forms([zone])
    assert read(local.canonical) == local


def test_clocks_that_skip_an_hour_make_it_two_moments() -> None:
    """2:30 on the second Sunday of March does not exist: the earlier moment counts before, the later after."""
    always = Schedule()
    found = decide("2027-03-14T02:30", at("2027-03-01T12:00"), schedule=always)
    assert isinstance(found, Defer)
    assert found.until == datetime(2027, 3, 13, 6, 30, tzinfo=UTC)
    assert any("clocks skip or repeat the hour" in remark for remark in found.remarks)
    after = decide("2027-03-14T02:30", at("2027-03-01T12:00"), DateRule(after=timedelta()), always)
    assert isinstance(after, Defer)
    assert after.until == datetime(2027, 3, 14, 7, 30, tzinfo=UTC)


def test_clocks_that_repeat_an_hour_make_it_two_moments() -> None:
    """1:30 on the first Sunday of November comes twice."""
    always = Schedule()
    found = decide("2027-11-07T01:30", at("2027-11-01T12:00"), schedule=always)
    assert isinstance(found, Defer)
    assert found.until == datetime(2027, 11, 6, 5, 30, tzinfo=UTC)
    after = decide("2027-11-07T01:30", at("2027-11-01T12:00"), DateRule(after=timedelta()), always)
    assert isinstance(after, Defer)
    assert after.until == datetime(2027, 11, 7, 6, 30, tzinfo=UTC)


def test_a_day_before_is_24_hours_also_when_clocks_change() -> None:
    """`24h` before ten on the Sunday of the change is nine on Saturday."""
    found = decide("2027-03-14T10:00", at("2027-03-01T12:00"), schedule=Schedule())
    assert isinstance(found, Defer)
    assert found.until == at("2027-03-13T09:00")


def test_a_number_in_several_zones_goes_by_the_careful_moment() -> None:
    """Before a date the earliest counts, after it the latest; an offset in the cell leaves no doubt."""
    found = decide("2027-02-03T15:00", at("2027-02-01T12:00"), phone=TWO_ZONES, zone=None)
    assert isinstance(found, Defer)
    assert found.until == at("2027-02-02T15:00")
    assert any("several time zones" in remark for remark in found.remarks)
    rule = DateRule(after=timedelta(hours=1))
    after = decide("2027-02-03T15:00", at("2027-02-01T12:00"), rule, phone=TWO_ZONES, zone=None)
    assert isinstance(after, Defer)
    assert after.until == at("2027-02-03T17:00")


def test_a_number_without_a_zone_needs_an_offset() -> None:
    """Where clocks are not known, a time on them is none; one with an offset is."""
    always, now = Schedule(), at("2027-02-01T12:00")
    found = decide("2027-02-03T15:00", now, schedule=always, phone=NO_ZONE, zone=None)
    assert isinstance(found, Refuse)
    assert found.kind == "timezone_unknown"
    found = decide("2027-02-03T15:00Z", now, schedule=always, phone=NO_ZONE, zone=None)
    assert isinstance(found, Defer)
    assert found.until == datetime(2027, 2, 2, 15, tzinfo=UTC)


def test_outside_the_hours_a_reminder_goes_earlier() -> None:
    """For Monday at ten, whose day before is a Sunday: in Saturday's last two hours, or on Monday from nine on."""
    cell = "2027-02-08T10:00"
    found = decide(cell, at("2027-02-05T12:00"))
    assert isinstance(found, Defer)
    assert found.until == at("2027-02-06T18:00")
    assert decide(cell, at("2027-02-06T18:30")) == SendNow(at("2027-02-06T20:00"))
    late = decide(cell, at("2027-02-06T20:00"))
    assert isinstance(late, Defer)
    assert late.until == at("2027-02-08T09:00")
    assert decide(cell, at("2027-02-08T09:30")) == SendNow(at("2027-02-08T10:00"))
    over = decide(cell, at("2027-02-08T10:00"))
    assert isinstance(over, Refuse)
    assert over.kind == "missed"


def test_outside_the_hours_a_reminder_can_be_left_out() -> None:
    """With `outside_hours: skip` it is left out, whenever a run comes; one within the hours is sent."""
    rule = DateRule(before=timedelta(hours=24), outside_hours="skip")
    for now in ("2027-02-05T12:00", "2027-02-06T18:30", "2027-02-08T09:30"):
        found = decide("2027-02-08T10:00", at(now), rule)
        assert isinstance(found, Refuse)
        assert found.kind == "missed"
    assert isinstance(decide("2027-02-09T10:00", at("2027-02-08T10:30"), rule), SendNow)


def test_a_reminder_does_not_go_before_the_campaign_begins() -> None:
    """The last hours count within `not_before` and `expires` alone."""
    cell, now = "2027-02-08T10:00", at("2027-02-01T12:00")
    begun = Schedule(not_before=at("2027-02-06T19:00"), window=HOURS.window)
    found = decide(cell, now, schedule=begun)
    assert isinstance(found, Defer)
    assert found.until == at("2027-02-06T19:00")
    over = Schedule(expires=at("2027-02-06T18:00"), window=HOURS.window)
    found = decide(cell, now, schedule=over)
    assert isinstance(found, Refuse)
    assert found.kind == "expired"


def test_a_text_after_a_date_goes_until_it_is_too_late() -> None:
    """It waits for its time and the hours, and is missed later than `within` after it."""
    rule = DateRule(after=timedelta(hours=12), within=timedelta(days=2))
    cell = "2027-02-03T15:00"
    found = decide(cell, at("2027-02-03T16:00"), rule)
    assert isinstance(found, Defer)
    assert found.until == at("2027-02-04T09:00")
    assert decide(cell, at("2027-02-05T19:30"), rule) == SendNow(at("2027-02-05T20:00"))
    missed = decide(cell, at("2027-02-05T21:00"), rule)
    assert isinstance(missed, Refuse)
    assert missed.kind == "missed"


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2028, 12, 31)),  # noqa: DTZ001
    st.integers(1, 20 * 24),
    st.integers(0, 21 * 24),
)
def test_nothing_is_sent_outside_its_time(wall: datetime, before_h: int, early_h: int) -> None:
    """A text is sent within the hours, not before its earliest moment, and before the date."""
    time, rule, keeper = CellTime(wall), DateRule(before=timedelta(hours=before_h)), Timekeeper(HOURS)
    date = time.find_moments(NEW_YORK)[0]
    now = date - timedelta(hours=early_h)
    text = DatedText(keeper, rule, time, PHONE, NEW_YORK, None)
    earliest = text.find_earliest()
    assert earliest is not None
    found = text.decide(now)
    if isinstance(found, SendNow):
        assert earliest <= now < found.until <= date
        assert LocalWindow(HOURS.window, NEW_YORK).is_open(now)
    elif isinstance(found, Defer):
        assert max(earliest, now) <= found.until < date
        again = text.decide(found.until)
        assert isinstance(again, SendNow)
    else:
        assert found.kind == "missed"
