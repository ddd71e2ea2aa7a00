"""Moments as the records write them."""

from __future__ import annotations

from datetime import UTC, datetime


def format_moment(moment: datetime) -> str:
    """Return a moment in UTC, ISO 8601, to the microsecond: as text they sort as they follow each other.

    Args:
        moment: any aware time.
    """
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
