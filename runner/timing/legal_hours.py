"""Legal sending hours from a dated data file with its sources, and the places of people, whose laws they are.

A place is a country, or a country and its state, as ISO 3166 has them, in the usual spellings. Law differs
between the states of the United States and Canada, so those have names; elsewhere only the form of a state's
code is checked.
A person's place is the given region, else the number's: a presumption, since people move with their numbers,
but the one that state laws make (Fla. Stat. § 501.059, Conn. Gen. Stat. § 42-288(c): a number of the state's
area codes is the state's).
"""

from __future__ import annotations

import difflib
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from runner.source.diagnostic import CellProblem
from runner.source.normalize import normalize
from runner.source.quantity import parse_duration
from runner.timing.schedule import FrequencyCap
from runner.timing.window import DAYS, HolidayList, LocalWindow, Span, WeeklyWindow, parse_clock
from runner.timing.zone import (
    find_country_code,
    find_zones,
    list_countries,
    load_zone,
    read_country_names,
    read_country_zones,
    zones_of_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from runner.timing.schedule import Purpose


_STATES = Path(__file__).with_name("states.json")
_CODE = re.compile(r"[a-z0-9]{1,3}")
_WITH_STATE = re.compile(r"([a-z]{2}) ([a-z0-9]{1,3})")
_TERRITORIES = ("AS", "GU", "MP", "PR", "VI")
"""Places with a code in both parts of ISO 3166: `US-PR` and `PR`."""
_HINT = "write a country or a country and its state, as ISO 3166 has them: US, US-FL or CA-QC"


def check_region(written: str, country: str | None = None) -> str | CellProblem:
    """Return the ISO 3166 code of a place (`US`, `US-FL`), or the reason for refusing it.

    Case, accents and punctuation do not matter. A state may stand alone (`FL`, `Florida`) unless the people
    are of a country whose states are not known here. A name of both a state and a country (`CA`, `Georgia`)
    gives two codes, separated by a blank, a state of `country` first: the person's number decides.

    Args:
        written: the place as in the file.
        country: the country of the file's people, ISO 3166-1; None if not given.
    """
    words = _normalize(written)
    first, _, rest = words.partition(" ")
    within = "US" if first == "usa" else first.upper()
    if rest and within in _read_states() and words not in _list_countries():
        return _find_state(rest, within) or _refuse(written)
    if _WITH_STATE.fullmatch(words) and within in _read_countries():
        return f"{within}-{rest.upper()}"
    places = _list_meanings(words, country)
    return " ".join(places) if places else _refuse(written)


def _list_meanings(words: str, country: str | None) -> list[str]:
    own = _find_state(words, country) if country in _read_states() else None
    whole = _list_countries().get(words)
    others = [found for one in _read_states() if (found := _find_state(words, one))]
    if country is not None and (own or whole or _CODE.fullmatch(words)):
        others = []
    return list(dict.fromkeys(one for one in (own, whole, *others) if one))


def _normalize(written: str) -> str:
    return normalize(written.replace("&", " and ").replace(".", ""))


def _find_state(words: str, country: str) -> str | None:
    code = words.upper()
    states = _read_states()[country]
    if code in states:
        return f"{country}-{code}"
    if country == "US" and code in _TERRITORIES:
        return code
    named = _read_other_names().get(words, "")
    if named.startswith(f"{country}-"):
        return named
    return next((f"{country}-{code}" for code, name in states.items() if _normalize(name) == words), None)


@cache
def _list_countries() -> dict[str, str]:
    """Return countries by their normalized codes and names."""
    names = _read_countries()
    others = {name: code for name, code in _read_other_names().items() if "-" not in code}
    return (
        {_normalize(name): code for code, name in names.items()}
        | {code.lower(): code for code in names}
        | others
    )


@cache
def _read_countries() -> dict[str, str]:
    assigned: dict[str, str] = _read_places()["countries"]
    return read_country_names() | assigned


def _refuse(written: str) -> CellProblem:
    names = [name for states in _read_states().values() for name in states.values()]
    names += _read_countries().values()
    close = difflib.get_close_matches(written.strip().title(), names, n=1, cutoff=0.8)
    return CellProblem("there is no such country or state", f"did you mean {close[0]}?" if close else _HINT)


@cache
def _read_places() -> dict[str, Any]:
    places: dict[str, Any] = json.loads(_STATES.read_text(encoding="utf-8"))
    return places


def _read_states() -> dict[str, dict[str, str]]:
    states: dict[str, dict[str, str]] = _read_places()["states"]
    return states


@cache
def _read_other_names() -> dict[str, str]:
    return {name: code for code, names in _read_places()["other_names"].items() for name in names}


_NORTH_AMERICA = "1"
_AREA_CODES = Path(__file__).with_name("area_codes.json")
"""Drawn from the library's geocoding data, which takes 0.6 s and 100 MB to import; a test compares."""
_LEGAL_HOURS = Path(__file__).with_name("legal_hours.json")
Coverage = Literal["named", "assumed", "excluded"]
"""Whether a rule holds for text messages, or for calls: the law names them, it is held for them to be on the
safe side, or it plainly means the other."""
Method = Literal["SMS", "VOICE"]


class Whereabouts(NamedTuple):
    """A person's possible time zones (IANA names) and places (ISO 3166 codes); none if unknown."""

    zones: tuple[str, ...]
    places: tuple[str, ...]


def locate(phone: str, zone: str | None, region: str | None) -> Whereabouts:
    """Return a person's possible places, from an allocated E.164 phone, and a zone and region if given.

    A number that may belong to the region narrows it down; any other number is ignored.
    """
    by_number = find_zones(phone)
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


def list_whereabouts(
    phone: str, zone: str | None, region: str | None, *, keeps_number: bool
) -> tuple[Whereabouts, ...]:
    """Return a person's places as given and, if it `keeps_number`, also those of a number that is elsewhere.

    The parameters are those of `locate`.
    """
    given = locate(phone, zone, region)
    if not keeps_number:
        return (given,)
    own = locate(phone, None, None)
    is_within = set(given.zones) <= set(own.zones) and set(given.places) <= set(own.places)
    return (given,) if is_within or not own.places else (given, own)


def _narrow(region: list[str], nearby: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """Return the places that a region may mean, and True if the number may belong to one of them."""
    common: dict[str, None] = {}
    for code in region:
        inside = [place for place in nearby if place == code or place.startswith(f"{code}-")]
        is_inside = any(code.startswith(f"{place}-") for place in nearby)
        common |= dict.fromkeys(inside or ([code] if is_inside else []))
    if common:
        return tuple(common), True
    countries = {place.partition("-")[0] for place in nearby}
    if "-" in region[0] and region[0].partition("-")[0] in countries:
        # A number of a country also covers its states that have another country's code.
        region = region[:1]
    return tuple(place for code in region for place in _list_states(code) or [code]), False


def find_places(phone: str) -> tuple[str, ...]:
    """Return places (`US-FL`, `DE`) whose law may hold for a phone; for toll-free ones, North America's."""
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
    """Return the time zones of a state with known area codes, else of its country."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LegalRule:
    """One law on when, how often and with which words people of some places may be texted or called.

    Attributes:
        places: ISO 3166 codes.
        window: the allowed hours, on the recipient's clocks or on those of `zone`.
        since: the first day on which it is in force; None if not found, which counts as in force.
        until: the last such day; None if it has no known end.
        as_of: the day its source was read.
        texts: whether it covers text messages.
        calls: whether it covers calls.
        automatic_only: whether it covers only what machines dial; the runner's calls and texts are such.
        purposes: the purposes it covers. Most laws are about solicitation alone; those cover surveys, too,
            unless they plainly exclude them.
        citation: the law, as deferred texts show it.
        covers: the law's subject and its exceptions.
        source: the text that was read.
        quote: the law's own words, in short, if they were read.
        url: the law's address, if it is certain.
        holidays: days on which nothing may be sent, if any.
        zone: the time zone of its hours (IANA); None for the recipient's.
        caps: the most messages to a person, if it has a limit.
        asks: what a message must say: `sender`, `opt_out`, `label` and the like.
        no_reply_opts_out: whether nobody may be texted again who has not replied.
        not_enforced: the part of the law that the runner does not keep, if any.
    """

    places: tuple[str, ...]
    window: WeeklyWindow
    since: date | None
    until: date | None = None
    as_of: date
    texts: Coverage
    calls: Coverage
    automatic_only: bool = False
    purposes: tuple[Purpose, ...]
    citation: str
    covers: str
    source: str
    quote: str | None = None
    url: str | None = None
    holidays: HolidayList | None = None
    zone: str | None = None
    caps: FrequencyCap | None = None
    asks: tuple[str, ...] = ()
    no_reply_opts_out: bool = False
    not_enforced: str | None = None

    def holds_for(self, method: Method, purpose: Purpose | None = None) -> bool:
        """Return whether it covers a way to reach people, for a purpose (None: for any)."""
        coverage = self.calls if method == "VOICE" else self.texts
        return coverage != "excluded" and (purpose is None or purpose in self.purposes)

    def lay(self, zones: Iterable[str]) -> tuple[LocalWindow, ...]:
        """Return its hours on the clocks of the recipient's possible time zones, or of its own zone."""
        own = (self.zone,) if self.zone is not None else zones
        return tuple(LocalWindow(self.window, one, self.holidays, self.since, self.until) for one in own)

    @property
    def has_limits(self) -> bool:
        """True if it limits more than the hours: how many messages there are, or who gets another."""
        return self.caps is not None or self.no_reply_opts_out

    def is_in_force(self, moment: datetime, zones: Iterable[str]) -> bool:
        """Return whether it is in force at a moment, in one of the recipient's possible zones, or its own."""
        return any(one.is_in_force(moment.astimezone(load_zone(one.zone)).date()) for one in self.lay(zones))


@dataclass(frozen=True, slots=True)
class LawBook:
    """All rules of a data file, in its order; `checked` is the day of its last review."""

    checked: date
    rules: tuple[LegalRule, ...]

    def rules_of(
        self, places: Iterable[str], method: Method, purpose: Purpose | None = None
    ) -> tuple[LegalRule, ...]:
        """Return the rules of places and of the countries around them, for a purpose or for any.

        Each holds on the days it is in force; all of their windows must be open.
        """
        wanted = {part for place in places for part in (place, place.partition("-")[0])}
        about = (rule for rule in self.rules if not wanted.isdisjoint(rule.places))
        return tuple(rule for rule in about if rule.holds_for(method, purpose))

    def list_caps(self) -> tuple[FrequencyCap, ...]:
        """Return the most messages to a person that laws allow."""
        return tuple(rule.caps for rule in self.rules if rule.caps is not None)


@cache
def load_law() -> LawBook:
    """Return the shipped rules."""
    return read_law(_LEGAL_HOURS.read_text(encoding="utf-8"))


def read_law(text: str) -> LawBook:
    """Read a data file of rules (JSON as in `legal_hours.json`); raise TypeError for a key of no meaning."""
    document = json.loads(text)
    rules = tuple(_read_rule(rule) for rule in document["rules"])
    return LawBook(date.fromisoformat(document["checked"]), rules)


def _read_rule(rule: dict[str, Any]) -> LegalRule:
    read = {_NAMES.get(key, key): _READERS.get(key, _keep)(value) for key, value in rule.items()}
    if cap := read.get("caps"):
        read["caps"] = FrequencyCap(cap["messages"], parse_duration(cap["within"]), rule["citation"])
    return LegalRule(**read)


def _keep(value: Any) -> Any:
    return value


def _read_day(written: str | None) -> date | None:
    return None if written is None else date.fromisoformat(written)


def _read_holidays(days: dict[str, Any]) -> HolidayList:
    return HolidayList(days["country"], days.get("state"), tuple(days["categories"]))


def _read_hours(hours: dict[str, list[str]]) -> WeeklyWindow:
    week: dict[int, tuple[Span, ...]] = {}
    for days, spans in hours.items():
        first, _, last = days.partition("-")
        for day in range(DAYS.index(first), DAYS.index(last or first) + 1):
            week[day] = tuple(_read_span(span) for span in spans)
    return WeeklyWindow(tuple(week[day] for day in range(len(DAYS))))


def _read_span(text: str) -> Span:
    start, end = (parse_clock(part) or 0 for part in text.split("-"))
    return start, end


_NAMES = {"hours": "window", "from": "since"}
_READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("places", "purposes", "asks"), tuple),
    **dict.fromkeys(("from", "until", "as_of"), _read_day),
    "hours": _read_hours,
    "holidays": _read_holidays,
}
