"""Lengths of time as campaigns, targets and command lines write them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from runner.source.quantity import parse_duration


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("2d", timedelta(days=2)),
        ("1h30m", timedelta(minutes=90)),
        ("1w2d3h4m5s6ms", timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5, milliseconds=6)),
        ("90m", timedelta(minutes=90)),
        ("1.5s", timedelta(seconds=1.5)),
        ("500ms", timedelta(milliseconds=500)),
        ("0s", timedelta()),
        ("99999w", timedelta(weeks=99_999)),
    ],
)
def test_a_length_is_numbers_with_their_units(written: str, length: timedelta) -> None:
    """Weeks, days, hours, minutes, seconds and milliseconds add up."""
    assert parse_duration(written) == length


ANYTHING_ELSE_IS_REFUSED: list[str] = [
    "",
    "10",
    "s",
    "-1s",
    "1 s",
    "1,5s",
    ".5s",
    "1e3s",
    "10S",
    "1s\n",
    "30m1h",
    "1d1d",
    "100000w",
    "٣s",
]


def test_anything_else_is_refused() -> None:
    """Blanks, signs, other cases, an order of its own and more than five digits are no length."""
    for written in ANYTHING_ELSE_IS_REFUSED:
        with pytest.raises(ValueError, match=f"^{re.escape(written)}$"):
            parse_duration(written)
