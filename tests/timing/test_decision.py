"""Now, later, or never: what the planner asks for every recipient."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from runner.timing.decision import Decision, Defer, Refuse, SendNow, Timekeeper
from runner.timing.legal_hours import load_law
from runner.timing.schedule import Schedule, read_schedule

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
    assert [reason.citation for reason in waiting.reasons] == ["Fla. Stat. § 501.616(6)(a), (b)"]
    assert isinstance(Timekeeper(Schedule()).decide(FLORIDA, None, utc("2026-12-02T01:30")), SendNow)


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


def test_no_zone_replaces_those_of_a_number_whose_hours_are_kept() -> None:
    """Someone from California who lives by Tokyo's clock has no office hour, whatever the campaign's zone."""
    plan = schedule(timezone="America/New_York", send_between=["10:00", "16:00"])
    keeper = Timekeeper(plan, timezone_unknown="campaign", keeps_number=True)
    found = keeper.decide("+14155550101", "Asia/Tokyo", utc("2026-12-01T16:00"))
    assert isinstance(found, Refuse)
    assert found.kind == "never_open"
    assert "of the place that is given and of the number's" in found.reason


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


def test_a_local_moment_in_a_repeated_hour_is_no_other_one() -> None:
    """Asked in a zone whose clocks go back, by the same wall time an hour later, the keeper answers anew."""
    keeper = Timekeeper(schedule(send_between=["05:30", "24:00"]))
    first = datetime(2026, 11, 1, 1, 0, tzinfo=ZoneInfo("America/New_York"))
    second = first.replace(fold=1)
    # In London it is 05:00, then 06:00.
    assert isinstance(keeper.decide("+447911123456", None, first), Defer)
    assert isinstance(keeper.decide("+447911123456", None, second), SendNow)
    assert isinstance(keeper.decide("+447911123456", None, first), Defer)
