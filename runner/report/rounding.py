"""How documents for programs hold values: exact numbers become decimal ones, half away from zero."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from fractions import Fraction


Interval = tuple[float, float]
"""The low and the high end of a 95 % interval, in the unit of what it is an interval of."""

STORED_PLACES = 4
"""Decimal places of rates, scores and means in the documents that programs read."""


def round_exactly(number: Fraction, places: int) -> Decimal:
    """Return a fraction rounded to decimal places, half away from zero, with no binary step between."""
    scaled = number * 10**places
    doubled = abs(2 * scaled) + 1
    magnitude = doubled.numerator // (2 * doubled.denominator)
    with localcontext(prec=60, rounding=ROUND_HALF_UP):
        return Decimal(magnitude if number >= 0 else -magnitude).scaleb(-places)


def store_number(number: Fraction | None) -> float | None:
    """Return a number as documents for programs hold it: four decimal places, or None."""
    return None if number is None else float(round_exactly(number, STORED_PLACES))


def store_interval(interval: Interval | None) -> list[float] | None:
    """Return an interval as documents for programs hold it: both ends to four decimal places, or None."""
    # Adding nothing turns minus nothing into nothing.
    return None if interval is None else [round(end, STORED_PLACES) + 0.0 for end in interval]


def store_time(time: datetime | None) -> str | None:
    """Return a UTC time as documents for programs hold it: ISO 8601 with a Z, or None."""
    return None if time is None else time.isoformat().replace("+00:00", "Z")
