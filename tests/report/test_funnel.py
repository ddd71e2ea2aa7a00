"""The funnel: who was asked what, way by way, against a walk through single participants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.ledger.report_model import MessageTotals
from runner.report.facts import MessageOutline, QuestionOutline
from tests.report.counted import build_facts, count_rows, make_contact, make_row

if TYPE_CHECKING:
    from collections.abc import Mapping

QUESTIONS = {tag: QuestionOutline(tag, f"{tag}?", scale="text", endings=("stop",)) for tag in "xyz"}
X, Y, Z = QUESTIONS.values()
ONE_WAY = MessageOutline("ask", "tag", (X, Y, Z))
ARMS = MessageOutline("ask", "tag", (X, Y, Z), {"a": (X, Y), "b": (Z, X), "c": (Y,)})


def follow(
    outline: MessageOutline, paths: Mapping[tuple[str, str], int], texted: Mapping[str, int]
) -> tuple[dict[str, tuple[int, int]], int]:
    """Return who was asked each question and who answered it, by its tag, and who completed.

    `paths` have participants by arm and path: for each question `-` not answered, `a` answered, `c` in a way
    that ends the survey. `texted` are people by arm, those with the longest paths first.
    """
    rows, arms = [], {}
    for (arm, path), count in sorted(paths.items(), key=lambda item: item[0][1], reverse=True):
        for number in range(count):
            person = f"{arm}{path}{number}"
            arms[person] = arm
            said = {"a": "so", "c": "stop"}
            given = [(tag, said[step]) for tag, step in zip(QUESTIONS, path, strict=True) if step in said]
            rows += [
                make_row(person, tag, words, words, arm=arm, guid=f"{person}{tag}") for tag, words in given
            ]
    contacts = []
    for arm, count in texted.items():
        names = [person for person, own in arms.items() if own == arm] + [
            f"{arm}{one}" for one in range(count)
        ]
        contacts += [make_contact(person, arm=arm) for person in names[:count]]
    facts = build_facts((outline, MessageTotals("ask")))
    tally = count_rows(facts, rows, contacts).messages["ask"]
    steps = {tag: (tally.asked[tag], sum(counts.values())) for tag, counts in tally.questions.items()}
    return steps, tally.completed


def test_each_question_is_asked_of_those_who_went_on() -> None:
    """Who ended the survey, or answered nothing, is asked nothing more."""
    paths = {("", "---"): 1, ("", "a--"): 2, ("", "c--"): 4, ("", "aa-"): 8, ("", "aaa"): 16}
    assert follow(ONE_WAY, paths, {"": 40}) == ({"x": (40, 30), "y": (26, 24), "z": (24, 16)}, 20)


def test_arms_that_begin_with_other_questions_add_up() -> None:
    """As the first question of an arm it reaches everybody of the arm; as a further one, those who went on."""
    paths = {("a", "aa-"): 3, ("a", "a--"): 2, ("b", "--a"): 4, ("b", "a-a"): 5, ("c", "-a-"): 6}
    assert follow(ARMS, paths, {"a": 10, "b": 20, "c": 30}) == (
        {"x": (10 + 9, 5 + 5), "y": (30 + 5, 6 + 3), "z": (20, 9)},
        14,
    )


def test_an_arm_that_is_no_more_asks_as_the_first_one() -> None:
    """Who was sent to by an arm that the campaign has dropped is counted with the first arm's questions."""
    found = follow(ARMS, {("gone", "aa-"): 2}, {"gone": 2})
    assert found == ({"x": (2, 2), "y": (2, 2), "z": (0, 0)}, 2)


def test_whoever_answered_was_asked() -> None:
    """Answers that nothing led to are counted as asked."""
    paths = {("", "-a-"): 1, ("", "ca-"): 2, ("", "--a"): 4}
    assert follow(ONE_WAY, paths, {"": 1})[0] == {"x": (2, 2), "y": (3, 3), "z": (7, 4)}


@pytest.mark.parametrize("outline", [ONE_WAY, ARMS])
def test_without_answers_only_the_first_is_asked(outline: MessageOutline) -> None:
    """Nobody is asked more than the first question, who has answered nothing."""
    arm = next(iter(outline.all_ways))
    assert follow(outline, {}, {arm: 7}) == ({"x": (7, 0), "y": (0, 0), "z": (0, 0)}, 0)


def test_a_text_has_no_steps() -> None:
    """A message without questions has no funnel, and nobody completes it."""
    assert follow(MessageOutline("ask", "tag"), {("", "---"): 3}, {"": 3}) == ({}, 0)
