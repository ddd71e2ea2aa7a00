"""Which time zones a phone may be in: by its number, or as a column of the audience says."""

from __future__ import annotations

import difflib
import json
import re
import zoneinfo
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata, PhoneNumberType
from phonenumbers.phonenumberutil import is_number_type_geographical
from phonenumbers.tzdata import TIMEZONE_DATA, TIMEZONE_LONGEST_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from phonenumbers import PhoneNumberDesc

_CORRECTIONS = Path(__file__).with_name("zone_corrections.json")
"""What the library has wrong; a test holds the table against the time zone database's list of countries."""
_COUNTRY_CODE_DIGITS = (1, 2, 3)
_NORTH_AMERICA = "1"
_THE_WORLD = "001"
_EXCHANGE = len("1850234")
"""Digits of a prefix in North America that goes down to the exchange."""
_PLACELESS = (
    *("premium_rate", "toll_free", "shared_cost", "voip"),
    *("personal_number", "pager", "uan", "voicemail"),
)
_MISLEADING = {
    "EST": "America/New_York",
    "MST": "America/Denver",
    "HST": "Pacific/Honolulu",
    "CST": "America/Chicago",
    "PST": "America/Los_Angeles",
    "CET": "Europe/Paris",
    "EET": "Europe/Athens",
    "MET": "Europe/Berlin",
    "WET": "Europe/Lisbon",
    "BST": "Europe/London",
    "IST": "Asia/Kolkata",
}
"""Abbreviations: several zones' names for their time, and some without summer time in the database."""
_OFFSET = re.compile(r"(?:Etc/)?(?:GMT|UTC)? ?[+-]\d{1,2}(?::?\d\d)?", re.IGNORECASE)
"""`Etc/GMT+5`, too: it is a name, of the zone five hours *behind* UTC, which few who write it mean."""
_NOT_PLACES = frozenset({"Factory", "localtime"})

_Region = tuple[re.Pattern[str] | None, re.Pattern[str], re.Pattern[str]]


@dataclass(frozen=True, slots=True)
class ZoneProblem:
    """Why a time zone's name is refused.

    Attributes:
        reason: completes "the time zone … is refused: ".
        hint: what to do about it.
    """

    reason: str
    hint: str


def check_zone(written: str) -> str | ZoneProblem:
    """Return the IANA name that somebody wrote, or why it is refused.

    Names are taken as the time zone database writes them; abbreviations are refused, because `EST` is
    five hours behind UTC all year round, which nobody in New York means by it.

    Args:
        written: as it stands in the file.
    """
    name = written.strip()
    if _OFFSET.fullmatch(name):
        return ZoneProblem(
            "an offset does not say where, nor when clocks change",
            "write an IANA name such as America/New_York",
        )
    if meant := _MISLEADING.get(name.upper()):
        return ZoneProblem(
            "an abbreviation does not say where, nor when clocks change", f"did you mean {meant}?"
        )
    if name in _list_zones():
        return name
    close = _find_similar(name)
    return ZoneProblem(
        "there is no such time zone",
        f"did you mean {close}?" if close else "write an IANA name such as America/New_York",
    )


def find_zones(phone: str) -> tuple[str, ...]:
    """Return the IANA names of the time zones in which a phone may be; none if nothing is known.

    As `phonenumbers.timezone.time_zones_for_number` does, from a table that is corrected: an area code
    tells something of numbers that belong to places; the others (most mobiles outside North America) may
    be anywhere in the country. In North America an area code always tells its country, and all zones that
    it spans.

    Args:
        phone: E.164, allocated.
    """
    return zones_of_prefix(find_prefix(phone))


@cache
def zones_of_prefix(prefix: str) -> tuple[str, ...]:
    """Return the time zones of what `find_prefix` found.

    Of an exchange that the library does not know it only has the area code, and gives the zone of most
    of it: all of +1 850 is on New York's time then, Pensacola too. Here it may be in any zone that the
    area code's known exchanges are in.
    """
    table = _read_table()
    if prefix.startswith(_NORTH_AMERICA) and len(_NORTH_AMERICA) < len(prefix) < _EXCHANGE:
        return _unite(zones for longer, zones in table.items() if longer.startswith(prefix))
    return table.get(prefix, ())


@cache
def _read_table() -> dict[str, tuple[str, ...]]:
    """Return the library's zones by prefix, corrected; a country has all zones of the prefixes in it."""
    document = json.loads(_CORRECTIONS.read_text(encoding="utf-8"))
    renamed: dict[str, str] = document["renamed"]
    corrected: dict[str, list[str]] = {
        prefix: zones for group in document["corrections"] for prefix, zones in group["zones"].items()
    }
    table = {
        prefix: _unite([[renamed.get(zone, zone) for zone in zones]])
        for prefix, zones in TIMEZONE_DATA.items()
        if not any(prefix[:length] in corrected for length in range(1, len(prefix) + 1))
    }
    table |= {prefix: tuple(zones) for prefix, zones in corrected.items()}
    inside: dict[str, list[tuple[str, ...]]] = {}
    for prefix, zones in table.items():
        if (code := find_country_code(f"+{prefix}")) != prefix:
            inside.setdefault(code, []).append(zones)
    return table | {code: _unite(found) for code, found in inside.items()}


def _unite(found: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted(set(chain.from_iterable(found))))


def find_prefix(phone: str) -> str:
    """Return the digits at a number's start that tell its time zones; none if nothing is known.

    There are about 3,000 of them, so whatever depends on zones alone is worked out once for each.

    Args:
        phone: E.164, allocated.
    """
    code, lengths = _read_lengths(phone[1:4])
    if len(lengths) > 1 and code != _NORTH_AMERICA and not _is_geographic(code, phone[len(code) + 1 :]):
        return code
    for length in lengths:
        prefix = phone[1 : length + 1]
        if prefix in _read_table():
            # Idaho's 208 is only there exchange by exchange: an unknown one is still Idaho's.
            return phone[1:5] if prefix == _NORTH_AMERICA and zones_of_prefix(phone[1:5]) else prefix
    return ""


def find_country_code(phone: str) -> str:
    """Return the country code of an E.164 phone, without `+`; empty if there is no such code.

    No country code is the start of another one (ITU-T E.164, section 6.2).
    """
    return next(
        (
            phone[1 : n + 1]
            for n in _COUNTRY_CODE_DIGITS
            if int(phone[1 : n + 1]) in COUNTRY_CODE_TO_REGION_CODE
        ),
        "",
    )


def list_countries(code: str) -> tuple[str, ...]:
    """Return the countries (ISO 3166-1 alpha-2) of a country code; none for one that is the whole world's.

    Args:
        code: as `find_country_code` returns it.
    """
    return tuple(sorted(set(COUNTRY_CODE_TO_REGION_CODE[int(code)]) - {_THE_WORLD}))


@cache
def _read_lengths(start: str) -> tuple[str, tuple[int, ...]]:
    """Return the country code of numbers that start so, and how long their prefixes are, longest first."""
    code = find_country_code(f"+{start}")
    if not code:
        return "", ()
    lengths = {len(prefix) for prefix in _read_table() if start.startswith(prefix[: len(start)])}
    if len(_read_table().get(code, ())) == 1:
        # One zone in the whole country: nothing to look at beyond the code.
        return code, (len(code),)
    return code, tuple(sorted((n for n in lengths if n <= TIMEZONE_LONGEST_PREFIX), reverse=True))


def _is_geographic(code: str, national: str) -> bool:
    """Return whether a number belongs to a place, as the library's `is_number_geographical` tells it."""
    for leading_digits, placeless, geographic in _read_regions(code):
        if leading_digits is not None and not leading_digits.match(national):
            continue
        if geographic.fullmatch(national):
            return placeless.fullmatch(national) is None
        if leading_digits is not None:
            return False
    return False


@cache
def _read_regions(code: str) -> tuple[_Region, ...]:
    found = [PhoneMetadata.metadata_for_region(name) for name in COUNTRY_CODE_TO_REGION_CODE[int(code)]]
    kinds = ["fixed_line"]
    if is_number_type_geographical(PhoneNumberType.MOBILE, int(code)):
        kinds.append("mobile")
    return tuple(
        (
            re.compile(region.leading_digits) if region.leading_digits else None,
            _join_patterns(region, _PLACELESS),
            _join_patterns(region, kinds),
        )
        for region in found
        if region is not None
    )


def _join_patterns(region: PhoneMetadata, kinds: tuple[str, ...] | list[str]) -> re.Pattern[str]:
    descriptions: list[PhoneNumberDesc | None] = [getattr(region, kind) for kind in kinds]
    patterns = [
        pattern for kind in descriptions if kind is not None and (pattern := kind.national_number_pattern)
    ]
    # Matches nothing if there is no such number.
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)")


@cache
def _list_zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones()) - _NOT_PLACES


def _find_similar(name: str) -> str | None:
    wanted = name.replace(" ", "_").casefold()
    whole = {zone.casefold(): zone for zone in sorted(_list_zones())}
    # Places before aliases such as `US/Eastern`: the first name of a city is the one to suggest.
    cities = {zone.rpartition("/")[2].casefold(): zone for zone in sorted(_list_zones(), reverse=True)}
    for names in (whole, cities):
        if wanted in names:
            return names[wanted]
    for names in (whole, cities):
        if close := difflib.get_close_matches(wanted, names, n=1, cutoff=0.8):
            return names[close[0]]
    return None
