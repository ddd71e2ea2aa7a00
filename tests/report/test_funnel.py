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


def steps_of(
    outline: MessageOutline, paths: dict[tuple[str, str], int], reached: dict[str, int]
) -> list[tuple[str, int, int, int, int | None]]:
    found = follow_questions(outline, paths, {}, reached)
    return [(step.tag, step.asked, step.answered, step.unaccounted, step.broke_off) for step in found]


def test_each_question_is_asked_of_those_who_went_on() -> None:
    """Who ended the survey, or answered nothing, is asked nothing more; breaks are told but of the last one."""
    paths = {("", "---"): 1, ("", "a--"): 2, ("", "c--"): 4, ("", "aa-"): 8, ("", "aaa"): 16}
    assert steps_of(ONE_WAY, paths, {"x": 40}) == [
        ("x", 40, 30, 0, 2),
        ("y", 26, 24, 0, 8),
        ("z", 24, 16, 0, None),
    ]
    assert count_completed(ONE_WAY, paths) == {"": 20}


def test_nobody_has_stopped_whose_session_is_open() -> None:
    """Who has not answered further may still do so: only ended sessions are broken off."""
    paths, still = {("", "a--"): 5, ("", "aa-"): 4}, {("", "a--"): 2, ("", "aa-"): 4}
    steps = follow_questions(ONE_WAY, paths, still, {"x": 9})
    assert [step.broke_off for step in steps] == [3, 0, None]


def test_arms_that_begin_with_other_questions_add_up() -> None:
    """As the first question of an arm it reaches everybody of the arm; as a further one, those who went on."""
    paths = {("a", "aa-"): 3, ("a", "a--"): 2, ("b", "--a"): 4, ("b", "a-a"): 5, ("c", "-a-"): 6}
    assert steps_of(ARMS, paths, {"x": 10, "z": 20, "y": 30}) == [
        ("x", 10 + 9, 5 + 5, 0, 2),
        ("y", 30 + 5, 6 + 3, 0, None),
        ("z", 20, 9, 0, 4),
    ]
    assert count_completed(ARMS, paths) == {"a": 3, "b": 5, "c": 6}


def test_an_arm_that_is_no_more_asks_as_the_first_one() -> None:
    """Who was sent to by an arm that the campaign has dropped is counted with the first arm's questions."""
    assert steps_of(ARMS, {("gone", "aa-"): 2}, {"x": 2}) == [
        ("x", 2, 2, 0, 0),
        ("y", 2, 2, 0, None),
        ("z", 0, 0, 0, 0),
    ]
    assert count_completed(ARMS, {("gone", "aa-"): 2}) == {"gone": 2}


def test_whoever_answered_was_asked() -> None:
    """Answers that nothing led to are counted as asked, and apart."""
    paths = {("", "-a-"): 1, ("", "ca-"): 2, ("", "--a"): 4}
    assert steps_of(ONE_WAY, paths, {"x": 1}) == [("x", 2, 2, 1, 0), ("y", 3, 3, 3, 3), ("z", 7, 4, 4, None)]


@pytest.mark.parametrize("outline", [ONE_WAY, ARMS])
def test_without_answers_only_the_first_is_asked(outline: MessageOutline) -> None:
    """Nobody is asked more than the first question, who has answered nothing."""
    assert [(tag, asked) for tag, asked, *_ in steps_of(outline, {}, {"x": 7})] == [
        ("x", 7),
        ("y", 0),
        ("z", 0),
    ]
    assert count_completed(outline, {}) == {}


def test_a_text_has_no_steps() -> None:
    """A message without questions has no funnel, and nobody completes it."""
    plain = MessageOutline("ask", "tag")
    assert steps_of(plain, {("", ""): 3}, {}) == []
    assert count_completed(plain, {("", ""): 3}) == {"": 0}
