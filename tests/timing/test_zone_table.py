"""The table of numbers' time zones, held against the time zone database that is shipped with it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from phonenumbers import COUNTRY_CODE_TO_REGION_CODE
from phonenumbers.tzdata import TIMEZONE_DATA

import runner.timing
from runner.timing.zone import find_country_code, find_zones, zones_of_prefix

FOLDER = Path(runner.timing.__file__).parent
DOCUMENT = json.loads((FOLDER / "zone_corrections.json").read_text(encoding="utf-8"))
RENAMED: dict[str, str] = DOCUMENT["renamed"]
CORRECTED: dict[str, tuple[str, ...]] = {
    prefix: tuple(zones) for group in DOCUMENT["corrections"] for prefix, zones in group["zones"].items()
}
PREFIXES = sorted({*TIMEZONE_DATA, *CORRECTED})
DATABASE = resources.files("tzdata") / "zoneinfo"

SINCE = datetime(2026, 11, 1, tzinfo=UTC)
SAMPLES = [SINCE + timedelta(hours=3 * step) for step in range(2 * 365 * 8)]

NOT_IN_THE_LIST = {
    "247": {"Atlantic/St_Helena"},  # Ascension, of which the list of countries knows nothing
    "383": {"Europe/Belgrade"},  # Kosovo, likewise
}
WITHOUT_NUMBERS = {
    "86": {"Asia/Urumqi"},  # no legal time: the law has Beijing's in all of China
    "299": {"America/Danmarkshavn"},  # a weather station
    "380": {"Europe/Simferopol"},  # its numbers start with 7 since 2014
}
EASTERN, CENTRAL, MOUNTAIN, PACIFIC = (
    *("America/New_York", "America/Chicago"),
    *("America/Denver", "America/Los_Angeles"),
)
ATLANTIC, ALASKAN, PHOENIX = "America/Halifax", "America/Anchorage", "America/Phoenix"
ONE_CLOCK = {
    EASTERN: "CT DC DE GA MA MD ME NC NH NJ NY OH PA RI SC VA VT WV",
    CENTRAL: "AL AR IA IL LA MN MO MS OK WI",
    MOUNTAIN: "CO MT NM UT WY",
    PACIFIC: "CA WA",
    "Pacific/Honolulu": "HI",
}
CLOCKS = {
    "US-AK": (ALASKAN, "America/Adak"),
    "US-AZ": (MOUNTAIN, PHOENIX),
    **{f"US-{state}": (EASTERN, CENTRAL) for state in ("FL", "IN", "KY", "MI", "TN")},
    **{f"US-{state}": (CENTRAL, MOUNTAIN) for state in ("KS", "ND", "NE", "SD", "TX")},
    **{f"US-{state}": (MOUNTAIN, PACIFIC) for state in ("ID", "NV", "OR")},
    **{f"US-{state}": (zone,) for zone, states in ONE_CLOCK.items() for state in states.split()},
    "CA-AB": ("America/Edmonton",),
    "CA-BC": ("America/Vancouver", "America/Edmonton"),
    "CA-MB": ("America/Winnipeg",),
    "CA-NB": (ATLANTIC,),
    "CA-NL": ("America/St_Johns", "America/Goose_Bay"),
    "CA-NS": (ATLANTIC,),
    "CA-NT": ("America/Edmonton",),
    "CA-NU": ("America/Iqaluit", "America/Rankin_Inlet", "America/Cambridge_Bay", "America/Atikokan"),
    "CA-ON": ("America/Toronto", "America/Winnipeg", "America/Atikokan"),
    "CA-PE": (ATLANTIC,),
    "CA-QC": ("America/Toronto", ATLANTIC),
    "CA-SK": ("America/Regina",),
    "CA-YT": ("America/Whitehorse",),
}
"""Clocks of states and provinces (49 CFR part 71; the comments of the database's list)."""


@cache
def clock(zone: str) -> tuple[timedelta | None, ...]:
    """Return the hands of a zone's clock over two years, as the shipped data move them."""
    with DATABASE.joinpath(*zone.split("/")).open("rb") as data:
        loaded = ZoneInfo.from_file(data, key=zone)
    return tuple(sample.astimezone(loaded).utcoffset() for sample in SAMPLES)


def clocks(*zones: str) -> set[tuple[timedelta | None, ...]]:
    return {clock(zone) for zone in zones}


@cache
def list_zones() -> dict[str, set[str]]:
    """Return the zones of every country that the database lists."""
    found: dict[str, set[str]] = {}
    for line in (DATABASE / "zone.tab").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            country, _, zone, *_ = line.split("\t")
            found.setdefault(country, set()).add(zone)
    return found


def zones_of_code(code: str) -> set[str]:
    return {
        zone for region in COUNTRY_CODE_TO_REGION_CODE[int(code)] for zone in list_zones().get(region, ())
    }


def test_every_zone_is_one_that_the_database_lists_for_the_country() -> None:
    """No neighbour's zone, no name that was given up, and none that the shipped data lack."""
    known = [prefix for prefix in PREFIXES if zones_of_prefix(prefix)]
    assert len(known) > 2500
    for prefix in known:
        code = find_country_code(f"+{prefix}")
        assert set(zones_of_prefix(prefix)) <= zones_of_code(code) | NOT_IN_THE_LIST.get(code, set()), prefix


@pytest.mark.slow
def test_every_country_has_a_zone_for_each_of_its_clocks() -> None:
    """A mobile may be anywhere in its country, so all clocks of the country have to be asked."""
    compared = 0
    for code, regions in COUNTRY_CODE_TO_REGION_CODE.items():
        if regions == ("001",):
            assert not zones_of_prefix(str(code))
            continue
        listed = zones_of_code(str(code)) - WITHOUT_NUMBERS.get(str(code), set())
        assert clocks(*listed) <= clocks(*zones_of_prefix(str(code))), code
        compared += len(listed)
    assert compared > 350


def test_every_country_can_be_told_its_time() -> None:
    """All countries of the library resolve."""
    for code, regions in COUNTRY_CODE_TO_REGION_CODE.items():
        assert zones_of_prefix(str(code)) or regions == ("001",), code


def test_area_codes_of_north_america_show_the_clocks_of_their_state() -> None:
    """No exchange is on a clock that nobody has in its state or province."""
    places: dict[str, list[str]] = json.loads((FOLDER / "area_codes.json").read_text(encoding="utf-8"))[
        "places"
    ]
    allowed: dict[str, set[str]] = {}
    for place, codes in places.items():
        for area in codes:
            allowed.setdefault(area, set()).update(CLOCKS.get(place, list_zones().get(place, ())))
    seen = set()
    for prefix in PREFIXES:
        if prefix.startswith("1") and len(prefix) >= 4:
            seen.add(prefix[1:4])
            assert clocks(*zones_of_prefix(prefix)) <= clocks(*allowed[prefix[1:4]]), prefix
    assert len(seen) > 400


@pytest.mark.parametrize(
    ("codes", "zones"),
    [
        (("207", "281", "346"), None),
        (("850", "448", "270", "364", "812", "930", "219", "574", "906", "423"), (EASTERN, CENTRAL)),
        (("308", "605", "620", "701", "785"), (CENTRAL, MOUNTAIN)),
        (("208", "986", "541", "458", "775"), (MOUNTAIN, PACIFIC)),
        (("928",), (MOUNTAIN, PHOENIX)),
        (("236", "250", "257", "672", "778"), ("America/Vancouver", "America/Edmonton")),
        (("273", "367", "418", "581"), ("America/Toronto", ATLANTIC)),
        (("709", "879"), ("America/St_Johns", "America/Goose_Bay")),
        (("807",), ("America/Toronto", "America/Winnipeg", "America/Atikokan")),
        (("867",), (*CLOCKS["CA-YT"], *CLOCKS["CA-NT"], *CLOCKS["CA-NU"])),
    ],
)
def test_area_codes_that_are_split_show_all_of_their_clocks(
    codes: tuple[str, ...], zones: tuple[str, ...] | None
) -> None:
    """Overlays show those of the area that they lie over; None: a single one."""
    for code in codes:
        found = clocks(*zones_of_prefix(f"1{code}"))
        assert found == clocks(*zones) if zones else len(found) == 1, code


WHAT_THE_LIBRARY_HAS_WRONG_IS_CORRECTED: list[tuple[str, tuple[str, ...]]] = [
    ("+212650123456", ("Africa/Casablanca", "Africa/El_Aaiun")),
    ("+213551234567", ("Africa/Algiers",)),
    ("+50581234567", ("America/Managua",)),
    ("+14742012345", ("America/Regina",)),
    ("+16895550123", ("America/New_York",)),
    ("+12507855123", ("America/Dawson_Creek",)),  # Fort St. John: no longer an hour off Vancouver
    ("+18676455123", ("America/Rankin_Inlet",)),
    ("+5591987654321", ("America/Belem",)),  # a mobile of Pará, an hour ahead of Manaus
    ("+5581987654321", ("America/Recife",)),
    ("+526141234567", ("America/Chihuahua",)),
    ("+528681234567", ("America/Matamoros",)),
    ("+61889123456", ("Australia/Darwin",)),
    ("+74012345678", ("Europe/Kaliningrad",)),
    ("+628123456789", ("Asia/Jakarta", "Asia/Jayapura", "Asia/Makassar")),
    ("+919876543210", ("Asia/Kolkata",)),
    ("+34927123456", ("Europe/Madrid",)),
]


def test_what_the_library_has_wrong_is_corrected() -> None:
    """By place, by a name that the database gave up, and by rules that changed in 2026."""
    for phone, zones in WHAT_THE_LIBRARY_HAS_WRONG_IS_CORRECTED:
        assert find_zones(phone) == zones


def test_no_correction_says_what_the_library_says() -> None:
    """One that a later release of the library has made itself can go."""

    def find_library(prefix: str) -> set[str]:
        lengths = range(len(prefix), 0, -1)
        found = next(TIMEZONE_DATA[prefix[:n]] for n in lengths if prefix[:n] in TIMEZONE_DATA)
        longer = [zones for other, zones in TIMEZONE_DATA.items() if other.startswith(prefix)]
        return {RENAMED.get(zone, zone) for zones in (found, *longer) for zone in zones}

    used = {zone for zones in TIMEZONE_DATA.values() for zone in zones}
    assert set(RENAMED) <= used
    above = {prefix for prefix in CORRECTED if any(prefix.startswith(o) and o != prefix for o in CORRECTED)}
    for prefix in set(CORRECTED) - above:
        assert find_library(prefix) != set(CORRECTED[prefix]), prefix
