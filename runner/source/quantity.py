"""Durations and rates in campaigns, targets and command lines, and numbers as people write them."""

from __future__ import annotations

import re
import unicodedata
from datetime import timedelta
from fractions import Fraction

_LENGTH = r"\d{1,5}(?:\.\d{1,6})?"
"""Five digits at most, so that no length overflows the calendar, not even in weeks."""

_UNITS = {"weeks": "w", "days": "d", "hours": "h", "minutes": "m", "seconds": "s", "milliseconds": "ms"}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(
    "(?=.)" + "".join(f"(?:(?P<{name}>{_LENGTH}){unit})?" for name, unit in _UNITS.items()), re.ASCII
)

# Fifteen digits are exact as a float, and limit the time that a hostile answer takes.
PLAIN_NUMBER = "[+-]?[0-9]{1,15}(?:[.,][0-9]{1,15})?"
"""A number in its most common form."""

AMBIGUOUS_NUMBER = "[+-]?[1-9][0-9]{0,2},[0-9]{3}"
"""A number with a comma that may separate thousands or decimals."""

GROUPED_NUMBER = (
    "[+-]?[1-9][0-9]{0,2}"
    r"(?:(?:\.[0-9]{3}){1,4},|(?:,[0-9]{3}){1,4}\.|"
    "(?:[ \N{NO-BREAK SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}][0-9]{3}){1,4}[.,])[0-9]{1,15}"
)
"""A number with thousands separated by one mark, and decimals by another. The engine uses these patterns,
too."""

_LEADING = re.compile("[0-9]{1,3}(?![0-9])")
_PLAIN, _THOUSANDS, _GROUPED = map(re.compile, (PLAIN_NUMBER, AMBIGUOUS_NUMBER, GROUPED_NUMBER))


def parse_duration(text: str) -> timedelta:
    """Return a duration such as `500ms`, `1.5s`, `2d` or `1h30m`: units from w to ms in order, each once.

    Raises:
        ValueError: the text has another form.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return timedelta(**{name: float(number) for name, number in match.groupdict().items() if number})


def write_duration(length: timedelta) -> str:
    """Return a duration in whole seconds as `parse_duration` reads it: `2d`, `1h30m`; empty for none."""
    written = ""
    for unit in ("d", "h", "m", "s"):
        count, length = divmod(length, timedelta(seconds=_SECONDS[unit]))
        written += f"{count}{unit}" if count else ""
    return written


def parse_share(text: str) -> Fraction:
    """Return a share such as `2%` or `0.5%`; the schemas check its form."""
    return Fraction(text.removesuffix("%")) / 100


def write_share(share: Fraction) -> str:
    """Return a share as `parse_share` reads it, with at most four decimals."""
    return f"{round(float(share * 100), 4):g}%"


def parse_rate(text: str) -> float:
    """Return a rate such as `20/s`, `600/m` or `5000/h`, in sends a second; the schemas check its form."""
    number, unit = text.split("/")
    return float(number) / _SECONDS[unit]


def read_number(text: str) -> Fraction | None:
    """Return the number that a whole text is, or None: `7`, `7.5`, `7,5`, `-1`, `٣`, but not `1e3`.

    A comma is a decimal one, as in most of Europe, unless it may separate thousands: `1,500` is no number,
    since it is 1.5 to some and 1500 to others; `0,125` is, since no thousands begin with 0. With two
    different marks the last one is decimal: `1.234,5`, `1,234.5` and `1 234,5` are one number.
    """
    written = plain_digits(text.strip())
    if _GROUPED.fullmatch(written):
        *groups, decimals = re.split("[^0-9+-]", written)
        return Fraction(f"{''.join(groups)}.{decimals}")
    found = _PLAIN.fullmatch(written)
    if found is None or _THOUSANDS.fullmatch(found[0]):
        return None
    return Fraction(found[0].replace(",", "."))


def plain_digits(text: str) -> str:
    """Return a text with decimal digits of any script as those from 0 to 9."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in text)


def read_leading_number(text: str) -> int | None:
    """Return the whole number that a text begins with, None without one: 3 for `3`, `3 stars`, `3) often`."""
    found = _LEADING.match(text.strip())
    return int(found[0]) if found else None
