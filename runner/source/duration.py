"""Lengths of time as campaigns, targets and command lines write them."""

from __future__ import annotations

import re
from datetime import timedelta

_NUMBER = r"\d{1,5}(?:\.\d{1,6})?"
"""Of five digits at most: no length overflows the calendar, not even in weeks."""

_UNITS = {"weeks": "w", "days": "d", "hours": "h", "minutes": "m", "seconds": "s", "milliseconds": "ms"}
_DURATION = re.compile(
    "(?=.)" + "".join(f"(?:(?P<{name}>{_NUMBER}){unit})?" for name, unit in _UNITS.items()), re.ASCII
)


def parse_duration(text: str) -> timedelta:
    """Return a length of time such as `500ms`, `1.5s`, `2d` or `1h30m`.

    Args:
        text: numbers with their units (w, d, h, m, s, ms), the longest first, each once.

    Raises:
        ValueError: it is not written like that.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return timedelta(**{name: float(number) for name, number in match.groupdict().items() if number})
