"""Legal sending hours: a dated data file with its sources, and which of its rules hold where."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from runner.timing.place import find_places
from runner.timing.public_holidays import HolidayList
from runner.timing.window import DAYS, Span, WeeklyWindow, parse_clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.timing.schedule import Purpose

_LEGAL_HOURS = Path(__file__).with_name("legal_hours.json")
_FRESH = timedelta(days=365)
"""How long a look at a source is taken for a recent one."""

Texts = Literal["named", "assumed", "excluded"]
"""Whether a rule holds for text messages: the law names them, it says calls and texts are held to it to
be on the safe side, or it plainly means voice."""
Method = Literal["SMS", "VOICE"]


@dataclass(frozen=True, slots=True)
class LegalWindow:
    """One rule: when people of some places may be texted or called.

    Attributes:
        places: ISO 3166 codes.
        window: the hours, in the recipient's local time.
        texts: whether it holds for text messages.
        purposes: for what it holds. Most laws are about solicitation alone; those hold for surveys, too,
            unless they plainly leave them out.
        citation: the law, as it is shown when it defers somebody.
        source: where its words were read.
        looked_at: when they were.
        covers: what it is about, and what it leaves out.
        holidays: days on which nothing may be sent; None if it has none.
        url: where the law stands; None if that is not known for certain.
        not_enforced: what of it is not kept here; None if all is.
    """

    places: tuple[str, ...]
    window: WeeklyWindow
    texts: Texts
    purposes: tuple[Purpose, ...]
    citation: str
    source: str
    looked_at: date
    covers: str
    holidays: HolidayList | None = None
    url: str | None = None
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

    def find_rules(
        self, phone: str, method: Method = "SMS", purpose: Purpose = "marketing"
    ) -> tuple[LegalWindow, ...]:
        """Return the rules that may hold for a phone; it may be texted when all of their windows are open.

        Args:
            phone: E.164, allocated.
            method: how it is reached.
            purpose: for what.
        """
        return self.rules_of(find_places(phone), method, purpose)

    def rules_of(
        self, places: Iterable[str], method: Method = "SMS", purpose: Purpose = "marketing"
    ) -> tuple[LegalWindow, ...]:
        """Return the rules of any of some places and of the countries around them."""
        return tuple(
            rule
            for rule in self._list_about(places)
            if purpose in rule.purposes and (method == "VOICE" or rule.texts != "excluded")
        )

    def knows_any(self, places: Iterable[str], method: Method) -> bool:
        """Return whether there is a rule for one of some places, for whatever purpose."""
        return any(method == "VOICE" or rule.texts != "excluded" for rule in self._list_about(places))

    def list_stale(self, today: date) -> tuple[LegalWindow, ...]:
        """Return the rules whose sources were last looked at more than a year ago.

        Args:
            today: the day to count from.
        """
        return tuple(rule for rule in self.rules if today - rule.looked_at > _FRESH)

    def _list_about(self, places: Iterable[str]) -> Iterator[LegalWindow]:
        wanted = {part for place in places for part in (place, place.partition("-")[0])}
        return (rule for rule in self.rules if not wanted.isdisjoint(rule.places))


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
    days = rule.get("holidays")
    return LegalWindow(
        places=tuple(rule["places"]),
        window=_read_hours(rule["hours"]),
        texts=rule["texts"],
        purposes=tuple(rule["purposes"]),
        citation=rule["citation"],
        source=rule["source"],
        looked_at=date.fromisoformat(rule["looked_at"]),
        covers=rule["covers"],
        holidays=None
        if days is None
        else HolidayList(days["country"], days.get("state"), tuple(days["categories"])),
        url=rule.get("url"),
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
