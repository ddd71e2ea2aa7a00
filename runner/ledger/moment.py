"""Moments as the records write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def format_moment(moment: datetime) -> str:
    """Return a moment in UTC, ISO 8601, to the microsecond: as text they sort as they follow each other.

    Args:
        moment: any aware time.
    """
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def find_later_moment(at: str, latest: str | None) -> str:
    """Return a moment, or one just after another that it isn't later than: a clock set back undoes nothing.

    Args:
        at: UTC, ISO 8601.
        latest: that of what is decided anew; None if nothing was decided before.
    """
    if latest is None or latest < at:
        return at
    return format_moment(datetime.fromisoformat(latest) + timedelta(microseconds=1))
