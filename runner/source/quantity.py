"""Durations and rates in campaigns, targets and command lines."""

from __future__ import annotations

import re
from datetime import timedelta

_NUMBER = r"\d{1,5}(?:\.\d{1,6})?"
"""Five digits at most, so that no length overflows the calendar, not even in weeks."""

_UNITS = {"weeks": "w", "days": "d", "hours": "h", "minutes": "m", "seconds": "s", "milliseconds": "ms"}
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(
    "(?=.)" + "".join(f"(?:(?P<{name}>{_NUMBER}){unit})?" for name, unit in _UNITS.items()), re.ASCII
)


def parse_duration(text: str) -> timedelta:
    """Return a duration such as `500ms`, `1.5s`, `2d` or `1h30m`: units from w to ms in order, each once.

    Raises:
        ValueError: the text has another form.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return timedelta(**{name: float(number) for name, number in match.groupdict().items() if number})


def parse_rate(text: str) -> float:
    """Return a rate such as `20/s`, `600/m` or `5000/h`, in sends a second; the schemas check its form."""
    number, unit = text.split("/")
    return float(number) / _SECONDS[unit]
