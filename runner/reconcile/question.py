"""The question that a result answers, where the service does not say it in full.

What was sent has the questions in their order, with their tags and texts. A result names its question by tag,
text and order, and any of these may be missing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runner.ledger.report_model import ORDER_UNKNOWN
from runner.source.folding import fold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.service.model import ResultRecord


def is_told(result: ResultRecord) -> bool:
    """Return whether a result says itself which question it answers."""
    return bool(result.question_tag) and result.question_display_order is not None


def place_result(result: ResultRecord, definition: Mapping[str, Any], *, is_own: bool) -> ResultRecord | None:
    """Return a result with its question's tag and order, if it is certain which question that is.

    Args:
        result: as the service has it.
        definition: what its launch sent (wire facts, "Send body").
        is_own: whether that is on record: what the service says was sent may lack the questions.

    Returns:
        None if it may be the answer to one question or another.
    """
    listed = definition.get("questions")
    questions = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    place = _find_place(result, questions)
    tag = result.question_tag or (str(questions[place].get("tag") or "") if place is not None else "")
    if not tag and (questions or not is_own):
        return None
    order = result.question_display_order
    if order is None:
        order = ORDER_UNKNOWN if place is None else place
    return replace(result, question_tag=tag, question_display_order=order)


def _find_place(result: ResultRecord, questions: Sequence[dict[str, Any]]) -> int | None:
    if result.question_tag:
        found = {place for place, one in enumerate(questions) if one.get("tag") == result.question_tag}
    else:
        found = _find_worded(result.question_text, questions) & _find_ordered(result, len(questions))
    return found.pop() if len(found) == 1 else None


def _find_worded(text: str, questions: Sequence[dict[str, Any]]) -> set[int]:
    """Return the places of the questions with a text; all if the result has none."""
    folded = fold(text)
    return {
        place for place, one in enumerate(questions) if not folded or fold(str(one.get("text"))) == folded
    }


def _find_ordered(result: ResultRecord, count: int) -> set[int]:
    """Return the places that a result's order may mean: services count from 0 or from 1."""
    order = result.question_display_order
    return set(range(count)) if order is None else {order, order - 1}.intersection(range(count))
