"""Damage to phones is undone, and no digit is touched."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from runner.audience.phone import mend, parse_phone


@given(st.text(st.sampled_from([*"0123456789", *"+-() .,;'\"=<>", "\u200b", "\u00a0", "E"]), max_size=24))
def test_no_digit_is_lost(written: str) -> None:
    """Digits stay in their order; only zeros behind a decimal point go."""
    digits = "".join(filter(str.isdigit, written))
    kept = "".join(filter(str.isdigit, mend(written)))
    assert digits.startswith(kept)
    assert digits[len(kept) :] in ("", "0", "00")
    assert kept == digits or re.search("[.,]0", written)


@given(
    st.integers(2000000, 9999999), st.sampled_from(["'{}", '="{}"', "{}.0", " {}", "\u200b{}", "{};", "<{}>"])
)
def test_a_damaged_phone_is_itself(number: int, damage: str) -> None:
    """A phone is read the same before and after a spreadsheet had it."""
    assert parse_phone(damage.format(f"1415{number}"), "US") == parse_phone(f"1415{number}", "US")
