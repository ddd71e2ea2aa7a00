"""When deferred people are due, by the hour of their own clocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.timing.zone_data import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date, datetime

Due = tuple["datetime", str]
"""When somebody is due (any aware time), and the IANA name of the zone on whose clocks it is told."""


@dataclass(frozen=True, slots=True)
class DueHour:
    """How many people are due in one hour of one day, in their local time.

    Attributes:
        day: the local day.
        hour: 0 to 23.
        recipients: how many people.
    """

    day: date
    hour: int
    recipients: int


def count_due(due: Iterable[Due] | Mapping[Due, int]) -> tuple[DueHour, ...]:
    """Count people by the local hour in which they are due, the earliest hour first.

    Args:
        due: one entry a person, or the entries with how many people share each: there are few, since
            everybody in one place is due at the same moment.
    """
    shared: Counter[Due] = Counter(due)
    hours: Counter[tuple[date, int]] = Counter()
    for (moment, zone), recipients in shared.items():
        local = moment.astimezone(load_zone(zone))
        hours[local.date(), local.hour] += recipients
    return tuple(DueHour(day, hour, recipients) for (day, hour), recipients in sorted(hours.items()))
