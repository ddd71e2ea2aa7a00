"""Answers of the service, read as responses: in any language, by the lines of the list, and never by a guess."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runner.campaign.answers import build_value_reader, find_endings, find_places
from runner.report.columns.replies import build_reader
from runner.report.facts import QuestionOutline
from runner.source.normalize import fold_answer

if TYPE_CHECKING:
    from runner.campaign.message_model import ResponseValue

TEXTS = st.lists(
    st.lists(st.text("abÉßﬁ سيئ1٢’'", min_size=1, max_size=5).filter(str.strip), min_size=3, max_size=3),
    min_size=2,
    max_size=5,
)
"""Responses, each in three languages."""
SATISFIED = (("Good", "Bien", "جيد"), ("Bad", "Mal", "سيئ"), ("Can't say", "No sé", "لا أعرف"))
VALUES: tuple[ResponseValue, ...] = (Fraction(2), Fraction(1), "none")


def is_clear(responses: list[list[str]]) -> bool:
    """Tell whether no text is that of two responses."""
    texts = [{fold_answer(text) for text in one} for one in responses]
    return sum(map(len, texts)) == len(set().union(*texts))


@pytest.mark.slow
@given(TEXTS, st.data())
def test_a_response_is_read_in_any_language(responses: list[list[str]], data: st.DataObject) -> None:
    """It gives the response's place, whatever its case, outer blanks and the index beside it."""
    assume(is_clear(responses))
    place = data.draw(st.integers(0, len(responses) - 1))
    text = data.draw(st.sampled_from(responses[place]))
    said = data.draw(st.sampled_from((text, text.upper(), text.lower(), f" {text}\n")))
    assume(fold_answer(said) == fold_answer(text))
    answer = data.draw(st.sampled_from(("", "1", "2", "99", text)))
    question = QuestionOutline(
        "q", "?", tuple(one[0] for one in responses), translations=tuple(map(tuple, responses))
    )
    reading = build_reader(question)(answer, said)
    assert (reading.answer, reading.label) == (str(place + 1), responses[place][0])
    assert build_value_reader("choice", responses, ())(said).label == responses[place][0]


@given(TEXTS)
def test_a_text_of_two_responses_is_neither(responses: list[list[str]]) -> None:
    """What is one response in a language and another one in a second language is not guessed."""
    places = find_places(responses)
    for place, texts in enumerate(responses):
        for text in map(fold_answer, texts):
            others = responses[:place] + responses[place + 1 :]
            is_shared = text in {fold_answer(other) for one in others for other in one}
            assert places.get(text) == (None if is_shared else place)


@pytest.mark.parametrize(
    ("answer", "response"), [("2", ""), ("2", "2"), ("", " 2 "), ("2", "MAL"), ("1", "سيئ")]
)
def test_a_line_is_read_as_its_response(answer: str, response: str) -> None:
    """The number of a line is what the service takes: alone, it counts as the response in that line."""
    question = QuestionOutline(
        "q", "?", tuple(one[0] for one in SATISFIED), "csat", values=VALUES, translations=SATISFIED
    )
    reading = build_reader(question)(answer, response)
    assert (reading.answer, reading.label, reading.number) == ("2", "Bad", Fraction(1))
    found = build_value_reader("csat", SATISFIED, VALUES)(response or answer)
    assert found == ("Bad", Fraction(1))


@pytest.mark.parametrize(
    ("responses", "said", "place"),
    [
        (("0", "1", "2"), "2", 2),
        (("0", "1", "2"), "3", None),
        (("5 (best)", "4", "3 (worst)"), "3", None),
        (("5 (best)", "4", "3 (worst)"), "4", 1),
        (("1 (bad)", "2", "3 (good)"), "3", 2),
        (("Yes", "No"), "3", None),
        (("Yes", "No"), "0", None),
    ],
)
def test_a_number_that_could_be_another_response_is_no_line(
    responses: tuple[str, ...], said: str, place: int | None
) -> None:
    """Where responses begin with the numbers of other lines, a number alone would be either."""
    assert find_places([(text,) for text in responses]).get(said) == place


def test_an_ending_is_one_in_all_languages() -> None:
    """An answer in any language, or by its line, ends the survey as the response does."""
    labels = tuple(one[0] for one in SATISFIED)
    question = QuestionOutline("q", "?", labels, translations=SATISFIED, endings=SATISFIED[1])
    read = build_reader(question)
    assert all(read("2", text).concludes for text in (*SATISFIED[1], "2", ""))
    assert not any(read("1", text).concludes for text in (*SATISFIED[0], "1", ""))


def test_an_ending_that_could_be_another_response_is_none() -> None:
    """What would mean two responses ends no survey, and what is no response does by itself."""
    responses = (("Sole", "Solo"), ("Later", "Sole"))
    assert find_endings(responses, ("Sole", "Solo")) == {"solo", "1"}
    assert find_endings(responses, ("Stop it",)) == {"stop it"}
    assert find_endings((), ("No",)) == {"no"}
