"""What renders cost."""

from __future__ import annotations

from fractions import Fraction

import pytest

from runner.ledger.report_model import ServicePlan
from runner.report.metrics import price_renders


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("12.50", Fraction(25, 2) * Fraction(25, 1000)),
        ("0", Fraction(0)),
        (" 40 ", Fraction(1)),
        ("", None),
        ("free", None),
        ("$12.50", None),
        ("12,50", None),
        ("1,250", None),
        (None, None),
        ("NaN", None),
        ("Infinity", None),
        ("-1", None),
        ("1e999999", None),
        ("9" * 400, None),
    ],
)
def test_a_price_that_is_one_is_shared_out(text: str | None, cost: Fraction | None) -> None:
    """A render costs its share of the plan's price; a price that is no plain decimal number is none."""
    found = price_renders(25, ServicePlan("gold", text, 1000, 0))
    assert found == (Fraction(25, 1000), cost)
