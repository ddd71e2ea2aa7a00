"""Now, later, or never: what the planner asks for every recipient."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.timing.decision import Decision, Defer, Refuse, SendNow, Timekeeper
from runner.timing.legal_hours import find_places, load_law
from runner.timing.schedule import Schedule, read_schedule
from runner.timing.zone import find_zones

NEW_YORK, FLORIDA, PANHANDLE, CALIFORNIA = "+12125550101", "+13055550101", "+18505550101", "+14155550101"
NOWHERE = "+870301234567"
LAW = load_law()


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def schedule(**written: object) -> Schedule:
    found = read_schedule(written)
    assert isinstance(found, Schedule)
    return found


DAYTIME = schedule(send_between=["09:00", "20:00"])


def decide(phone: str, moment: str, plan: Schedule = DAYTIME, zone: str | None = None) -> Decision:
    return Timekeeper(plan, law=LAW).decide(phone, zone, utc(moment))


def test_inside_the_window_it_is_now_and_says_how_long() -> None:
    """A run that lasts knows when it has to ask again."""
    assert decide(NEW_YORK, "2026-12-01T15:00") == SendNow(utc("2026-12-02T01:00"))


def test_outside_it_waits_for_its_own_morning() -> None:
    """New York may be texted while California still sleeps."""
    assert isinstance(decide(NEW_YORK, "2026-12-01T15:00"), SendNow)
    waiting = decide(CALIFORNIA, "2026-12-01T15:30")
    assert isinstance(waiting, Defer)
    assert waiting.until == utc("2026-12-01T17:00")
    assert waiting.zones == ("America/Los_Angeles",)
    assert waiting.due == (waiting.until, "America/Los_Angeles")
    assert [reason.rule for reason in waiting.reasons] == [
        "outside `send_between` on their own clocks",
        "outside the legal hours of their place: 47 CFR 64.1200(c)(1)",
    ]


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"send_between": ["09:00", "20:00"]}, "`send_between`"),
        ({"days": ["wed"]}, "`days`"),
        ({"send_between": ["09:00", "20:00"], "days": ["wed"]}, "`send_between` and `days`"),
    ],
)
def test_only_the_keys_that_the_campaign_has_are_named(keys: dict[str, object], named: str) -> None:
    """Nobody looks for a key that is not there."""
    waiting = Timekeeper(schedule(**keys)).decide(NEW_YORK, None, utc("2026-12-01T12:30"))
    assert isinstance(waiting, Defer)
    assert [reason.rule for reason in waiting.reasons] == [f"outside {named} on their own clocks"]


def test_a_law_defers_with_its_citation() -> None:
    """At 20:30 in Florida, no campaign's own hours help."""
    waiting = decide(FLORIDA, "2026-12-02T01:30", Schedule())
    assert isinstance(waiting, Defer)
    assert waiting.until == utc("2026-12-02T13:00")
    assert [reason.citation for reason in waiting.reasons] == ["Fla. Stat. § 501.616(6)(a)"]
    assert isinstance(Timekeeper(Schedule()).decide(FLORIDA, None, utc("2026-12-02T01:30")), SendNow)


def test_a_number_of_two_zones_waits_for_both() -> None:
    """Florida's panhandle is an hour behind the rest: eight in both, before twenty in both."""
    assert isinstance(decide(PANHANDLE, "2026-12-01T13:30", Schedule()), Defer)
    assert decide(PANHANDLE, "2026-12-01T14:00", Schedule()) == SendNow(utc("2026-12-02T01:00"))


def test_the_recipient_s_own_zone_goes_before_the_number_s() -> None:
    """Who has moved to Paris is texted by day there; the law stays that of the number."""
    waiting = decide(FLORIDA, "2026-12-01T20:00", zone="Europe/Paris")
    assert isinstance(waiting, Defer)
    assert waiting.until == utc("2026-12-02T08:00")
    assert waiting.zones == ("Europe/Paris",)
    assert "Fla. Stat. § 501.616(6)(a)" in {reason.citation for reason in waiting.reasons}


def test_an_unknown_zone_is_refused_or_the_campaign_s() -> None:
    """As `policy.timezone_unknown` says; without a campaign zone there is nothing to take."""
    plan = schedule(timezone="America/New_York", send_between=["09:00", "20:00"])
    moment = utc("2026-12-01T15:00")
    refused = Timekeeper(plan).decide(NOWHERE, None, moment)
    assert isinstance(refused, Refuse)
    assert refused.kind == "timezone_unknown"
    taken = Timekeeper(plan, timezone_unknown="campaign")
    assert taken.decide(NOWHERE, None, moment) == SendNow(utc("2026-12-02T01:00"))
    zoneless = Timekeeper(DAYTIME, timezone_unknown="campaign").decide(NOWHERE, None, moment)
    assert isinstance(zoneless, Refuse)


def test_zones_that_never_meet_are_refused_or_the_campaign_s() -> None:
    """A toll-free number may be on Guam or in Newfoundland: no office hour is one in both."""
    plan = schedule(timezone="America/New_York", send_between=["10:00", "16:00"])
    moment = utc("2026-12-01T16:00")
    refused = Timekeeper(plan).decide("+18005550101", None, moment)
    assert isinstance(refused, Refuse)
    assert refused.kind == "never_open"
    taken = Timekeeper(plan, timezone_unknown="campaign").decide("+18005550101", None, moment)
    assert taken == SendNow(utc("2026-12-01T21:00"))


def test_hours_that_the_law_forbids_are_refused() -> None:
    """A campaign for the small hours reaches nobody in a place that has quiet ones."""
    refused = decide(FLORIDA, "2026-12-01T15:00", schedule(send_between=["03:00", "05:00"]))
    assert isinstance(refused, Refuse)
    assert refused.kind == "never_open"
    assert "`send_between`" in refused.hint


def test_not_before_is_waited_for() -> None:
    """And the first allowed moment after it is when it is due."""
    plan = schedule(
        timezone="America/New_York", not_before="2026-12-01T09:00", send_between=["09:00", "20:00"]
    )
    waiting = decide(CALIFORNIA, "2026-11-30T20:00", plan)
    assert isinstance(waiting, Defer)
    assert waiting.until == utc("2026-12-01T17:00")
    assert [reason.rule for reason in waiting.reasons] == ["`not_before` is still to come"]


def test_nothing_is_sent_from_expires_on() -> None:
    """Not at that moment, and nobody waits for a morning that comes after it."""
    plan = schedule(timezone="America/New_York", expires="2026-12-01T18:00", send_between=["09:00", "20:00"])
    assert decide(NEW_YORK, "2026-12-01T22:59", plan) == SendNow(utc("2026-12-01T23:00"))
    for moment in ("2026-12-01T23:00", "2026-12-02T15:00"):
        found = decide(NEW_YORK, moment, plan)
        assert isinstance(found, Refuse)
        assert found.kind == "expired"
    evening = schedule(
        timezone="America/New_York", expires="2026-12-02T08:30", send_between=["09:00", "20:00"]
    )
    found = decide(NEW_YORK, "2026-12-02T02:00", evening)
    assert isinstance(found, Refuse)
    assert found.kind == "expired"


def test_a_run_past_the_window_s_end_is_told_so() -> None:
    """The same keeper, a second later: what it remembers ends with the window."""
    keeper = Timekeeper(DAYTIME, law=LAW)
    assert isinstance(keeper.decide(NEW_YORK, None, utc("2026-12-02T00:59:59")), SendNow)
    assert isinstance(keeper.decide(NEW_YORK, None, utc("2026-12-02T01:00:00")), Defer)
    assert isinstance(keeper.decide(NEW_YORK, None, utc("2026-12-02T14:00:00")), SendNow)
    # A clock that was set back.
    assert isinstance(keeper.decide(NEW_YORK, None, utc("2026-12-02T13:00:00")), Defer)


def test_a_local_moment_in_a_repeated_hour_is_no_other_one() -> None:
    """Asked in a zone whose clocks go back, by the same wall time an hour later, the keeper answers anew."""
    keeper = Timekeeper(schedule(send_between=["05:30", "24:00"]))
    first = datetime(2026, 11, 1, 1, 0, tzinfo=ZoneInfo("America/New_York"))
    second = first.replace(fold=1)
    # In London it is 05:00, then 06:00.
    assert isinstance(keeper.decide("+447911123456", None, first), Defer)
    assert isinstance(keeper.decide("+447911123456", None, second), SendNow)
    assert isinstance(keeper.decide("+447911123456", None, first), Defer)


def test_voice_has_hours_that_texts_have_not() -> None:
    """French law keeps calls out of the lunch hour; texts it leaves alone."""
    noon = utc("2026-12-01T12:30")
    texted = Timekeeper(Schedule(), law=LAW, no_rule="schedule")
    assert isinstance(texted.decide("+33612345678", None, noon), SendNow)
    called = Timekeeper(Schedule(), law=LAW, method="VOICE").decide("+33612345678", None, noon)
    assert isinstance(called, Defer)
    assert called.until == utc("2026-12-01T13:00")


PHONES = st.sampled_from(
    [
        *(NEW_YORK, FLORIDA, PANHANDLE, CALIFORNIA, "+12085550101", "+14015550101", "+18005550101"),
        *("+79161234567", "+61412345678", "+447911123456", "+27821234567"),
    ]
)
MOMENTS = st.datetimes(
    datetime(2026, 1, 1),  # noqa: DTZ001 - hypothesis wants it without a zone, and adds one
    datetime(2027, 6, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
PLANS = st.builds(
    lambda start, hours, days: schedule(
        send_between=[f"{start:02d}:00", f"{min(start + hours, 24):02d}:00"], days=sorted(days)
    ),
    st.integers(6, 18),
    st.integers(2, 12),
    st.sets(st.sampled_from(["mon", "tue", "wed", "thu", "fri", "sat", "sun"]), min_size=1),
)


@settings(max_examples=50, deadline=None)
@given(PLANS, PHONES, MOMENTS, st.lists(st.integers(0, 10_000), max_size=4))
def test_nobody_is_texted_outside_hours_in_any_zone_they_may_be_in(
    plan: Schedule, phone: str, moment: datetime, steps: list[int]
) -> None:
    """Whatever was asked before: now, to the last moment of it, and whenever it is due, all hours are open."""
    keeper = Timekeeper(plan, law=LAW)
    windows = [plan.window, *(rule.window for rule in LAW.rules_of(find_places(phone), "SMS", "marketing"))]
    for minutes in (0, *steps):
        moment += timedelta(minutes=minutes)
        found = keeper.decide(phone, None, moment)
        if isinstance(found, Refuse):
            continue
        allowed = [found.until] if isinstance(found, Defer) else [moment, found.until - timedelta(seconds=1)]
        for zone in find_zones(phone):
            assert all(w.contains(at.astimezone(ZoneInfo(zone))) for w in windows for at in allowed)
        if isinstance(found, Defer):
            assert found.reasons
            assert found.until > moment
            assert isinstance(Timekeeper(plan, law=LAW).decide(phone, None, found.until), SendNow)
