"""Every rule of the data file, at its edges: hours, first and last day, holidays, zone, caps.

What is expected is read from the file itself, minute by minute, without the runner's reader.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

import phonenumbers
import pytest
from holidays import country_holidays

from runner.timing import legal_hours
from runner.timing.decision import Defer, Refuse, SendNow, Timekeeper
from runner.timing.legal_hours import LawBook, find_places, load_law, read_law
from runner.timing.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.timing.decision import Decision
    from runner.timing.legal_hours import Method

FOLDER = Path(legal_hours.__file__).parent
RULES: list[dict[str, Any]] = json.loads((FOLDER / "legal_hours.json").read_text("utf-8"))["rules"]
AREAS: dict[str, list[str]] = json.loads((FOLDER / "area_codes.json").read_text("utf-8"))["places"]
WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MONDAY = date(2026, 11, 30)
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
KENYA = "+254712345678"


def find_person(place: str) -> tuple[str, str]:
    """Return a mobile number of a place, and a time zone of it."""
    if place in AREAS or place == "US":
        code = AREAS["US-NY" if place == "US" else place][0]
        (zone, *_) = legal_hours.zones_of_place("US-NY" if place == "US" else place)
        return f"+1{code}5550101", zone
    number = phonenumbers.example_number_for_type(place, phonenumbers.PhoneNumberType.MOBILE)
    assert number is not None
    phone = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    return phone, legal_hours.zones_of_place(place)[0]


def is_open(rule: dict[str, Any], moment: datetime, zone: str) -> bool:
    """Return whether the file lets people of the rule's place be reached at a moment."""
    local = moment.astimezone(ZoneInfo(rule.get("zone", zone)))
    day = local.date()
    if rule["from"] is not None and f"{day}" < rule["from"]:
        return True
    if rule.get("until") is not None and f"{day}" > rule["until"]:
        return True
    if "holidays" in rule:
        named = rule["holidays"]
        if day in list_holidays(named["country"], named.get("state"), day.year, tuple(named["categories"])):
            return False
    return any(
        first <= f"{local:%H:%M}" < last for first, last in list_spans(rule["hours"], WEEK[day.weekday()])
    )


@cache
def list_holidays(country: str, state: str | None, year: int, kinds: tuple[str, ...]) -> frozenset[date]:
    return frozenset(country_holidays(country, subdiv=state, years=year, categories=kinds))


def list_spans(hours: dict[str, list[str]], weekday: str) -> Iterator[tuple[str, str]]:
    for days, spans in hours.items():
        first, _, last = days.partition("-")
        if WEEK.index(first) <= WEEK.index(weekday) <= WEEK.index(last or first):
            for span in spans:
                opens, closes = span.split("-")
                yield opens, closes


def list_days(rule: dict[str, Any]) -> list[date]:
    """Return a week in force, and the days around the rule's first and last day."""
    start = MONDAY
    if rule["from"] is not None:
        start = max(start, date.fromisoformat(rule["from"]))
    if rule.get("until") is not None:
        start = min(start, date.fromisoformat(rule["until"]) - 6 * DAY)
    edges = [date.fromisoformat(one) for one in (rule["from"], rule.get("until")) if one is not None]
    return [
        *(start + step * DAY for step in range(8)),
        *(day + step * DAY for day in edges for step in (-1, 0, 1)),
    ]


def list_moments(rule: dict[str, Any], zone: str) -> Iterator[datetime]:
    """Yield the minutes at and before each edge of the hours of some days, and midnight."""
    for day in list_days(rule):
        clocks = {"00:00", "12:00", "23:59"}
        for spans in rule["hours"].values():
            clocks |= {clock for span in spans for clock in span.split("-") if clock != "24:00"}
        for clock in sorted(clocks):
            local = datetime.combine(day, time.fromisoformat(clock), ZoneInfo(rule.get("zone", zone)))
            yield from (local.astimezone(UTC) - MINUTE, local.astimezone(UTC))


def decide(
    book: LawBook,
    phone: str,
    zone: str,
    moment: datetime,
    method: Method,
    purpose: Any,
    no_rule: Any = "schedule",
) -> Decision:
    keeper = Timekeeper(Schedule(), law=book, method=method, purpose=purpose, no_rule=no_rule)
    return keeper.decide(phone, zone, moment)


@pytest.mark.parametrize("index", range(len(RULES)), ids=[rule["citation"] for rule in RULES])
@pytest.mark.parametrize("method", ["SMS", "VOICE"])
def test_a_rule_holds_at_its_edges(index: int, method: Literal["SMS", "VOICE"]) -> None:
    """A minute before and at each edge of its hours, on each day of a week and around its dates, in its zone."""
    rule = RULES[index]
    book = LawBook(load_law().checked, (load_law().rules[index],))
    is_about = rule["calls" if method == "VOICE" else "texts"] != "excluded"
    for place in rule["places"]:
        phone, zone = find_person(place)
        for moment in list_moments(rule, zone):
            found = decide(book, phone, zone, moment, method, rule["purposes"][0])
            expected = is_open(rule, moment, zone) or not is_about
            assert isinstance(found, SendNow) == expected, (place, moment)
            if isinstance(found, Defer):
                assert is_open(rule, found.until, zone)
                assert not is_open(rule, found.until - MINUTE, zone)
                assert [reason.citation for reason in found.reasons] == [rule["citation"]]
            elif isinstance(found, SendNow) and is_about:
                assert is_open(rule, found.until - MINUTE, zone)


@pytest.mark.parametrize(
    "index",
    [place for place, rule in enumerate(RULES) if rule["from"] or rule.get("until")],
    ids=lambda index: RULES[index]["citation"],
)
def test_a_rule_out_of_force_is_no_rule(index: int) -> None:
    """On the day before its first and after its last day, its place has no rule by it; on these days it has."""
    rule = RULES[index]
    book = LawBook(load_law().checked, (load_law().rules[index],))
    method: Method = "VOICE" if rule["texts"] == "excluded" else "SMS"
    phone, zone = find_person(rule["places"][0])
    for key, step in (("from", -1), ("until", 1)):
        if rule.get(key) is None:
            continue
        day = datetime.combine(date.fromisoformat(rule[key]), time(12), ZoneInfo(rule.get("zone", zone)))
        out = decide(book, phone, zone, day + step * DAY, method, rule["purposes"][0], "refuse")
        assert isinstance(out, Refuse)
        assert out.kind == "no_rule"
        held = decide(book, phone, zone, day, method, rule["purposes"][0], "refuse")
        assert not isinstance(held, Refuse) or held.kind != "no_rule"


@pytest.mark.parametrize("place", sorted({place for rule in RULES for place in rule["places"]}))
def test_all_rules_of_a_place_hold_together(place: str) -> None:
    """For each place, every two hours of some days: a text goes when every rule that is about it is open."""
    phone, zone = find_person(place)
    around = {place, place.partition("-")[0]} | set(find_places(phone))
    about = [r for r in RULES if around & set(r["places"]) and r["texts"] != "excluded"]
    for purpose in ("marketing", "survey", "service"):
        mine = [rule for rule in about if purpose in rule["purposes"]]
        for step in range(0, 9 * 24, 2):
            moment = datetime.combine(MONDAY, time(), ZoneInfo(zone)).astimezone(UTC) + step * 60 * MINUTE
            found = decide(load_law(), phone, zone, moment, "SMS", purpose)
            assert isinstance(found, SendNow) == all(is_open(rule, moment, zone) for rule in mine), moment


def make_book(*changes: dict[str, Any]) -> LawBook:
    """Return a book of rules for Kenya, which has none: by day, unless a change says otherwise."""
    base: dict[str, Any] = {
        "places": ["KE"],
        "hours": {"mon-sun": ["08:00-20:00"]},
        "from": None,
        "as_of": "2026-11-27",
        "texts": "named",
        "calls": "excluded",
        "purposes": ["marketing", "survey"],
        "citation": "Act 1",
        "covers": "Texts.",
        "source": "The act.",
    }
    return read_law(json.dumps({"checked": "2026-11-27", "rules": [{**base, **one} for one in changes]}))


BEFORE_AND_AFTER = make_book(
    {"until": "2026-11-30"},
    {"from": "2026-12-01", "hours": {"mon-sun": ["10:00-12:00"]}, "citation": "Act 2"},
)


def at(written: str) -> datetime:
    return datetime.fromisoformat(written).replace(tzinfo=ZoneInfo("Africa/Nairobi"))


def test_a_text_deferred_over_a_change_goes_by_the_law_of_its_day() -> None:
    """In the evening before, the next hours are those of the new law; what closes it is the old one."""
    found = decide(BEFORE_AND_AFTER, KENYA, "Africa/Nairobi", at("2026-11-30T21:00"), "SMS", "survey")
    assert isinstance(found, Defer)
    assert found.until == at("2026-12-01T10:00")
    assert [reason.citation for reason in found.reasons] == ["Act 1"]
    early = decide(BEFORE_AND_AFTER, KENYA, "Africa/Nairobi", at("2026-11-30T09:00"), "SMS", "survey")
    assert isinstance(early, SendNow)
    assert early.until == at("2026-11-30T20:00")


def test_a_change_of_law_is_named_before_it_comes() -> None:
    """Until `expires`, or for a month, people of the place are told of with the new hours; then not any more."""
    words = "on 2026-12-01 the legal hours in KE change to mon-sun 10:00-12:00: Act 2"
    for day, expires, remarks in (
        ("2026-11-27T09:00", None, (words,)),
        ("2026-10-27T09:00", None, ()),
        ("2026-11-27T09:00", "2026-11-30T23:59", ()),
        ("2026-11-27T09:00", "2026-12-01T00:00", (words,)),
        ("2026-12-01T11:00", None, ()),
    ):
        schedule = Schedule(expires=None if expires is None else at(expires).astimezone(UTC))
        found = Timekeeper(schedule, law=BEFORE_AND_AFTER).decide(KENYA, "Africa/Nairobi", at(day))
        assert isinstance(found, SendNow)
        assert found.remarks == remarks, day


def test_the_end_of_a_law_is_named() -> None:
    """Where no other law comes in its place, plans say on which day it ends; from then on there is no rule."""
    book = make_book({"until": "2026-11-30"})
    found = Timekeeper(Schedule(), law=book).decide(KENYA, "Africa/Nairobi", at("2026-11-30T09:00"))
    assert isinstance(found, SendNow)
    assert found.remarks == ("on 2026-12-01 legal hours in KE end: Act 1",)
    later = Timekeeper(Schedule(), law=book).decide(KENYA, "Africa/Nairobi", at("2026-12-01T09:00"))
    assert isinstance(later, Refuse)
    assert later.kind == "no_rule"


def test_a_rule_with_a_zone_goes_by_its_clocks() -> None:
    """Hours in Los Angeles close a number in Nairobi: its day there, too, decides whether the rule is in force."""
    book = make_book({"zone": "America/Los_Angeles", "from": "2026-12-01"})
    keeper = Timekeeper(Schedule(), law=book, no_rule="schedule")
    # 10:00 in Nairobi is 23:00 in Los Angeles, on the day before.
    before = keeper.decide(KENYA, "Africa/Nairobi", at("2026-12-01T10:59"))
    assert isinstance(before, SendNow)
    assert before.until == datetime(2026, 12, 1, 8, tzinfo=UTC)
    held = Timekeeper(Schedule(), law=book).decide(KENYA, "Africa/Nairobi", at("2026-12-01T11:00"))
    assert isinstance(held, Defer)
    assert held.until == datetime(2026, 12, 1, 16, tzinfo=UTC)


def test_calls_and_texts_are_covered_apart() -> None:
    """A place may have other hours for calls than for texts."""
    book = make_book({}, {"texts": "excluded", "calls": "named", "hours": {"mon-sun": ["12:00-13:00"]}})
    noon, morning = at("2026-12-01T12:30"), at("2026-12-01T09:00")
    assert isinstance(decide(book, KENYA, "Africa/Nairobi", morning, "SMS", "survey"), SendNow)
    assert isinstance(decide(book, KENYA, "Africa/Nairobi", morning, "VOICE", "survey"), Defer)
    assert isinstance(decide(book, KENYA, "Africa/Nairobi", noon, "VOICE", "survey"), SendNow)
