"""Legal hours: the data file, whose law holds for a number, and what is kept of it."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from phonenumbers.geodata import GEOCODE_DATA

from runner.timing import legal_hours
from runner.timing.legal_hours import LegalRule, find_places, load_law, read_law
from runner.timing.window import format_clock

if TYPE_CHECKING:
    from runner.timing.legal_hours import Method
    from runner.timing.schedule import Purpose

LAW = load_law()


def describe(rule: LegalRule) -> list[str]:
    return [" ".join(f"{format_clock(a)}-{format_clock(b)}" for a, b in spans) for spans in rule.window.days]


def find_rules(phone: str, method: Method = "SMS", purpose: Purpose = "marketing") -> tuple[LegalRule, ...]:
    return LAW.rules_of(find_places(phone), method, purpose)


def citations(phone: str, *, is_call: bool = False) -> list[str]:
    return [rule.citation for rule in find_rules(phone, "VOICE" if is_call else "SMS")]


def test_every_rule_is_cited_dated_and_says_what_it_covers() -> None:
    """No rule without its law, its source in words, its day, and its reach; each law once."""
    assert len({rule.citation for rule in LAW.rules}) == len(LAW.rules) > 15
    for rule in LAW.rules:
        assert rule.as_of <= LAW.checked
        assert rule.source
        assert rule.covers
        assert rule.url is None or re.fullmatch(r"https://[\w.]+/\S+", rule.url)
        assert "marketing" in rule.purposes
        assert "://" not in f"{rule.citation} {rule.source} {rule.covers}"
        assert any(rule.window.days)
        assert not rule.window.is_whole_week() or rule.holidays


STATES = {
    # An area code of the state: citation, and the hours of the days from Monday.
    "205": ("Ala. Admin. Code r. 770-X-5-.17(1)(b)", ["08:00-20:00"] * 6 + [""]),
    "203": ("Conn. Gen. Stat. § 42-288a", ["09:00-20:00"] * 7),
    "305": ("Fla. Stat. § 501.616(6)(a), (b)", ["08:00-20:00"] * 7),
    "502": ("KRS § 367.46955", ["10:00-21:00"] * 7),
    "504": (
        "LPSC General Order R-29617 (under La. R.S. 45:844.11 ff.)",
        ["08:00-20:00"] * 6 + [""],
    ),
    "617": ("201 CMR 12.02(2)", ["08:00-20:00"] * 7),
    "410": ("Md. Code, Com. Law § 14-4502", ["08:00-20:00"] * 7),
    "313": ("MCL 445.111 ff. (Michigan Home Solicitation Sales Act)", ["09:00-21:00"] * 7),
    "612": ("Minn. Stat. § 325E.30", ["09:00-21:00"] * 7),
    "601": ("Miss. Code § 77-3-723(1)", ["08:00-20:00"] * 6 + [""]),
    "201": ("N.J.S.A. 56:8-128(d)", ["08:00-21:00"] * 7),
    "505": ("NMSA § 57-12-22(B)(5)", ["09:00-21:00"] * 7),
    "702": ("NRS § 598.0918", ["09:00-20:00"] * 7),
    "503": ("Oregon House Bill 3865 (2025), amending ORS chapter 646", ["08:00-20:00"] * 7),
    "215": (
        "73 P.S. § 2245(a)(1), (10) (Telemarketer Registration Act), as amended by Act 47 of 2026",
        ["09:00-19:00"] * 6 + [""],
    ),
    "212": ("N.Y. Gen. Bus. Law § 399-z(2)", ["08:00-21:00"] * 7),
    "307": ("Wyo. Stat. § 40-12-301 ff. (telephone solicitation)", ["08:00-20:00"] * 7),
    "405": ("15 O.S. § 775C.4 (Telephone Solicitation Act of 2022)", ["08:00-20:00"] * 7),
    "401": (
        "R.I. Gen. Laws § 5-61-3.6 with § 5-61-2(2)",
        ["09:00-18:00"] * 5 + ["10:00-17:00", ""],
    ),
    "214": ("Tex. Bus. & Com. Code § 301.051", ["09:00-21:00"] * 6 + ["12:00-21:00"]),
    "801": ("Utah Code § 13-25a-103(3)", ["08:00-21:00"] * 6 + [""]),
    "703": ("Va. Code § 59.1-511", ["08:00-21:00"] * 7),
    "206": ("RCW 19.158.040(2)", ["08:00-20:00"] * 7),
}
COUNTRIES = {
    "+971501234567": ("UAE Cabinet Resolution No. 56 of 2024", ["09:00-18:00"] * 7),
    "+573012345678": ("Ley 2300 de 2023, art. 3", ["07:00-19:00"] * 5 + ["08:00-15:00", ""]),
    "+919812345678": (
        "Telecom Commercial Communications Customer Preference Regulations, 2018 (TRAI)",
        ["10:00-21:00"] * 7,
    ),
    "+962790123456": (
        "TRC instructions on bulk messages (Jordan)",
        ["07:00-21:00"] * 4 + ["", "", "07:00-21:00"],
    ),
    "+966512345678": (
        "CITC Decision No. 395/1439, replaced by CST Decision No. 469 (limits of spam)",
        ["09:00-21:00"] * 7,
    ),
    "+639171234567": ("NTC Memorandum Circular 03-03-2005", ["07:00-21:00"] * 7),
    "+84912345678": ("Decree 91/2020/ND-CP, art. 13 (texts)", ["07:00-22:00"] * 7),
    "+821012345678": ("Network Act (정보통신망법), art. 50(3)", ["08:00-21:00"] * 7),
    "+27711234567": (
        "Consumer Protection Act 68 of 2008, s 12(2), with the notice on prohibited times (R293)",
        ["08:00-20:00"] * 5 + ["09:00-13:00", ""],
    ),
}
CALLS = {
    "+14025550101": (
        "291 Neb. Admin. Code, ch. 11, § 003.01, with Neb. Rev. Stat. § 86-248 and § 86-256",
        ["08:00-21:00"] * 6 + ["13:00-21:00"],
    ),
    "+14155550101": ("Cal. Pub. Util. Code § 2872(c)", ["09:00-21:00"] * 7),
    "+84912345678": ("Decree 91/2020/ND-CP, art. 13 (calls)", ["08:00-17:00"] * 7),
    "+12075550101": ("10 M.R.S. § 1498(3)", ["09:00-17:00"] * 5 + ["", ""]),
    "+16055550101": ("SDCL § 37-30-28", ["09:00-21:00"] * 5 + ["", ""]),
    "+61412345678": (
        "Telecommunications (Telemarketing and Research Calls) Industry Standard 2017",
        ["09:00-20:00"] * 5 + ["09:00-17:00", ""],
    ),
    "+14165550101": (
        "CRTC Unsolicited Telecommunications Rules, Part III",
        ["09:00-21:30"] * 5 + ["10:00-18:00"] * 2,
    ),
    "+33612345678": (
        "Code de la consommation, art. D. 223-9 (décret n° 2022-1313)",
        ["10:00-13:00 14:00-20:00"] * 5 + ["", ""],
    ),
}
FEDERAL = ("47 CFR 64.1200(c)(1)", ["08:00-21:00"] * 7)
WITHOUT_A_RULE = {"CA": "415", "GA": "404", "IL": "312", "OH": "216", "DC": "202"}


def laws_of(phone: str, *, is_call: bool = False) -> list[tuple[str, list[str]]]:
    rules = find_rules(phone, "VOICE" if is_call else "SMS")
    return [(rule.citation, describe(rule)) for rule in rules if rule.until is None]


def test_each_state_s_rule_is_its_own() -> None:
    """For a number of each state with a rule: the federal hours and its own, day by day."""
    for area_code, rule in STATES.items():
        assert laws_of(f"+1{area_code}5550101") == [FEDERAL, rule]


@pytest.mark.parametrize("state", WITHOUT_A_RULE)
def test_a_state_without_hours_of_its_own_has_the_federal_ones(state: str) -> None:
    """Where no narrower hours were found, as in California for texts, the federal ones hold alone."""
    assert laws_of(f"+1{WITHOUT_A_RULE[state]}5550101") == [FEDERAL]


@pytest.mark.parametrize("phone", COUNTRIES)
def test_each_country_s_rule_is_its_own(phone: str) -> None:
    """For a number of each country whose law holds for texts: its hours, day by day."""
    assert laws_of(phone) == [COUNTRIES[phone]]


@pytest.mark.parametrize("phone", CALLS)
def test_each_rule_on_calls_has_its_hours(phone: str) -> None:
    """Rules that plainly mean voice hold for calls, day by day, and for no text."""
    assert laws_of(phone, is_call=True)[-1] == CALLS[phone]
    assert CALLS[phone] not in laws_of(phone)


@pytest.mark.parametrize(
    ("phone", "places"),
    [
        ("+12015550101", ("US-NJ",)),
        ("+12025550101", ("US-DC",)),
        ("+17875550101", ("PR",)),
        ("+18765550101", ("JM",)),
        ("+19025550101", ("CA-NS", "CA-PE")),
        ("+4915112345678", ("DE",)),
        ("+447911123456", ("GB", "GG", "IM", "JE")),
        ("+870301234567", ()),
    ],
)
def test_a_number_tells_its_places(phone: str, places: tuple[str, ...]) -> None:
    """State, province, country, several of them, or none."""
    assert find_places(phone) == places


def test_a_number_without_a_place_is_under_every_law_it_could_be() -> None:
    """A toll-free number may be anywhere in North America: the strictest of all hours hold."""
    found = citations("+18005550101")
    assert "Fla. Stat. § 501.616(6)(a), (b)" in found
    assert len(found) == sum("US" in "".join(r.places) and r.texts != "excluded" for r in LAW.rules)


def test_the_area_codes_are_those_of_the_library() -> None:
    """The file agrees with the geocoding data that it was drawn from, wherever that names a state."""
    states = {"Florida": "US-FL", "Oklahoma": "US-OK", "Texas": "US-TX", "Washington State": "US-WA"}
    states |= {"Utah": "US-UT", "Maryland": "US-MD", "Virginia": "US-VA", "West Virginia": "US-WV"}
    for prefix, names in GEOCODE_DATA.items():
        if len(prefix) != 4 or not prefix.startswith("1"):
            continue
        name = names.get("en", "")
        abbreviated = re.search(r", ([A-Z]{2})$", name)
        found = find_places(f"+{prefix}5550101")
        if name in states:
            assert found == (states[name],), prefix
        elif abbreviated:
            assert found in {(f"US-{abbreviated[1]}",), (f"CA-{abbreviated[1]}",)}, prefix
    for prefix, names in GEOCODE_DATA.items():
        ending = re.search(r", ([A-Z]{2})$", names.get("en", "")) if prefix.startswith("1") else None
        # One exchange in northern New Jersey is named after a town across the state line.
        if ending and len(prefix) > 4 and not prefix.startswith("1201"):
            assert {place[-2:] for place in find_places(f"+{prefix}0101010"[:12])} >= {ending[1]}, prefix


def test_a_place_is_known_by_a_rule_for_what_is_sent() -> None:
    """France has a rule for calls alone: for texts none is known there, and none at all in Germany."""
    assert LAW.rules_of(("FR",), "VOICE")
    assert not LAW.rules_of(("FR",), "SMS")
    assert not LAW.rules_of(("DE",), "VOICE")
    assert LAW.rules_of(("US-CA", "JM"), "SMS")
    assert not LAW.rules_of((), "SMS")


@pytest.mark.parametrize(
    "rule", [rule for rule in LAW.rules if rule.holidays], ids=lambda rule: rule.places[0]
)
def test_the_library_knows_the_holidays_of_each_rule(rule: LegalRule) -> None:
    """Every list of holidays that the data file names is one of the library's: Christmas is in all of them."""
    assert rule.holidays is not None
    assert rule.holidays.find(date(2026, 12, 25)) == "Christmas Day"
    assert rule.holidays.find(date(2026, 12, 22)) is None


def test_holidays_are_those_of_the_state() -> None:
    """Mardi Gras is Louisiana's, Pioneer Day is Utah's; a year's last day is the next New Year's, observed."""
    by_place = {rule.places[0]: rule.holidays for rule in LAW.rules if rule.holidays is not None}
    assert by_place["US-LA"].find(date(2027, 2, 9)) == "Mardi Gras"
    assert by_place["US-AL"].find(date(2027, 2, 9)) is None
    assert by_place["US-UT"].find(date(2026, 7, 24)) == "Pioneer Day"
    assert by_place["US-UT"].find(date(2027, 12, 31)) == "New Year's Day (observed)"
    assert set(by_place) == {
        "US-AL",
        "US-LA",
        "US-NE",
        "US-PA",
        "US-RI",
        "US-UT",
        "AU",
        "CO",
        "FR",
        "JO",
        "ZA",
    }


def test_a_key_of_no_meaning_is_refused() -> None:
    """A rule of the data file with a misspelt key, or without the day it is in force from, is not read."""
    rule = json.loads((Path(legal_hours.__file__).parent / "legal_hours.json").read_text("utf-8"))["rules"][0]
    for wrong in ({**rule, "form": None}, {key: rule[key] for key in rule if key != "from"}):
        with pytest.raises(TypeError):
            read_law(json.dumps({"checked": "2026-11-27", "rules": [wrong]}))
