"""Figures and dates of a report as text, not yet escaped; and figures for programs (`store_…`).

Exact numbers become decimal, rounded half away from zero. Texts are set as English is: a true minus, a narrow
blank before the per cent sign, which no line ends at, and no decimals that few people do not bear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from runner.document import PLACES, round_exactly
from runner.report.question_model import FEW_ANSWERS
from runner.source.quantity import write_duration
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date, datetime
    from fractions import Fraction

    from runner.report.question_model import Interval, QuestionReport, Score


NOT_DEFINED = "–"
NOT_KNOWN = "not known"
FEW_PEOPLE = 100
"""Percentages of fewer people have no decimals: one person is more than the first of them."""
_PERCENT = "\u202f%"
INTERVAL = f"95{_PERCENT} interval"
_MINUS = "−"


def write_count(count: int | None) -> str:
    """Return a count with thousands separators: `1,024`; None is not known."""
    return NOT_KNOWN if count is None else f"{count:,}"


def write_percent(rate: Fraction | float | None, people: int | None = None) -> str:
    """Return a rate as a percentage: `40.2 %`, of few people `40 %`."""
    return NOT_DEFINED if rate is None else MEASURES["response"].write(rate, people)


def write_number(number: Fraction | float | None, places: int = 2) -> str:
    """Return a number with a fixed count of decimals: `3.45`."""
    return NOT_DEFINED if number is None else _round(number, places)


def _round(number: Fraction | float, places: int, sign: str = "") -> str:
    rounded = round(number, places) if isinstance(number, float) else round_exactly(number, places)
    # Adding zero turns minus zero into zero, which has no sign.
    return f"{rounded + 0:{sign if rounded else ''},.{places}f}".replace("-", _MINUS)


@dataclass(frozen=True, slots=True)
class Measure:
    """The way values of one measure are written.

    Attributes:
        name: in a sentence.
        unit: behind a value.
        points: behind a difference of values.
        factor: that values are multiplied by.
        decimals: that values of few people have; those of more people have one more.
        is_signed: whether a value above 0 has its sign.
    """

    name: str
    unit: str = ""
    points: str = ""
    factor: int = 1
    decimals: int = 0
    is_signed: bool = False

    @property
    def label(self) -> str:
        """The name at the start of a sentence."""
        return self.name[0].upper() + self.name[1:]

    def write(self, value: Fraction | float, counted: int | None = None) -> str:
        """Return a value that rests on so many people, or without a count one of many."""
        return f"{self._round(value, counted, is_signed=self.is_signed)}{self.unit}"

    def write_range(self, interval: Interval, counted: int | None = None) -> str:
        """Return an interval of a value: `+19.9 to +35.0`, `37.3–43.3 %`."""
        low, high = (self._round(end, counted, is_signed=self.is_signed) for end in interval)
        return f"{low}{_join(low, high)}{high}{self.unit}"

    def write_difference(self, difference: Fraction | float, counted: int | None = None) -> str:
        """Return a difference of two values, with its sign: `+4.2 points`."""
        return f"{self._round(difference, counted, is_signed=True)}{self.points}"

    def write_difference_range(self, interval: Interval, counted: int | None = None) -> str:
        """Return an interval of a difference: `−1.2 to +6.1 points`."""
        low, high = (self._round(end, counted, is_signed=True) for end in interval)
        return f"{low} to {high}{self.points}"

    def _round(self, value: Fraction | float, counted: int | None, *, is_signed: bool) -> str:
        places = self.decimals + (counted is None or counted >= FEW_PEOPLE)
        return _round(self.factor * value, places, "+" if is_signed else "")


def _join(low: str, high: str) -> str:
    return " to " if re.search(f"[+{_MINUS}]", low + high) else "–"


MEASURES: Mapping[str, Measure] = {
    "nps": Measure("NPS", is_signed=True),
    "csat": Measure("CSAT", _PERCENT, " points", 100),
    "mean": Measure("mean", decimals=1),
    "response": Measure("response", _PERCENT, " points", 100),
}
"""The scores by their measure, and the response."""


def write_response_range(interval: Interval | None, texted: int | None) -> str:
    """Return the interval of a response rate, or a dash for one that is not known."""
    return NOT_DEFINED if interval is None else MEASURES["response"].write_range(interval, texted)


def write_score(score: Score) -> str:
    """Return a score, or a dash for one of few answers."""
    if score.value is None or score.counted < FEW_ANSWERS:
        return NOT_DEFINED
    return MEASURES[score.measure].write(score.value, score.counted)


def write_certainty(score: Score) -> str:
    """Return a score's interval, or the caution beside one of few answers; empty for neither."""
    if not score.counted:
        return "no answers yet"
    if score.counted < FEW_ANSWERS:
        return f"{count_words(score.counted, 'answer')}, too few to go by"
    if score.value is None:
        return "left out to protect a smaller group"
    if score.interval is None:
        return ""
    return f"{INTERVAL} {MEASURES[score.measure].write_range(score.interval, score.counted)}"


def write_score_basis(score: Score, scale: str) -> str:
    """Return how many answers a score rests on: `of 31 answers`; empty for one that is not shown."""
    if score.value is None or score.counted < FEW_ANSWERS:
        return ""
    return f"of {count_words(score.counted, 'number' if scale == 'number' else 'answer')}"


def name_score(score: Score, tag: str = "") -> str:
    """Return a score's name: `CSAT`; with the tag of its question `CSAT service`, unless it says the same."""
    label = MEASURES[score.measure].label
    return label if tag.casefold() in ("", label.casefold()) else f"{label} {tag}"


def write_time(time: datetime, zone: str) -> str:
    """Return a time of a zone to the minute: `18 November 2026, 14:00`."""
    local = time.astimezone(ZoneInfo(zone))
    return f"{write_day(local.date())}, {local:%H:%M}"


def write_day(day: date) -> str:
    """Return a date: `18 November 2026`."""
    return f"{day.day} {day:%B %Y}"


def write_period(first: datetime | None, last: datetime | None, zone: str) -> str:
    """Return the days from one time to another, `30 November – 2 December 2026`, as far as they are known."""
    if first is None or last is None:
        return ""
    start, end = (time.astimezone(ZoneInfo(zone)).date() for time in (first, last))
    if start == end:
        return write_day(start)
    if (start.year, start.month) == (end.year, end.month):
        return f"{start.day}–{write_day(end)}"
    return f"{write_day(start).removesuffix(f' {end.year}')} – {write_day(end)}"


_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
_UNITS = {"d": "d", "h": "h", "m": "min", "s": "s"}


def format_duration(seconds: Fraction | None) -> str:
    """Return a duration in its two largest units: `42 s`, `3 min 20 s`, `5 h 10 min`, `2 d 3 h`.

    The smaller unit is rounded, half away from zero, and left out if it is 0: `3 min`, `1 d`.
    """
    if seconds is None:
        return NOT_DEFINED
    step = next((unit for limit, unit in ((_DAY_S, _HOUR_S), (_HOUR_S, _MINUTE_S)) if seconds >= limit), 1)
    rounded = timedelta(seconds=step * int(round_exactly(seconds / step, 0)))
    parts = re.findall(r"(\d+)(\D)", write_duration(rounded))
    return " ".join(f"{count} {_UNITS[unit]}" for count, unit in parts) or "0 s"


def store_number(number: Fraction | None) -> float | None:
    """Return a number as documents for programs hold it: four decimal places, or None."""
    return None if number is None else float(round_exactly(number, PLACES))


_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def is_freeform(question: QuestionReport) -> bool:
    """Return whether a question's answers are in people's own words."""
    is_known = question.answers is not None
    return is_known and not question.distribution and question.scale in ("text", "choice")


def defuse_formula(text: str) -> str:
    """Return a text cell with an apostrophe before it if a spreadsheet would run it as a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def distinguish(names: Iterable[str]) -> list[str]:
    """Return names made distinct by numbers, regardless of case, as the engine compares them."""
    found: dict[str, str] = {}
    for name in names:
        candidates = (name, *(f"{name} ({number})" for number in range(2, len(found) + 2)))
        free = next(candidate for candidate in candidates if candidate.casefold() not in found)
        found[free.casefold()] = free
    return list(found.values())
