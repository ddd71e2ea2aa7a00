"""Words of free texts: what is one, who counts, and what is never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.ledger.report_model import MessageTotals
from runner.report.answers import STOP_WORDS, list_frequent
from runner.report.facts import CampaignFacts, MessageOutline, QuestionOutline
from runner.report.question_model import WordCount
from tests.report.counted import count_rows, make_row

if TYPE_CHECKING:
    from collections.abc import Mapping

WHY = MessageOutline("ask", "tag", (QuestionOutline("why", "Why?", scale="text"),))


def count_words(text: str, people: int = 5) -> Mapping[str, int]:
    """Return the words that the engine finds if some people write the same."""
    rows = [make_row(f"p{number}", "why", text, text, guid=str(number)) for number in range(people)]
    tally = count_rows(CampaignFacts("pulse", "live", ((WHY, MessageTotals("ask")),)), rows)
    return tally.messages["ask"].questions["why"].words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Great SERVICE, great price!", {"great", "service", "price"}),
        ("I don’t know; 'tis what l'été’s like", {"don't", "know", "tis", "what", "l'été's", "like"}),
        ("rock-and-roll", {"rock", "and", "roll"}),
        ("it is so-so", set()),
        ("cafe\u0301 café", {"café"}),
        ("\u200fשלום", {"שלום"}),
        ("धन्यवाद मित्र", {"धन्यवाद", "मित्र"}),
        ("love❤️love 👍👍👍", {"love"}),
        ("1\ufe0f\u20e3one \u0301\u0301\u0301 5\u0301th", {"one"}),
        ("''' --- ...", set()),
        ("", set()),
    ],
)
def test_words_are_letters_and_inner_apostrophes(text: str, words: set[str]) -> None:
    """Case and composition don't matter, marks belong to letters, and fewer than three letters are no word."""
    assert count_words(text) == dict.fromkeys(words, 5)


@pytest.mark.parametrize(
    "text", ["+1 202 555 0147", "2025550147", "(202) 555-0147", "٠١٢٣٤٥٦٧٨٩", "AB12CD 4x4"]
)
def test_numbers_are_no_words(text: str) -> None:
    """Neither phone numbers nor codes come up, in whatever digits."""
    assert count_words(text) == {}


@pytest.mark.slow
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
@settings(max_examples=15)
def test_no_word_has_a_digit_or_a_blank(text: str) -> None:
    """Whatever people write, a word has three characters or more, no digit, and no blank."""
    for word, count in count_words(text).items():
        assert len(word) >= 3
        assert not any(char.isdecimal() or char.isspace() for char in word)
        assert count == 5


def test_frequent_words_come_first() -> None:
    """Words are listed by count, then by the alphabet, up to the limit."""
    counts = {"slow": 7, "price": 9, "food": 7, "queue": 8, "staff": 7}
    assert list_frequent(counts, limit=4) == (
        WordCount("price", 9),
        WordCount("queue", 8),
        WordCount("food", 7),
        WordCount("slow", 7),
    )


def test_rare_words_are_left_out() -> None:
    """What fewer than five people said could name one of them."""
    assert list_frequent({"smith": 4, "staff": 5}) == (WordCount("staff", 5),)
    assert list_frequent({"smith": 4}, least=4) == (WordCount("smith", 4),)


def test_words_that_say_nothing_are_left_out() -> None:
    """Function words are not listed, unless the caller has a list of other words."""
    counts = count_words("They don’t have the staff")
    assert list_frequent(counts) == (WordCount("staff", 5),)
    assert [word.word for word in list_frequent(counts, stop_words={"staff"})] == [
        "don't",
        "have",
        "the",
        "they",
    ]


def test_stop_words_are_words() -> None:
    """Every stop word is one that counting could come upon; another would be of no use."""
    assert set(count_words(" ".join(STOP_WORDS))) == STOP_WORDS
