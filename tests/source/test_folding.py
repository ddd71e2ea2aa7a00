"""Short texts brought to one spelling."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.source.normalize import normalize, normalize_to_word


@pytest.mark.parametrize(
    ("text", "folded", "word"),
    [
        ("Opt-out!", "opt out", "optout"),
        ("Ｓtop", "stop", "stop"),
        ("𝐒𝐓𝐎𝐏", "stop", "stop"),
        ("Don’t", "dont", "dont"),
        ("  Arrêtez...\nSVP ", "arretez svp", "arretezsvp"),
        ("_ _", "", ""),
    ],
)
def test_case_accents_width_blanks_and_punctuation_are_gone(text: str, folded: str, word: str) -> None:
    """What people vary without meaning anything by it makes no difference."""
    assert (normalize(text), normalize_to_word(text)) == (folded, word)


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    """A folded text is its own folding: words, one blank between them."""
    assert normalize(normalize(text)) == normalize(text)
    assert re.fullmatch(r"|\S+( \S+)*", normalize(text))
