"""Rates as campaigns and targets write them."""

from __future__ import annotations

_SECONDS = {"s": 1, "m": 60, "h": 3600}


def parse_rate(text: str) -> float:
    """Return a rate such as `20/s`, `600/m` or `5000/h` in sends a second.

    Args:
        text: fits the schemas' pattern: a number above 0, a slash and a unit.
    """
    number, unit = text.split("/")
    return float(number) / _SECONDS[unit]
