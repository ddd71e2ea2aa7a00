"""Times as the service writes them, and the identifiers of its records."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from uuid import uuid4


def read_clock() -> datetime:
    """Give the present moment, in UTC."""
    return datetime.now(UTC)


@lru_cache(maxsize=4)  # one transaction writes the same moment several times
def format_time(moment: datetime) -> str:
    """Write a moment as records show it: ISO 8601, microseconds, UTC without a zone suffix (section 2).

    Args:
        moment: with its time zone.
    """
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")


def parse_time(written: str) -> datetime:
    """Read back what `format_time` wrote."""
    return datetime.fromisoformat(written).replace(tzinfo=UTC)


def make_guid() -> str:
    """Make up an identifier in the dashed hexadecimal style of section 2."""
    return str(uuid4())
