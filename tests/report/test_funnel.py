"""The funnel: who was asked what, way by way, against a walk through single participants."""

from __future__ import annotations

import pytest

from runner.report.facts import MessageOutline, QuestionOutline, WayOutline
from runner.report.funnel import count_completed, follow_questions

QUESTIONS = {tag: QuestionOutline(tag, f"{tag}?", scale="text") for tag in "xyz"}
X, Y, Z = QUESTIONS.values()
ONE_WAY = MessageOutline("ask", "tag", (X, Y, Z))
ARMS = MessageOutline(
    "ask", "tag", (X, Y, Z), (WayOutline("a", (X, Y)), WayOutline("b", (Z, X)), WayOutline("c", (Y,)))
)


def test_each_question_is_asked_of_those_who_went_on() -> None:
    """Who ended the survey, or answered nothing, is asked nothing more."""
    paths = {("", "---"): 1, ("", "a--"): 2, ("", "c--"): 4, ("", "aa-"): 8, ("", "aaa"): 16}
    assert follow_questions(ONE_WAY, paths, {"x": 40}) == {"x": (40, 30), "y": (26, 24), "z": (24, 16)}
    assert count_completed(ONE_WAY, paths) == 20


def test_arms_that_begin_with_other_questions_add_up() -> None:
    """As the first question of an arm it reaches everybody of the arm; as a further one, those who went on."""
    paths = {("a", "aa-"): 3, ("a", "a--"): 2, ("b", "--a"): 4, ("b", "a-a"): 5, ("c", "-a-"): 6}
    assert follow_questions(ARMS, paths, {"x": 10, "z": 20, "y": 30}) == {
        "x": (10 + 9, 5 + 5),
        "y": (30 + 5, 6 + 3),
        "z": (20, 9),
    }
    assert count_completed(ARMS, paths) == 14


def test_an_arm_that_is_no_more_asks_as_the_first_one() -> None:
    """Who was sent to by an arm that the campaign has dropped is counted with the first arm's questions."""
    found = follow_questions(ARMS, {("gone", "aa-"): 2}, {"x": 2})
    assert found == {"x": (2, 2), "y": (2, 2), "z": (0, 0)}
    assert count_completed(ARMS, {("gone", "aa-"): 2}) == 2


def test_whoever_answered_was_asked() -> None:
    """Answers that nothing led to are counted as asked."""
    paths = {("", "-a-"): 1, ("", "ca-"): 2, ("", "--a"): 4}
    assert follow_questions(ONE_WAY, paths, {"x": 1}) == {"x": (2, 2), "y": (3, 3), "z": (7, 4)}


@pytest.mark.parametrize("outline", [ONE_WAY, ARMS])
def test_without_answers_only_the_first_is_asked(outline: MessageOutline) -> None:
    """Nobody is asked more than the first question, who has answered nothing."""
    assert follow_questions(outline, {}, {"x": 7}) == {"x": (7, 0), "y": (0, 0), "z": (0, 0)}
    assert count_completed(outline, {}) == 0


def test_a_text_has_no_steps() -> None:
    """A message without questions has no funnel, and nobody completes it."""
    plain = MessageOutline("ask", "tag")
    assert follow_questions(plain, {("", ""): 3}, {}) == {}
    assert count_completed(plain, {("", ""): 3}) == 0
