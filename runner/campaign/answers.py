"""Answers read as responses: by the response's text, as the service returns it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runner.campaign.scales import NO_POINT, read_points
from runner.source.normalize import fold_answer
from runner.source.quantity import read_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.campaign.model import ResponseValue, Scale

    AnswerReader = Callable[[str, str, str, str], "AnswerValue | None"]
    """A reader of answers by question, message and arm (empty for none), and the service's response."""


class AnswerValue(NamedTuple):
    """An answer's response, as its label, and the value on the scale; None for what is not known."""

    label: str | None
    value: ResponseValue | None


def build_value_reader(
    scale: Scale, responses: Sequence[str], values: Sequence[ResponseValue | None]
) -> Callable[[str], AnswerValue]:
    """Return the reader of answers to a question, by their `result_response`."""
    points = read_points(scale, responses, values)
    given = values or (None,) * len(responses)
    known = {
        fold_answer(label): AnswerValue(label, "none" if value == NO_POINT else point)
        for label, point, value in zip(responses, points, given, strict=True)
    }

    def read(response: str) -> AnswerValue:
        if responses:
            return known.get(fold_answer(response), AnswerValue(None, None))
        return AnswerValue(None, read_number(response))

    return read
