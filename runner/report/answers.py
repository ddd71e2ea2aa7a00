"""Readings of answers: a response or a number, never a participant's own text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from runner.campaign.scales import read_points, read_scale_point
from runner.report.facts import AnswerReading
from runner.source.normalize import fold_answer
from runner.source.quantity import read_number

if TYPE_CHECKING:
    from fractions import Fraction

    from runner.report.facts import QuestionOutline


# An index, unlike a phone number or other digits that somebody typed into a freeform question.
_INDEX = re.compile(r"[1-9][0-9]{0,2}")

OWN_WORDS = AnswerReading()
"""A text of the participant's own, without further reading."""


AnswerReader = Callable[[str, str], AnswerReading]
"""A reader of the answers to one question: of a result with this `result_answer` and `result_response`."""


def build_reader(question: QuestionOutline) -> AnswerReader:
    """Return the reader for a question.

    Only `result_response` is matched to responses: the service alone knows what an index means. A freeform
    answer leaves nothing but its number, where the scale wants one.
    """
    conclusion = None if question.conclude_on is None else fold_answer(question.conclude_on)
    places: dict[str, int] = {}
    for number, text in enumerate(question.responses):
        places.setdefault(fold_answer(text), number)
    points = read_points(question.scale, question.responses, question.values)

    def read(answer: str, response: str) -> AnswerReading:
        key = fold_answer(response)
        concludes, place = key == conclusion, places.get(key)
        if not question.responses:
            wants_number = question.scale not in ("text", "choice")
            return AnswerReading(number=read_number(response) if wants_number else None, concludes=concludes)
        if place is not None:
            return AnswerReading(str(place + 1), question.responses[place], points[place], concludes)
        if _INDEX.fullmatch(answer.strip()):
            number = _read_stranger(question, response)
            return AnswerReading(answer.strip(), response.strip(), number, concludes)
        return AnswerReading(concludes=concludes)

    return read


def _read_stranger(question: QuestionOutline, response: str) -> Fraction | None:
    # Where places or values count, a response that is none of them has no number.
    if question.values or question.scale in ("csat", "ces"):
        return None
    return read_scale_point(response) if question.scale == "nps" else read_number(response)
