"""The rules of a conversation, pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.sandbox.conversation import (
    continue_conversation,
    match_response,
    open_conversation,
)
from runner.sandbox.model import Definition, Kind, ServiceQuestion

COLOURS = ("Red", "Blue", "Green")
SCALE = tuple(str(score) for score in range(11))


@pytest.mark.parametrize(
    ("responses", "text", "index"),
    [
        (COLOURS, "Red", 0),
        (COLOURS, "  bLuE\n", 1),
        (COLOURS, "3", 2),
        (COLOURS, " 1 ", 0),
        (COLOURS, "0", None),
        (COLOURS, "4", None),
        (COLOURS, "-1", None),
        (COLOURS, "1.0", None),
        (COLOURS, "２", 1),
        (("Cafe\u0301", "Thé"), "CAF\u00c9", 0),
        (("Don't know", "Great"), "Don’t know", 0),
        (('I said "no"', "Great"), "I said « no »", 0),
        (('I said "no"', "Great"), "i said “no”", 0),
        (("1 - 3 times", "more"), "1–3 times", 0),
        (("Not sure...", "Sure"), "Not sure…", 0),
        (("x" * 5000, "y"), "Y", 1),
        (COLOURS, "9" * 10_000, None),
        (COLOURS, "", None),
        (COLOURS, "maybe", None),
        (SCALE, "7", 7),
        (SCALE, "0", 0),
        (SCALE, "10", 10),
        (SCALE, "11", 10),
        (SCALE, "12", None),
        (("Straße",), "STRASSE", 0),
        (("yes", "Yes"), "YES", 0),
    ],
)
def test_response_is_matched_by_words_then_by_number(
    responses: tuple[str, ...], text: str, index: int | None
) -> None:
    """A text means the response of the same words, else the one of that number, else none."""
    assert match_response(responses, text) == index


@pytest.mark.parametrize(
    ("question", "text", "concludes"),
    [
        (ServiceQuestion("Q", responses=COLOURS, conclude_on="blue"), "Blue", True),
        (ServiceQuestion("Q", responses=COLOURS, conclude_on="blue"), "2", True),
        (ServiceQuestion("Q", responses=COLOURS, conclude_on="2"), " BLUE ", True),
        (ServiceQuestion("Q", responses=COLOURS, conclude_on="blue"), "Red", False),
        (ServiceQuestion("Q", responses=COLOURS, conclude_on="none of them"), "Red", False),
        (ServiceQuestion("Q", responses=SCALE, conclude_on="0"), "0", True),
        (ServiceQuestion("Q", conclude_on="Stop it"), " stop IT ", True),
        (ServiceQuestion("Q", conclude_on="Stop it"), "go on", False),
    ],
)
def test_conclude_on_skips_the_rest(question: ServiceQuestion, text: str, *, concludes: bool) -> None:
    """An answer that matches conclude_on is recorded, and only the conclusion follows."""
    definition = Definition(
        "{}", questions=(question, ServiceQuestion("Next"), ServiceQuestion("Last")), conclusion="Bye"
    )
    turn = continue_conversation(definition, 0, text)
    assert turn.answer is not None
    assert [render.text for render in turn.renders] == (["Bye"] if concludes else ["Next"])
    assert turn.position == (None if concludes else 1)


def test_invalid_answer_is_asked_again() -> None:
    """An invalid answer records nothing and is asked again: a render more, and no new question."""
    turn = continue_conversation(
        Definition("{}", questions=(ServiceQuestion("Q", responses=COLOURS),)), 0, "maybe"
    )
    assert (turn.answer, turn.position) == (None, 0)
    assert [(render.kind, render.text) for render in turn.renders] == [
        (Kind.REPEAT, "Q\n1. Red\n2. Blue\n3. Green")
    ]
    assert (turn.count().renders, turn.count().questions, turn.count().messages) == (1, 0, 0)


questions = st.builds(
    ServiceQuestion,
    text=st.just("Q"),
    responses=st.sampled_from([(), COLOURS, SCALE]),
    conclude_on=st.sampled_from([None, "Red", "3", "never"]),
)
replies = st.lists(st.sampled_from(["Red", "blue", "3", "maybe", "0", "11", "", "never"]), max_size=30)


@given(asked=st.lists(questions, min_size=1, max_size=6), texts=replies, has_frame=st.booleans())
def test_any_replies_lead_forward(asked: list[ServiceQuestion], texts: list[str], *, has_frame: bool) -> None:
    """Whatever is replied, answers come in question order and the counts add up."""
    introduction, conclusion = ("Hi", "Bye") if has_frame else (None, None)
    definition = Definition("{}", questions=tuple(asked), introduction=introduction, conclusion=conclusion)
    turn = open_conversation(definition)
    tally, invalid, answered = turn.count(), 0, []
    for text in texts:
        if turn.position is None:
            break
        position = turn.position
        turn = continue_conversation(definition, position, text)
        tally = tally.plus(turn.count())
        if turn.answer is None:
            invalid += 1
        else:
            answered.append(position)
    is_complete = turn.position is None
    assert answered == list(range(len(answered)))
    assert tally.results == len(answered)
    assert tally.questions == len(answered) + (not is_complete)
    assert tally.messages == has_frame * (1 + is_complete)
    assert tally.renders == tally.messages + tally.questions + invalid
