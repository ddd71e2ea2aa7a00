"""Whose law a phone is under: the country of its number, and its state or province in North America.

Numbers move with people, so this is a presumption; it is the one that state laws make (Fla. Stat.
§ 501.059, Conn. Gen. Stat. § 42-288(c): a number of the state's area codes is the state's).
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from pathlib import Path

from runner.timing.zone import find_country_code, list_countries

_NORTH_AMERICA = "1"
_AREA_CODES = Path(__file__).with_name("area_codes.json")
"""Drawn from the library's geocoding data, which takes 0.6 s and 100 MB to import; a test compares."""


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
        by_code, everywhere = _read_area_codes()
        return by_code.get(start[1:], everywhere)
    return list_countries(start) if start else ()


@cache
def _read_area_codes() -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    places: dict[str, list[str]] = json.loads(_AREA_CODES.read_text(encoding="utf-8"))["places"]
    by_code: defaultdict[str, list[str]] = defaultdict(list)
    for place, codes in places.items():
        for code in codes:
            by_code[code].append(place)
    return {code: tuple(found) for code, found in by_code.items()}, tuple(places)
