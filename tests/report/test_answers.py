"""What is kept of an answer."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.campaign.scales import read_points, read_scale_point
from runner.report.columns.replies import build_reader
from runner.report.facts import QuestionOutline
from runner.source.quantity import read_number

if TYPE_CHECKING:
    from runner.report.question_model import Scale

COLOURS = QuestionOutline("colour", "Which?", ("Red", "Green", "Blue"), endings=(" red ",))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", Fraction(7)),
        (" 7.5 ", Fraction(15, 2)),
        ("-1", Fraction(-1)),
        ("+3", Fraction(3)),
        ("7,5", Fraction(15, 2)),
        ("-12,25", Fraction(-49, 4)),
        ("0,125", Fraction(1, 8)),
        ("1234,567", Fraction(1234567, 1000)),
        ("1,500", None),
        ("1.234,5", Fraction(12345, 10)),
        ("-1,234.50", Fraction(-12345, 10)),
        ("1 234,5", Fraction(12345, 10)),
        ("1\N{NARROW NO-BREAK SPACE}234\N{NARROW NO-BREAK SPACE}567.8", Fraction(12345678, 10)),
        ("12.345.678,9", Fraction(123456789, 10)),
        ("1.234.567", None),
        ("1.234.567.5", None),
        ("1 234", None),
        ("1 234.567,8", None),
        ("1.23,5", None),
        ("0.234,5", None),
        ("1234.567,8", None),
        ("1 2,5", None),
        ("7,", None),
        ("1.500", Fraction(3, 2)),
        ("1e9", None),
        ("1" * 16, None),
        ("seven", None),
        ("\N{ARABIC-INDIC DIGIT SEVEN}", Fraction(7)),
        ("nan", None),
        ("", None),
    ],
)
def test_only_plain_numbers_read_as_numbers(text: str, number: Fraction | None) -> None:
    """A text is a number when it is digits, with a sign and decimals, if it can be read in one way alone."""
    assert read_number(text) == number


@given(st.text())
@settings(max_examples=30)
def test_no_text_breaks_the_reading_of_numbers(text: str) -> None:
    """Whatever somebody answers, reading it as a number gives a number or None."""
    assert read_number(text) is None or isinstance(read_number(text), Fraction)
    assert read_scale_point(text) is None or isinstance(read_scale_point(text), Fraction)


@pytest.mark.parametrize(
    ("label", "point"),
    [
        ("10", 10),
        ("10 (very likely)", 10),
        ("0: never", 0),
        ("5=best", 5),
        ("2,5 h", Fraction(5, 2)),
        ("10-20", None),
        ("1st", None),
    ],
)
def test_labels_count_as_the_number_they_start_with(label: str, point: Fraction | int | None) -> None:
    """A scale's label may explain its number, but a range or an ordinal is no number."""
    assert read_scale_point(label) == point


@pytest.mark.parametrize(
    ("scale", "responses", "points"),
    [
        ("csat", ("Bad", "Fair", "Good"), (1, 2, 3)),
        ("ces", ("1 hard", "2", "easy"), (1, 2, None)),
        ("csat", ("Good", "Fair", "Bad"), (None, None, None)),
        ("csat", ("5", "3", "1"), (5, 3, 1)),
        ("number", ("none", "1", "2"), (None, 1, 2)),
        ("nps", ("0 (no)", "1", "never"), (0, 1, None)),
    ],
)
def test_a_scale_reads_its_responses_alike(
    scale: Scale, responses: tuple[str, ...], points: tuple[int | None, ...]
) -> None:
    """Responses count as numbers; known words of csat and ces count by place, if they get better."""
    assert read_points(scale, responses) == points


@pytest.mark.parametrize("response", ["Green", "green", "  GREEN\n"])
@pytest.mark.parametrize("answer", ["2", "3", "Green", ""])
def test_answers_match_by_text_and_not_by_index(response: str, answer: str) -> None:
    """A response is known by its text, whatever its case, blanks and index."""
    reading = build_reader(COLOURS)(answer, response)
    assert (reading.answer, reading.label) == ("2", "Green")


def test_a_numeric_response_is_not_taken_for_an_index() -> None:
    """The response "2" of a scale from 0 is the third one, though its index reads 3."""
    scale = QuestionOutline("q", "?", ("0", "1", "2"), "nps")
    reading = build_reader(scale)("3", "2")
    assert (reading.answer, reading.number) == ("3", Fraction(2))


def test_conclusions_are_recognised_as_the_service_does() -> None:
    """An answer concludes when it is one of the `endings`, without regard to case and outer blanks."""
    reader = build_reader(COLOURS)
    assert reader("1", "RED").concludes
    assert not reader("2", "Green").concludes
    words = build_reader(QuestionOutline("q", "?", scale="text", endings=("no",)))
    assert words("No ", "No ").concludes


@pytest.mark.parametrize("text", ["my name is Ada", "4155550123", "", "0", "1.5"])
def test_words_of_ones_own_are_not_kept(text: str) -> None:
    """A text that nobody could choose leaves no trace in a reading, whatever was asked."""
    freeform = QuestionOutline("q", "?", scale="text")
    for question in (COLOURS, freeform):
        reading = build_reader(question)(text, text)
        assert (reading.answer, reading.label, reading.number) == ("", None, None)
