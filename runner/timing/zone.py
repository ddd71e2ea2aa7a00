"""Time zones of phones, by number or by a column of the audience.

The clocks are those of the `tzdata` package: Python would prefer the system's data, however old, and each
machine would plan by its own.
"""

from __future__ import annotations

import difflib
import json
import re
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache, lru_cache
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from phonenumbers import (
    COUNTRY_CODE_TO_REGION_CODE,
    is_number_geographical,
    parse,
    region_code_for_number,
)
from phonenumbers.tzdata import TIMEZONE_DATA, TIMEZONE_LONGEST_PREFIX

from runner.source.diagnostic import CellProblem

if TYPE_CHECKING:
    from collections.abc import Iterable


_CORRECTIONS = Path(__file__).with_name("zone_corrections.json")
"""Corrections of the library's table; a test holds it against the time zone database's list of countries."""
_COUNTRY_CODE_DIGITS = (1, 2, 3)
_NORTH_AMERICA = "1"
_THE_WORLD = "001"
_EXCHANGE = len("1850234")
"""Digits of a prefix in North America that goes down to the exchange."""
_COMMON = (
    "EST=America/New_York CST=America/Chicago MST=America/Denver PST=America/Los_Angeles "
    "HST=Pacific/Honolulu CET=Europe/Paris EET=Europe/Athens MET=Europe/Berlin WET=Europe/Lisbon "
    "BST=Europe/London IST=Asia/Kolkata"
)
_MISLEADING = dict(pair.split("=") for pair in _COMMON.split())
"""Abbreviations: several zones' names for their time, and some without summer time in the database."""
_OFFSET = re.compile(r"(?:Etc/)?(?:GMT|UTC)? ?[+-]\d{1,2}(?::?\d\d)?", re.IGNORECASE)
"""`Etc/GMT+5`, too: it is a name, of the zone five hours *behind* UTC, which few who write it mean."""
_NOT_PLACES = frozenset({"Factory", "localtime"})

_PACKAGE = resources.files("tzdata") / "zoneinfo"


def check_zone(written: str) -> str | CellProblem:
    """Return the IANA name of a time zone, or the reason for refusing it, as for ambiguous abbreviations."""
    name = written.strip()
    if _OFFSET.fullmatch(name):
        return CellProblem(
            "an offset does not say where, nor when clocks change",
            "write an IANA name such as America/New_York",
        )
    if meant := _MISLEADING.get(name.upper()):
        return CellProblem(
            "an abbreviation does not say where, nor when clocks change", f"did you mean {meant}?"
        )
    if name in _list_zones():
        return name
    close = _find_similar(name)
    return CellProblem(
        "there is no such time zone",
        f"did you mean {close}?" if close else "write an IANA name such as America/New_York",
    )


def find_zones(phone: str) -> tuple[str, ...]:
    """Return the time zones in which an allocated E.164 phone may be; none if nothing is known.

    Like `phonenumbers.timezone.time_zones_for_number`, from a corrected table. An area code narrows down
    geographic numbers; other numbers (most mobiles outside North America) may be anywhere in the country. A
    North American area code always gives its country, and all zones that it spans.
    """
    return zones_of_prefix(find_prefix(phone))


@cache
def zones_of_prefix(prefix: str) -> tuple[str, ...]:
    """Return the time zones of a prefix from `find_prefix`.

    For an unknown exchange the library gives the zone of most of its area code, so all of +1 850 would be on
    New York's time, including Pensacola. Here it may be in any zone of the area code's known exchanges.
    """
    table = _read_table()
    if prefix.startswith(_NORTH_AMERICA) and len(_NORTH_AMERICA) < len(prefix) < _EXCHANGE:
        return _unite(zones for longer, zones in table.items() if longer.startswith(prefix))
    return table.get(prefix, ())


@cache
def _read_table() -> dict[str, tuple[str, ...]]:
    """Return the library's zones by prefix, corrected; a country has all zones of its prefixes."""
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
    """Return the start of an allocated E.164 phone that gives its zones; empty if unknown."""
    code, lengths = _read_lengths(phone[1:4])
    if len(lengths) > 1 and code != _NORTH_AMERICA and not _is_geographic(phone):
        return code
    for length in lengths:
        prefix = phone[1 : length + 1]
        if prefix in _read_table():
            # Idaho's 208 is listed only by exchange, and unknown exchanges are Idaho's, too.
            return phone[1:5] if prefix == _NORTH_AMERICA and zones_of_prefix(phone[1:5]) else prefix
    return ""


@lru_cache(maxsize=1024)
def _is_geographic(phone: str) -> bool:
    # Kept, since a person's messages are decided on one after the other.
    return is_number_geographical(parse(phone))


def find_country_code(phone: str) -> str:
    """Return an E.164 phone's country code (no start of another: ITU-T E.164, 6.2), or an empty text."""
    starts = (phone[1 : n + 1] for n in _COUNTRY_CODE_DIGITS)
    return next((start for start in starts if int(start) in COUNTRY_CODE_TO_REGION_CODE), "")


def find_region(phone: str) -> str | None:
    """Return the one country (ISO 3166-1 alpha-2) of an E.164 phone whose code several share, or None."""
    region = region_code_for_number(parse(phone))
    # North America's numbers without an area count as those of the United States there.
    return None if region == _THE_WORLD or phone.startswith(f"+{_NORTH_AMERICA}") else region


def list_countries(code: str) -> tuple[str, ...]:
    """Return the countries (ISO 3166-1 alpha-2) of a country code; none for a worldwide one."""
    return tuple(sorted(set(COUNTRY_CODE_TO_REGION_CODE[int(code)]) - {_THE_WORLD}))


@cache
def _read_lengths(start: str) -> tuple[str, tuple[int, ...]]:
    """Return the country code of numbers with this start, and their prefixes' lengths, longest first."""
    code = find_country_code(f"+{start}")
    if not code:
        return "", ()
    lengths = {len(prefix) for prefix in _read_table() if start.startswith(prefix[: len(start)])}
    if len(_read_table().get(code, ())) == 1:
        # A country with a single zone needs only its code.
        return code, (len(code),)
    return code, tuple(sorted((n for n in lengths if n <= TIMEZONE_LONGEST_PREFIX), reverse=True))


@cache
def _list_zones() -> frozenset[str]:
    return frozenset((resources.files("tzdata") / "zones").read_text(encoding="utf-8").split()) - _NOT_PLACES


def _find_similar(name: str) -> str | None:
    wanted = name.replace(" ", "_").casefold()
    # Places before aliases such as `US/Eastern`: the first name of a city is the one to suggest.
    known = {zone.rpartition("/")[2].casefold(): zone for zone in sorted(_list_zones(), reverse=True)}
    known |= {zone.casefold(): zone for zone in _list_zones()}
    close = difflib.get_close_matches(wanted, known, n=1, cutoff=0.8)
    return known[close[0]] if close else None


@cache
def read_country_names() -> dict[str, str]:
    """Return the usual English names of countries by their ISO 3166-1 codes."""
    return dict(_read_table_of_files("iso3166.tab"))


@cache
def read_country_zones() -> dict[str, tuple[str, ...]]:
    """Return the IANA names of time zones by ISO 3166-1 country code."""
    found: dict[str, list[str]] = {}
    for country, _, zone, *_ in _read_table_of_files("zone.tab"):
        found.setdefault(country, []).append(zone)
    return {country: tuple(zones) for country, zones in found.items()}


@cache
def keeps_clock(zone: str, code: str) -> bool:
    """Return whether a time zone's clocks, summer and winter, are those of a place with a country code.

    True also if no place is known.
    """
    own = chain.from_iterable(read_country_zones().get(country, ()) for country in list_countries(code))
    clocks = set(map(_read_clock, own))
    return not clocks or _read_clock(zone) in clocks


@cache
def _read_clock(zone: str) -> tuple[timedelta | None, ...]:
    data = load_zone(zone)
    return tuple(datetime(2026, month, 1, tzinfo=data).utcoffset() for month in (1, 7))


def _read_table_of_files(name: str) -> list[list[str]]:
    lines = (_PACKAGE / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


@cache
def load_zone(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name.

    Raises:
        ZoneInfoNotFoundError: there is no such zone.
    """
    with suppress(OSError, ValueError), _PACKAGE.joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)
    raise ZoneInfoNotFoundError(f"no time zone {name}")
