"""Sending windows: the hours of the week, by the clock on somebody's wall."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Days of the week as campaigns write them, at the places that `datetime.weekday` gives them."""

MINUTES_A_DAY = 24 * 60
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00")

Span = tuple[int, int]
"""Minutes since midnight: open from the first, closed from the second on."""


@dataclass(frozen=True, slots=True)
class WeeklyWindow:
    """When sending is allowed in a week, in local wall time.

    No span crosses midnight: two days' spans meet there instead.

    Attributes:
        days: Monday's spans first; each day's are in order and do not touch. A day without spans is closed.
    """

    days: tuple[tuple[Span, ...], ...]

    def contains(self, local: datetime) -> bool:
        """Return whether a moment, given in local time, is inside.

        Args:
            local: its wall time is what counts; which of two equal ones (`fold`) makes no difference.
        """
        minute = local.hour * 60 + local.minute
        return any(start <= minute < end for start, end in self.days[local.weekday()])

    def is_whole_week(self) -> bool:
        """Return whether it is always open."""
        return all(spans == ((0, MINUTES_A_DAY),) for spans in self.days)


WHOLE_WEEK = WeeklyWindow((((0, MINUTES_A_DAY),),) * len(DAYS))


def parse_clock(text: str) -> int | None:
    """Return a time of day, `00:00` to `24:00`, in minutes since midnight; None if it is not written so."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    return MINUTES_A_DAY if match[1] is None else int(match[1]) * 60 + int(match[2])


def format_clock(minute: int) -> str:
    """Write minutes since midnight as a time of day."""
    return f"{minute // 60:02d}:{minute % 60:02d}"


def make_window(span: Span, days: Iterable[int]) -> WeeklyWindow:
    """Return the window that is open at the same hours of some days of the week.

    Args:
        span: minutes since midnight.
        days: days of the week; Monday is 0.
    """
    chosen = frozenset(days)
    return WeeklyWindow(tuple((span,) if day in chosen else () for day in range(len(DAYS))))
