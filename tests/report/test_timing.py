"""Durations in words."""

from __future__ import annotations

from fractions import Fraction

import pytest

from runner.report.documents.wording import format_duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ("0", "0 s"),
        ("0.49", "0 s"),
        ("-0.49", "0 s"),
        ("0.5", "1 s"),
        ("42", "42 s"),
        ("59.5", "1 min"),
        ("200", "3 min 20 s"),
        ("180", "3 min"),
        ("3599.4", "59 min 59 s"),
        ("3599.5", "1 h"),
        ("18600", "5 h 10 min"),
        ("18629", "5 h 10 min"),
        ("18630", "5 h 11 min"),
        ("86369", "23 h 59 min"),
        ("86370", "1 d"),
        ("183600", "2 d 3 h"),
    ],
)
def test_durations_are_said_in_two_units(seconds: str, words: str) -> None:
    """The largest unit and the one below it, rounded; what is rounded up to a larger unit is said in it."""
    assert format_duration(Fraction(seconds)) == words
