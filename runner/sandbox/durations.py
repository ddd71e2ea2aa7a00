"""Lengths of time as people write them: `90s`, `1h30m`, `2d`."""

from __future__ import annotations

import re
from datetime import timedelta

_LONGEST = timedelta(days=36_525)
_TOO_MUCH_S = _LONGEST.total_seconds() * 2  # still a length of time that can be written
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|[smhdw])", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


class TooLongError(ValueError):
    """A length of time of more than 100 years."""


def parse_duration(written: str) -> timedelta:
    """Read a length of time: numbers, each with its unit (ms, s, m, h, d, w), added up.

    Raises:
        ValueError: it is not written like that; the message says how to write it.
        TooLongError: it is longer than 100 years.
    """
    text = written.strip().lower()
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{written!r} is no length of time: write it as in 90s, 1h30m, 2d or 1w")
    total = timedelta()
    for number, unit in _PART.findall(text):
        part = float(number) * timedelta(**{_UNITS[unit]: 1}).total_seconds()
        total += timedelta(seconds=min(part, _TOO_MUCH_S))
        if total > _LONGEST:
            raise TooLongError(f"{written!r} is longer than 100 years")
    return total


def format_duration(length: timedelta) -> str:
    """Write a length of time in days, hours, minutes and seconds: `2d3h`, `0s`."""
    seconds = length.total_seconds()
    written = "-" if seconds < 0 else ""
    left = abs(seconds)
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        count, left = divmod(left, size)
        written += f"{count:.0f}{unit}" if count else ""
    return f"{written}{left:g}s" if left or written in {"", "-"} else written
