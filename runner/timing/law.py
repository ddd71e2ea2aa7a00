"""Legal sending hours: a dated data file with its sources, and which of its rules hold for a phone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from runner.timing.place import find_places
from runner.timing.window import DAYS, Span, WeeklyWindow, parse_clock

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEGAL_HOURS = Path(__file__).with_name("legal_hours.json")

Texts = Literal["named", "assumed", "excluded"]
"""Whether a rule holds for text messages: the law names them, it says calls and texts are held to it to
be on the safe side, or it plainly means voice."""
Method = Literal["SMS", "VOICE"]


@dataclass(frozen=True, slots=True)
class LegalWindow:
    """One rule: when people of some places may be solicited.

    Attributes:
        places: ISO 3166 codes.
        window: the hours, in the recipient's local time.
        texts: whether it holds for text messages.
        citation: the law, as it is shown when it defers somebody.
        source: where its words were read.
        checked: when they were.
        covers: what it is about, and what it leaves out.
        not_enforced: what of it is not kept here, such as holidays; None if all is.
    """

    places: tuple[str, ...]
    window: WeeklyWindow
    texts: Texts
    citation: str
    source: str
    checked: date
    covers: str
    not_enforced: str | None = None


@dataclass(frozen=True, slots=True)
class LawBook:
    """All rules of a data file.

    Attributes:
        checked: when the file as a whole was looked through.
        rules: in the order of the file.
    """

    checked: date
    rules: tuple[LegalWindow, ...]

    def find_rules(self, phone: str, method: Method = "SMS") -> tuple[LegalWindow, ...]:
        """Return the rules that may hold for a phone; it may be texted when all of their windows are open.

        Args:
            phone: E.164, allocated.
            method: how it is reached.
        """
        return self.rules_of(find_places(phone), method)

    def rules_of(self, places: Iterable[str], method: Method = "SMS") -> tuple[LegalWindow, ...]:
        """Return the rules of any of some places and of the countries around them."""
        wanted = {part for place in places for part in (place, place.partition("-")[0])}
        return tuple(
            rule
            for rule in self.rules
            if not wanted.isdisjoint(rule.places) and (method == "VOICE" or rule.texts != "excluded")
        )


@cache
def load_law() -> LawBook:
    """Return the rules that come with the runner."""
    return read_law(_LEGAL_HOURS.read_text(encoding="utf-8"))


def read_law(text: str) -> LawBook:
    """Read a data file of rules.

    Args:
        text: JSON as in `legal_hours.json`.

    Raises:
        ValueError: hours or days are not written as there, or a day is missing or twice.
    """
    document = json.loads(text)
    rules = tuple(_read_rule(rule) for rule in document["rules"])
    return LawBook(date.fromisoformat(document["checked"]), rules)


def _read_rule(rule: dict[str, Any]) -> LegalWindow:
    return LegalWindow(
        places=tuple(rule["places"]),
        window=_read_hours(rule["hours"]),
        texts=rule["texts"],
        citation=rule["citation"],
        source=rule["source"],
        checked=date.fromisoformat(rule["checked"]),
        covers=rule["covers"],
        not_enforced=rule.get("not_enforced"),
    )


def _read_hours(hours: dict[str, list[str]]) -> WeeklyWindow:
    week: dict[int, tuple[Span, ...]] = {}
    for days, spans in hours.items():
        first, _, last = days.partition("-")
        for day in range(DAYS.index(first), DAYS.index(last or first) + 1):
            if day in week:
                raise ValueError(f"{DAYS[day]} is there twice")
            week[day] = tuple(_read_span(span) for span in spans)
    if len(week) < len(DAYS):
        raise ValueError(f"{len(DAYS) - len(week)} days are missing")
    return WeeklyWindow(tuple(week[day] for day in range(len(DAYS))))


def _read_span(text: str) -> Span:
    start, end = (parse_clock(part) for part in text.split("-"))
    if start is None or end is None or start >= end:
        raise ValueError(f"{text} is no span of hours")
    return start, end
