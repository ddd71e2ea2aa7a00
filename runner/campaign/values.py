"""Readers of a campaign's values that are written otherwise than they are kept."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from runner.campaign.model import AudienceLimit, Consent, ConsentColumns
from runner.source.money import parse_money
from runner.source.quantity import parse_duration, parse_rate, parse_share
from runner.timing.schedule import FrequencyCap, Schedule, read_schedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from runner.campaign.message_model import ResponseValue


def read_value(written: float | str) -> ResponseValue:
    """Return what a response counts as on its scale."""
    return "none" if isinstance(written, str) else Fraction(str(written))


def _read_share(written: str | int) -> Fraction | int:
    return parse_share(written) if isinstance(written, str) else written


def _read_audience_limit(written: int | dict[str, Any]) -> AudienceLimit:
    """Return a limit that is given as the most people, or as a mapping."""
    if isinstance(written, int):
        return AudienceLimit(most=written)
    given = {**written}
    if "change" in given:
        given["change"] = parse_share(given["change"])
    if "expected" in given:
        said = given["expected"]
        said = {"people": said} if isinstance(said, int) else {**said}
        shares = {("filled", name): parse_share(one) for name, one in said.pop("filled", {}).items()}
        given["expected"] = {**{(name,): Fraction(count) for name, count in said.items()}, **shares}
    return AudienceLimit(**given)


READERS: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys(("wait", "before", "after", "within", "hold"), parse_duration),
    **dict.fromkeys(("settle_margin", "read_replies_within", "retention"), parse_duration),
    **dict.fromkeys(("invalid_rows", "review_margin", "share"), _read_share),
    **dict.fromkeys(("weight", "holdout"), float),
    "frequency_cap": lambda cap: FrequencyCap(cap["messages"], parse_duration(cap["within"])),
    "rate": parse_rate,
    "cost": parse_money,
    "recipients": _read_audience_limit,
}
"""Readers of values that are written otherwise than they are kept, by key."""


def read_times(written: dict[str, Any]) -> Schedule:
    """Return a schedule; one with problems, which checks report at their places, is empty."""
    schedule = read_schedule(written)
    return schedule if isinstance(schedule, Schedule) else Schedule()


def read_consent(written: dict[str, Any]) -> Consent:
    """Return the consent of one person."""
    return Consent(written["source"], written.get("date"), _read_age(written))


def read_consent_columns(written: dict[str, Any]) -> ConsentColumns:
    """Return the columns of a file that tell of consent."""
    column, words = written.get("source_column") or written["column"], tuple(written.get("yes", ()))
    return ConsentColumns(column, written.get("date_column"), words, _read_age(written))


def _read_age(written: dict[str, Any]) -> timedelta | None:
    return parse_duration(written["not_older_than"]) if "not_older_than" in written else None
