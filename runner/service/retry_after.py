"""How long a service asks to be left alone (RFC 9110, section 10.2.3)."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that a `Retry-After` asks for; None if there is none that can be read.

    Args:
        headers: of the answer, by their names in lower case.
        now: seconds since 1970. The answer's own `Date` goes before it: the same clock wrote both.
    """
    written = headers.get("retry-after", "").strip()
    if written.isascii() and written.isdecimal():
        return float(written)
    moment = _read_date(written)
    if moment is None:
        return None
    since = _read_date(headers.get("date", ""))
    return max(0.0, moment - (now if since is None else since))


def _read_date(written: str) -> float | None:
    try:
        return parsedate_to_datetime(written).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
