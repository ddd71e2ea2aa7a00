"""A message as a recipient's phone shows it, text by text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.campaign.payload import Definition, question_as_asked
from runner.campaign.segment import SegmentCount, count_segments

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Bubble:
    """One text of a conversation.

    Attributes:
        part: `text`, `introduction`, `question` or `conclusion`.
        question_tag: of a question.
        text: as it arrives, choices included.
        segments: how it goes over the air.
        responses: the allowed answers; empty for a freeform question and for what is no question.
        conclude_on: the answer after which the conclusion follows at once.
    """

    part: str
    text: str
    segments: SegmentCount
    question_tag: str | None = None
    responses: tuple[str, ...] = ()
    conclude_on: str | None = None


def iterate_bubbles(definition: Definition) -> Iterator[Bubble]:
    """Yield the texts of a rendered message in the order in which they arrive."""
    for part in ("text", "introduction"):
        if part in definition:
            yield _bubble(part, definition[part])
    for question in definition.get("questions", []):
        responses = question.get("responses", [])
        text = question_as_asked(question["text"], responses)
        yield Bubble(
            "question",
            text,
            count_segments(text),
            question["tag"],
            tuple(responses),
            question.get("conclude_on"),
        )
    if "conclusion" in definition:
        yield _bubble("conclusion", definition["conclusion"])


def _bubble(part: str, text: str) -> Bubble:
    return Bubble(part, text, count_segments(text))
