"""Results that do not say in full which question they answer."""

from __future__ import annotations

from typing import Any

import pytest

from runner.ledger.report_model import ORDER_UNKNOWN
from runner.reconcile.ingest import place_result
from runner.service.model import ResultRecord

SURVEY = {
    "questions": [
        {"tag": "nps", "text": "How likely is it,\nfrom 0 to 10?"},
        {"tag": "why", "text": "What's the reason?"},
        {"tag": "who", "text": "And who?"},
        {"tag": "again", "text": "And who?"},
    ]
}


def make_answer(tag: str = "", text: str = "", order: int | None = None) -> ResultRecord:
    return ResultRecord("r", "l", "+14155550101", "", tag, text, order, "", "Because", "", "")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        # By its tag alone, wherever the service begins to count.
        (make_answer("why"), ("why", 1)),
        (make_answer("why", "And who?", 7), ("why", 7)),
        # By its text, however it is written.
        (make_answer(text=" How likely is it,\r\nfrom 0 to 10? "), ("nps", 0)),
        (make_answer(text="What’s the reason?"), ("why", 1)),
        (make_answer(text="What's the reason?", order=2), ("why", 2)),
        # By an order that means one question only: the first from 0, or the last from 1.
        (make_answer(order=0), ("nps", 0)),
        (make_answer(order=4), ("again", 4)),
        (make_answer(text="And who?", order=4), ("again", 4)),
        (make_answer(text="And who?", order=2), ("who", 2)),
        # A tag that was not sent is what the service says it is.
        (make_answer("other"), ("other", ORDER_UNKNOWN)),
        # Of these it may be one or another, or none.
        (make_answer(), None),
        (make_answer(order=1), None),
        (make_answer(order=9), None),
        (make_answer(text="And who?"), None),
        (make_answer(text="And who?", order=3), None),
        (make_answer(text="Something else?"), None),
        (make_answer(text="What's the reason?", order=0), None),
    ],
)
def test_a_question_is_found_only_if_it_is_certain(
    answer: ResultRecord, expected: tuple[str, int] | None
) -> None:
    """Tag, text and order, each as far as it is told, must leave one question."""
    placed = place_result(answer, SURVEY, is_own=True)
    found = placed and (placed.question_tag, placed.question_display_order)
    assert found == expected


@pytest.mark.parametrize("definition", [{}, {"text": "Hello"}, {"questions": None}, {"questions": ["?"]}])
def test_what_a_service_says_of_a_survey_may_lack_its_questions(definition: dict[str, Any]) -> None:
    """Only what is on record tells for certain that nothing was asked."""
    assert place_result(make_answer(), definition, is_own=False) is None
    placed = place_result(make_answer(), definition, is_own=True)
    assert placed is not None
    assert (placed.question_tag, placed.question_display_order) == ("", ORDER_UNKNOWN)
