"""Places of people: the spellings of regions, and what region and number tell together."""

from __future__ import annotations

import pytest

from runner.source.diagnostic import CellProblem
from runner.timing.legal_hours import check_region, locate
from runner.timing.zone import load_zone, read_country_names, read_country_zones

NEW_YORK, MIAMI, PENSACOLA, TORONTO = "+12125550101", "+13055550101", "+18505550101", "+14165550101"
LOS_ANGELES, TOLL_FREE, COLOGNE, LONDON = "+12135550101", "+18005550101", "+4917604069074", "+447911123456"
EASTERN = ("America/New_York",)


A_PLACE_IS_READ_IN_THE_USUAL_SPELLINGS: list[tuple[str, str | None, str]] = [
    ("US-FL", None, "US-FL"),
    ("us-fl", None, "US-FL"),
    (" us_fl ", None, "US-FL"),
    ("USA/FL", None, "US-FL"),
    ("US Florida", None, "US-FL"),
    ("FL", "US", "US-FL"),
    ("FL", None, "US-FL"),
    ("Florida", None, "US-FL"),
    ("Florida", "DE", "US-FL"),
    ("NEW YORK", "US", "US-NY"),
    ("Washington, D.C.", "US", "US-DC"),
    ("CA-QC", "US", "CA-QC"),
    ("Québec", None, "CA-QC"),
    ("ON", "CA", "CA-ON"),
    ("DE-BY", None, "DE-BY"),
    ("US", None, "US"),
    ("U.S.A.", None, "US"),
    ("united states", None, "US"),
    ("Germany", "US", "DE"),
    ("Deutschland", None, "DE"),
    ("UK", None, "GB"),
    ("Côte d'Ivoire", None, "CI"),
    ("US-PR", None, "PR"),
    ("PR", "US", "PR"),
    ("XK", None, "XK"),
    ("CA", "US", "US-CA CA"),
    ("CA", None, "CA US-CA"),
    ("CA", "DE", "CA"),
    ("Georgia", "US", "US-GA GE"),
    ("Georgia", None, "GE US-GA"),
    ("BC", None, "CA-BC"),
]


def test_a_place_is_read_in_the_usual_spellings() -> None:
    """Codes and names, in any case, with any separator; what may be a state and a country is both."""
    for written, country, region in A_PLACE_IS_READ_IN_THE_USUAL_SPELLINGS:
        assert check_region(written, country) == region


@pytest.mark.parametrize(
    ("written", "country", "reason", "hint"),
    [
        ("US-XX", None, "there is no such country or state", "write a country or a country and its state"),
        ("Floirda", None, "there is no such country or state", "did you mean Florida?"),
        ("Germny", None, "there is no such country or state", "did you mean Germany?"),
        ("BC", "MX", "there is no such country or state", "write a country or a country and its state, "),
        ("ZZ", None, "there is no such country or state", "write a country or a country and its state, "),
        ("ZZ-12", None, "there is no such country or state", "write a country or a country and its state, "),
        ("America/Chicago", None, "there is no such country or state", "write a country or a country and "),
    ],
)
def test_what_is_no_place_is_refused(written: str, country: str | None, reason: str, hint: str) -> None:
    """The reason says what is wrong, the hint what to write."""
    problem = check_region(written, country)
    assert isinstance(problem, CellProblem)
    assert problem.reason == reason
    assert problem.hint.startswith(hint)


def test_every_country_is_read_by_its_code_and_its_name() -> None:
    """All of ISO 3166-1, each as itself; or as one that a state of the US or Canada could be, too."""
    for code, name in read_country_names().items():
        for written in (code, code.lower(), name):
            assert str(check_region(written)).split()[0] == code, written


REGION_AND_NUMBER_TELL_TOGETHER_WHERE_PEOPLE_ARE: list[tuple[str, str, tuple[str, ...], tuple[str, ...]]] = [
    # A number of the region tells where in it.
    (MIAMI, "US-FL", EASTERN, ("US-FL",)),
    (NEW_YORK, "US", EASTERN, ("US-NY",)),
    (COLOGNE, "DE-BY", ("Europe/Berlin",), ("DE-BY",)),
    (LONDON, "GB", ("Europe/London",), ("GB",)),
    # Any other number tells nothing: all zones of the region.
    (NEW_YORK, "US-FL", ("America/Chicago", "America/New_York"), ("US-FL",)),
    (NEW_YORK, "US-LA", ("America/Chicago",), ("US-LA",)),
    (NEW_YORK, "IN", ("Asia/Kolkata",), ("IN",)),
    (TOLL_FREE, "US-FL", ("America/Chicago", "America/New_York"), ("US-FL",)),
    # Of two meanings, the number's.
    (TORONTO, "US-CA CA", ("America/Toronto",), ("CA-ON",)),
    (LOS_ANGELES, "US-CA CA", ("America/Los_Angeles",), ("US-CA",)),
    (LOS_ANGELES, "CA US-CA", ("America/Los_Angeles",), ("US-CA",)),
    (COLOGNE, "US-DE DE", ("Europe/Berlin",), ("DE",)),
    (NEW_YORK, "US-DE DE", EASTERN, ("US-DE",)),
    (NEW_YORK, "DE US-DE", ("America/New_York", "Europe/Berlin", "Europe/Busingen"), ("DE", "US-DE")),
]


def test_region_and_number_tell_together_where_people_are() -> None:
    """The region says under which law, and with the number on which clocks."""
    for phone, region, zones, places in REGION_AND_NUMBER_TELL_TOGETHER_WHERE_PEOPLE_ARE:
        assert locate(phone, None, region) == (zones, places)


def test_somewhere_in_a_country_with_states_is_under_the_rules_of_all_of_them() -> None:
    """A German number in the United States: any state, and any of their time zones."""
    zones, places = locate(COLOGNE, None, "US")
    assert {"US-FL", "US-HI", "US-DC"} <= set(places)
    assert len(places) == 51
    assert {"America/New_York", "Pacific/Honolulu"} <= set(zones)


def test_the_zones_of_all_countries_are_there() -> None:
    """Zones that the table of countries names are in the time zone data in use."""
    for country, zones in read_country_zones().items():
        assert country in read_country_names()
        assert [load_zone(zone).key for zone in zones] == list(zones)
