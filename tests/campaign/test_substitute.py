"""What to write instead of characters that GSM-7 lacks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.text.segment import (
    advise,
    count_segments,
    describe_character,
    find_substitute,
    write_choices_plainly,
    write_plainly,
)

WHAT_A_WORD_PROCESSOR_LEAVES_HAS_A_PLAIN_NEIGHBO: list[tuple[str, str]] = [
    ("‘’‚‛′´`ʼ", "'"),
    ("“”„«»″", '"'),
    ("‐‑‒–—―−•·", "-"),
    ("…", "..."),
    ("\u00a0\u2009\u202f\u3000\u1680\t", " "),
    ("\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe0f\u0301", ""),
    ("😀✓❤☎🏽", ""),
    ("á", "a"),
    ("Ğ", "G"),
    ("ç", "c"),
    ("ł", "l"),
    ("œ", "oe"),
    ("ª", "a"),
    ("™", "(TM)"),
    ("№", "No."),
    ("ﬁ", "fi"),
    ("Ａ𝐀Α", "A"),
    ("→", "->"),
    ("≤", "<="),
    ("₹", "INR"),
    ("\u2028", "\n"),
    ("é", "é"),
    ("€", "€"),
]


def test_what_a_word_processor_leaves_has_a_plain_neighbour() -> None:
    """Typographic and accented characters have the neighbour that a person would write."""
    for characters, plain in WHAT_A_WORD_PROCESSOR_LEAVES_HAS_A_PLAIN_NEIGHBO:
        assert {character: find_substitute(character) for character in characters} == dict.fromkeys(
            characters, plain
        )


def test_letters_of_other_scripts_have_none() -> None:
    """What GSM-7 cannot say at all is said to be so, not dropped."""
    assert [find_substitute(character) for character in "日жωא"] == [None] * 4


def test_what_would_say_something_else_has_none() -> None:
    """A sign that is struck through, or a figure that would run into others, is not replaced by half of it."""
    for character in "≯≮≰₂½²ⁿ①‰∦\u0338\u20e0\u0941\u2064˗¨":
        assert find_substitute(character) is None


A_PLAIN_TEXT_SAYS_THE_SAME: list[tuple[str, str]] = [
    ("a ≯ b", "a ≯ b"),
    ("a > \u0338b", "a > \u0338b"),
    ("👍", "👍"),
    ("Thanks 👍", "Thanks "),
    ("日 → …", "日 → …"),
    ("日 ’", "日 '"),
]


def test_a_plain_text_says_the_same() -> None:
    """Figures stay apart from each other, and what cannot be GSM-7 is not made longer in vain."""
    for text, plain in A_PLAIN_TEXT_SAYS_THE_SAME:
        assert write_plainly(text) == plain


@pytest.mark.parametrize(
    ("choices", "plain"),
    [
        (["Yes 👍", "No 👎"], ["Yes ", "No "]),
        (["👍", "👎"], ["👍", "👎"]),
        (["👍 good", "👎 good"], ["👍 good", "👎 good"]),
        (["¼…", "½"], ["¼…", "½"]),
        (["👍", "Fine…"], ["👍", "Fine..."]),
        ([], []),
    ],
)
def test_choices_stay_apart(choices: list[str], plain: list[str]) -> None:
    """Pictures that tell two choices from each other are not left out."""
    assert write_choices_plainly(choices) == plain


@given(st.characters())
def test_a_substitute_is_gsm_7(character: str) -> None:
    """Whatever the character, what to write instead needs no UCS-2, and its name never fails."""
    plain = find_substitute(character)
    assert plain is None or count_segments(plain).encoding == "GSM-7"
    assert describe_character(character)


@given(st.text(st.sampled_from("a é’—…\u00a0😀á{"), max_size=200))
def test_a_plain_text_takes_no_more_segments(text: str) -> None:
    """Replacing all that can be replaced leaves a GSM-7 text, unless it is but pictures, as cheap or cheaper."""
    before, after = count_segments(text), count_segments(write_plainly(text))
    assert after.encoding == "GSM-7" or not text.replace("😀", "").strip()
    assert after.segments <= before.segments


def test_what_has_no_substitute_stays() -> None:
    """A text of another script keeps its letters, and stays UCS-2."""
    assert write_plainly("“日”") == '"日"'


def test_an_accent_that_gsm_7_has_on_its_letter_is_kept() -> None:
    """Letters that macOS writes in two characters are composed before anything is left out."""
    assert write_plainly("Cafe\u0301 pin\u0303ata C\u0327a, ge\u0302ne") == "Café piñata Ça, gene"


THE_ADVICE: list[tuple[tuple[str, int, int, int], str]] = [
    (
        ("’", 1203, 3609, 2406),
        "’ (RIGHT SINGLE QUOTATION MARK) makes 1,203 recipients' texts UCS-2: 3,609 segments instead of 2,406 with every such character replaced; write ' instead",
    ),
    (
        ("😀", 1, 2, 1),
        "😀 (GRINNING FACE) makes 1 recipient's text UCS-2: 2 segments instead of 1 with every such character replaced; say it in words, or leave it out",
    ),
    (
        ("\u00a0", 2, 4, 2),
        "U+00A0 (NO-BREAK SPACE) makes 2 recipients' texts UCS-2: 4 segments instead of 2 with every such character replaced; write a blank instead",
    ),
    (
        ("\u2028", 2, 4, 2),
        "U+2028 (LINE SEPARATOR) makes 2 recipients' texts UCS-2: 4 segments instead of 2 with every such character replaced; write a line break instead",
    ),
    (
        ("\t", 2, 4, 2),
        "U+0009 makes 2 recipients' texts UCS-2: 4 segments instead of 2 with every such character replaced; write a blank instead",
    ),
    (
        ("\ufe0f", 1, 1, 1),
        "U+FE0F (VARIATION SELECTOR-16) makes 1 recipient's text UCS-2: 1 segment, and no fewer with all replaced that can be",
    ),
    (
        ("\u0301", 2, 4, 2),
        "U+0301 (COMBINING ACUTE ACCENT) makes 2 recipients' texts UCS-2: 4 segments instead of 2 with every such character replaced; write letter and accent as one character (NFC), as in é",
    ),
    (
        ("\u0302", 2, 4, 2),
        "U+0302 (COMBINING CIRCUMFLEX ACCENT) makes 2 recipients' texts UCS-2: 4 segments instead of 2 with every such character replaced; leave it out",
    ),
    (
        ("ж", 5, 10, 10),
        "ж (CYRILLIC SMALL LETTER ZHE) makes 5 recipients' texts UCS-2: 10 segments, and no fewer with all replaced that can be",
    ),
    (
        ("中", 1, 5, 4),
        "中 (CJK UNIFIED IDEOGRAPH-4E2D) makes 1 recipient's text UCS-2: 5 segments instead of 4 with what can be replaced; GSM-7 has nothing like it",
    ),
]


def test_the_advice() -> None:
    """Advice names the character, the people, the cost, and what to write."""
    for numbers, words in THE_ADVICE:
        assert advise(*numbers) == words
