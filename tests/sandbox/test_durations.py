"""Lengths of time, as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.sandbox.clock import format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("50ms", timedelta(milliseconds=50)),
        ("1h30m", timedelta(minutes=90)),
        ("2d", timedelta(days=2)),
        (" 1W ", timedelta(days=7)),
        ("0.5s", timedelta(seconds=0.5)),
    ],
)
def test_lengths_are_read(written: str, length: timedelta) -> None:
    """Numbers with units add up, whatever their case."""
    assert parse_duration(written) == length


@pytest.mark.parametrize("written", ["", "2", "d", "2 d", "-2d", "2y", "1e3s", "٢d"])
def test_other_words_are_refused(written: str) -> None:
    """What is no length of time is refused."""
    with pytest.raises(ValueError, match="no length of time"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["999999999w", "1s999999999w"])
def test_absurd_lengths_are_told_apart(written: str) -> None:
    """What is a length of time, and an absurd one, is refused for that."""
    with pytest.raises(ValueError, match="is too long"):
        parse_duration(written)


@given(st.integers(0, 100 * 365 * 86_400))
def test_writing_and_reading_are_inverse(seconds: int) -> None:
    """What is written in whole seconds is read back as it was."""
    length = timedelta(seconds=seconds)
    assert parse_duration(format_duration(length)) == length
