"""What to write instead of characters that GSM-7 lacks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.segment import count_segments
from runner.campaign.substitute import advise, describe_character, find_substitute, write_plainly


@pytest.mark.parametrize(
    ("characters", "plain"),
    [
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
        ("½", "1/2"),
        ("²", "2"),
        ("™", "TM"),
        ("ﬁ", "fi"),
        ("Ａ𝐀Α", "A"),
        ("→", "->"),
        ("≤", "<="),
        ("₹", "INR"),
        ("\u2028", "\n"),
        ("é", "é"),
        ("€", "€"),
    ],
)
def test_what_a_word_processor_leaves_has_a_plain_neighbour(characters: str, plain: str) -> None:
    """Typographic and accented characters have the neighbour that a person would write."""
    assert {character: find_substitute(character) for character in characters} == dict.fromkeys(
        characters, plain
    )


def test_letters_of_other_scripts_have_none() -> None:
    """What GSM-7 cannot say at all is said to be so, not dropped."""
    assert [find_substitute(character) for character in "日жωא"] == [None] * 4


@given(st.characters())
def test_a_substitute_is_gsm_7(character: str) -> None:
    """Whatever the character, what to write instead needs no UCS-2, and its name never fails."""
    plain = find_substitute(character)
    assert plain is None or count_segments(plain).encoding == "GSM-7"
    assert describe_character(character)


@given(st.text(st.sampled_from("a é’—…\u00a0😀á{"), max_size=200))
def test_a_plain_text_takes_no_more_segments(text: str) -> None:
    """Replacing all that can be replaced leaves a GSM-7 text that is as cheap or cheaper."""
    before, after = count_segments(text), count_segments(write_plainly(text))
    assert after.encoding == "GSM-7"
    assert after.segments <= before.segments


def test_what_has_no_substitute_stays() -> None:
    """A text of another script keeps its letters, and stays UCS-2."""
    assert write_plainly("“日”") == '"日"'


def test_an_accent_that_gsm_7_has_on_its_letter_is_kept() -> None:
    """Letters that macOS writes in two characters are composed before anything is left out."""
    assert write_plainly("Cafe\u0301 pin\u0303ata C\u0327a, ge\u0302ne") == "Café piñata Ça, gene"


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (
            ("’", 1203, 3609, 2406),
            "’ (RIGHT SINGLE QUOTATION MARK) makes 1,203 recipients' texts UCS-2: 3,609 segments instead of 2,406 with every such character replaced; write ' instead",
        ),
        (
            ("😀", 1, 2, 1),
            "😀 (GRINNING FACE) makes 1 recipient's text UCS-2: 2 segments instead of 1 with every such character replaced; leave it out",
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
            "U+FE0F (VARIATION SELECTOR-16) makes 1 recipient's text UCS-2: 1 segment, and no fewer with every such character replaced; leave it out",
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
            "ж (CYRILLIC SMALL LETTER ZHE) makes 5 recipients' texts UCS-2: 10 segments, and no fewer with what can be replaced; GSM-7 has nothing like it",
        ),
        (
            ("中", 1, 5, 4),
            "中 (CJK UNIFIED IDEOGRAPH-4E2D) makes 1 recipient's text UCS-2: 5 segments instead of 4 with what can be replaced; GSM-7 has nothing like it",
        ),
    ],
)
def test_the_advice(numbers: tuple[str, int, int, int], words: str) -> None:
    """Advice names the character, the people, the cost, and what to write."""
    assert advise(*numbers) == words
