"""Damage to phones is undone, and no digit is touched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.audience.phone import mend, parse_phone

DAMAGE_IS_NAMED_AND_UNDONE: list[tuple[str, str, tuple[str, ...]]] = [
    ("+14155550101", "+14155550101", ()),
    ("(415) 555-0101", "(415) 555-0101", ()),
    ("01.23.45.67.00", "01.23.45.67.00", ()),
    ("'+14155550101", "+14155550101", ("apostrophe",)),
    ("’+14155550101", "+14155550101", ("apostrophe",)),
    ('="+14155550101"', "+14155550101", ("formula",)),
    ("=14155550101", "14155550101", ("formula",)),
    ("14155550101.0", "14155550101", ("decimal",)),
    ("14155550101,00", "14155550101", ("decimal",)),
    ("14,155,550,101", "14155550101", ("thousands",)),
    ("14.155.550.101", "14155550101", ("thousands",)),
    ("\u202a+14155550101\u202c", "+14155550101", ("invisible",)),
    ("\u00a0+14155550101 ", "+14155550101", ("blanks",)),
    ("<+14155550101>;", "+14155550101", ("punctuation",)),
    (" '14155550101.0", "14155550101", ("blanks", "apostrophe", "decimal")),
    ("+14155550101#", "+14155550101#", ()),
    ("1.4155E+10", "1.4155E+10", ()),
]


def test_damage_is_named_and_undone() -> None:
    """What a program added goes, and is named; what a person wrote stays."""
    for written, text, damage in DAMAGE_IS_NAMED_AND_UNDONE:
        mended = mend(written)
        assert (mended.text, mended.damage) == (text, damage)


@given(st.text(st.sampled_from([*"0123456789", *"+-() .,;'\"=<>", "\u200b", "\u00a0", "E"]), max_size=24))
def test_no_digit_is_lost(written: str) -> None:
    """Digits stay in their order; only zeros behind a decimal point go."""
    digits = "".join(filter(str.isdigit, written))
    kept = "".join(filter(str.isdigit, mend(written).text))
    assert digits.startswith(kept)
    assert digits[len(kept) :] in ("", "0", "00")
    assert "decimal" in mend(written).damage or kept == digits


@given(
    st.integers(2000000, 9999999), st.sampled_from(["'{}", '="{}"', "{}.0", " {}", "\u200b{}", "{};", "<{}>"])
)
def test_a_damaged_phone_is_itself(number: int, damage: str) -> None:
    """A phone is read the same before and after a spreadsheet had it."""
    assert parse_phone(damage.format(f"1415{number}"), "US") == parse_phone(f"1415{number}", "US")
