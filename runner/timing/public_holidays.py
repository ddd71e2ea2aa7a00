"""Public holidays: the door to the library `holidays`, which is imported when the first day is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date


@dataclass(frozen=True, slots=True)
class HolidayList:
    """The public holidays of one country, or of one of its states, as the library knows them.

    Attributes:
        country: a code of ISO 3166-1.
        state: the second part of a code of ISO 3166-2; None for the days of the whole country alone.
        categories: the library's kinds of days, such as `public` and `government`.
    """

    country: str
    state: str | None = None
    categories: tuple[str, ...] = ("public",)

    def find(self, day: date) -> str | None:
        """Return a day's name in English; None if it is no holiday."""
        return _read_year(self, day.year).get(day)


@cache
def _read_year(days: HolidayList, year: int) -> Mapping[date, str]:
    # Imported here: 0.15 s, and few campaigns meet a law with holidays.
    from holidays import country_holidays  # noqa: PLC0415

    return country_holidays(
        days.country,
        subdiv=days.state,
        years=year,
        expand=False,
        language="en_US",
        categories=days.categories,
    )
