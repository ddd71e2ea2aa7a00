"""Exact numbers become decimal ones here, half away from zero, as people round."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

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
