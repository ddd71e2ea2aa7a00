"""Rates as campaigns and targets write them."""

from __future__ import annotations

import pytest

from runner.source.quantity import parse_rate


@pytest.mark.parametrize(
    ("written", "rate"),
    [("20/s", 20.0), ("600/m", 10.0), ("1.5/m", 0.025), ("3600/h", 1.0), ("0.5/s", 0.5)],
)
def test_a_rate_is_sends_a_second(written: str, rate: float) -> None:
    """A rate of a second, a minute or an hour is told in sends a second."""
    assert parse_rate(written) == pytest.approx(rate)
