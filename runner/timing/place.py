"""Where people are: by the region that is given for them, else by their number.

Numbers move with people, so what a number tells of law is a presumption; it is the one that state laws make
(Fla. Stat. § 501.059, Conn. Gen. Stat. § 42-288(c): a number of the state's area codes is the state's).
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

from runner.timing.zone import find_country_code, find_prefix, list_countries, zones_of_prefix
from runner.timing.zone_data import read_country_zones

_NORTH_AMERICA = "1"
_AREA_CODES = Path(__file__).with_name("area_codes.json")
"""Drawn from the library's geocoding data, which takes 0.6 s and 100 MB to import; a test compares."""


class Whereabouts(NamedTuple):
    """Where somebody may be.

    Attributes:
        zones: IANA names of the time zones; none if nothing is known.
        places: ISO 3166 codes of those whose law may hold; none for numbers of no country.
    """

    zones: tuple[str, ...]
    places: tuple[str, ...]


def locate(phone: str, zone: str | None, region: str | None) -> Whereabouts:
    """Return where somebody may be.

    A number that may be one of the region's tells where in it; any other number tells nothing then, and they
    may be anywhere in the region.

    Args:
        phone: E.164, allocated.
        zone: the time zone that is given for them, an IANA name; None if none is.
        region: the place that is given for them, as `check_region` returned it; None if none is.
    """
    by_number = zones_of_prefix(find_prefix(phone))
    nearby = find_places(phone)
    if region is None:
        return Whereabouts((zone,) if zone else by_number, nearby)
    places, is_of_number = _narrow(region.split(), nearby)
    if zone is not None:
        return Whereabouts((zone,), places)
    if is_of_number and by_number and set(nearby) <= set(places):
        return Whereabouts(by_number, places)
    zones = tuple(sorted({one for place in places for one in zones_of_place(place)}))
    common = tuple(one for one in zones if one in by_number) if is_of_number else ()
    return Whereabouts(common or zones or by_number, places)


def _narrow(region: list[str], nearby: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """Return the places that a region may mean, and whether the number may be one of theirs."""
    common: dict[str, None] = {}
    for code in region:
        inside = [place for place in nearby if place == code or place.startswith(f"{code}-")]
        is_inside = any(code.startswith(f"{place}-") for place in nearby)
        common |= dict.fromkeys(inside or ([code] if is_inside else []))
    if common:
        return tuple(common), True
    countries = {place.partition("-")[0] for place in nearby}
    if "-" in region[0] and region[0].partition("-")[0] in countries:
        # A state of the file's country that has another country's code: theirs is a number of the first.
        region = region[:1]
    return tuple(place for code in region for place in _list_states(code) or [code]), False


def find_places(phone: str) -> tuple[str, ...]:
    """Return the places whose law may hold for a phone, as ISO 3166 codes: `US-FL`, or `DE`.

    Several if the number could be in any of them; all of North America for a number of its without
    a place, such as a toll-free one. None for numbers of no country.

    Args:
        phone: E.164, allocated.
    """
    code = find_country_code(phone)
    return places_of(phone[1:5] if code == _NORTH_AMERICA else code)


@cache
def places_of(start: str) -> tuple[str, ...]:
    """Return the places of a country code, or of 1 and an area code."""
    if start.startswith(_NORTH_AMERICA):
        by_code: defaultdict[str, list[str]] = defaultdict(list)
        for place, codes in _read_area_codes().items():
            for code in codes:
                by_code[code].append(place)
        return tuple(by_code.get(start[1:], _read_area_codes()))
    return list_countries(start) if start else ()


@cache
def zones_of_place(place: str) -> tuple[str, ...]:
    """Return the time zones of a country, or of a state whose area codes are known: else its country's."""
    codes = _read_area_codes().get(place, ()) if "-" in place else ()
    if codes:
        return tuple(sorted({zone for code in codes for zone in zones_of_prefix(_NORTH_AMERICA + code)}))
    return read_country_zones().get(place.partition("-")[0], ())


@cache
def _list_states(country: str) -> list[str]:
    return [place for place in _read_area_codes() if place.startswith(f"{country}-")]


@cache
def _read_area_codes() -> dict[str, list[str]]:
    places: dict[str, list[str]] = json.loads(_AREA_CODES.read_text(encoding="utf-8"))["places"]
    return places
