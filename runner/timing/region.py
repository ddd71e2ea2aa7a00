"""Places that people are said to be in: a country, or a country and its state, in the usual spellings.

Codes are those of ISO 3166. States are known by name in the countries whose law differs between them, the
United States and Canada; elsewhere only the form of a state's code is looked at.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runner.timing.zone_data import read_country_names

_STATES = Path(__file__).with_name("states.json")
_CODE = re.compile(r"[a-z0-9]{1,3}")
_WITH_STATE = re.compile(r"([a-z]{2}) ([a-z0-9]{1,3})")
_USER_ASSIGNED = {"AC": "Ascension Island", "TA": "Tristan da Cunha", "XK": "Kosovo"}
"""Codes that are not in ISO 3166-1 but in use, as for countries of numbers."""
_OTHER_NAMES = {
    name: code
    for code, names in {
        "AE": ("uae", "emirates"),
        "AS": ("american samoa",),
        "AT": ("osterreich",),
        "BE": ("belgie", "belgien", "belgique"),
        "BR": ("brasil",),
        "CH": ("schweiz", "suisse", "svizzera"),
        "CZ": ("czechia",),
        "DE": ("deutschland",),
        "DK": ("danmark",),
        "ES": ("espana",),
        "FI": ("suomi",),
        "GB": ("uk", "united kingdom", "great britain"),
        "IT": ("italia",),
        "KR": ("south korea", "republic of korea"),
        "NL": ("holland", "the netherlands", "nederland"),
        "NO": ("norge",),
        "PL": ("polska",),
        "SE": ("sverige",),
        "TR": ("turkiye",),
        "US": ("usa", "united states of america", "america"),
        "VI": ("virgin islands",),
    }.items()
    for name in names
}
"""Names of countries that the time zone database does not use, normalized."""
_OTHER_STATES = {"washington dc": "US-DC", "newfoundland": "CA-NL", "yukon territory": "CA-YT"}
_TERRITORIES = ("AS", "GU", "MP", "PR", "VI")
"""Places with a code in both parts of ISO 3166: `US-PR` and `PR`."""
_HINT = "write a country or a country and its state, as ISO 3166 has them: US, US-FL or CA-QC"


@dataclass(frozen=True, slots=True)
class RegionProblem:
    """Why a place is refused.

    Attributes:
        reason: completes "the region … is refused: ".
        hint: what to do about it.
    """

    reason: str
    hint: str


def check_region(written: str, country: str | None = None) -> str | RegionProblem:
    """Return the place that somebody wrote, or why it is refused.

    Case, accents and punctuation do not matter. A state may stand alone (`FL`, `Florida`) unless the file's
    people are of a country whose states are not known here.

    Args:
        written: as it stands in the file.
        country: that of the file's people, ISO 3166-1; None if the file does not say.

    Returns:
        A code of ISO 3166: `US`, `US-FL`. Two, with a blank between them, where a state and another country
        have the same code or name (`CA`, `Georgia`): the person's number tells which. The state comes first
        if it is one of `country`.
    """
    words = _normalize(written)
    first, _, rest = words.partition(" ")
    within = "US" if first == "usa" else first.upper()
    if rest and within in _read_states() and words not in _list_countries():
        found = _find_state(rest, within)
        return found or (_refuse_state(rest, within) if _CODE.fullmatch(rest) else _refuse(written))
    if _WITH_STATE.fullmatch(words) and within in _read_countries():
        return f"{within}-{rest.upper()}"
    places = _list_meanings(words, country)
    return " ".join(places) if places else _refuse(written)


def _list_meanings(words: str, country: str | None) -> list[str]:
    own = _find_state(words, country) if country in _read_states() else None
    whole = _OTHER_NAMES.get(words) or _list_countries().get(words)
    others = [found for one in _read_states() if (found := _find_state(words, one))]
    if country is not None and (own or whole or _CODE.fullmatch(words)):
        others = []
    return list(dict.fromkeys(one for one in (own, whole, *others) if one))


def _normalize(written: str) -> str:
    plain = unicodedata.normalize("NFKD", written.replace("&", " and ").replace(".", "")).casefold()
    letters = "".join(each for each in plain if not unicodedata.combining(each))
    return " ".join(re.findall(r"[^\W_]+", letters))


def _find_state(words: str, country: str) -> str | None:
    code = words.upper()
    states = _read_states()[country]
    if code in states:
        return f"{country}-{code}"
    if country == "US" and code in _TERRITORIES:
        return code
    named = _OTHER_STATES.get(words, "")
    if named.startswith(f"{country}-"):
        return named
    return next((f"{country}-{code}" for code, name in states.items() if _normalize(name) == words), None)


@cache
def _list_countries() -> dict[str, str]:
    """Return countries by their codes and names, normalized."""
    names = _read_countries()
    return {_normalize(name): code for code, name in names.items()} | {code.lower(): code for code in names}


@cache
def _read_countries() -> dict[str, str]:
    return read_country_names() | _USER_ASSIGNED


def _refuse_state(code: str, country: str) -> RegionProblem:
    states = _read_states()[country]
    return RegionProblem(
        f"{country} has no state {code.upper()}", f"the states of {country} are {', '.join(states)}"
    )


def _refuse(written: str) -> RegionProblem:
    names = [name for states in _read_states().values() for name in states.values()]
    names += _read_countries().values()
    close = difflib.get_close_matches(written.strip().title(), names, n=1, cutoff=0.8)
    return RegionProblem("there is no such country or state", f"did you mean {close[0]}?" if close else _HINT)


@cache
def _read_states() -> dict[str, dict[str, str]]:
    states: dict[str, dict[str, str]] = json.loads(_STATES.read_text(encoding="utf-8"))["states"]
    return states
