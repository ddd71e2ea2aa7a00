"""A message as a recipient's phone shows it, text by text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from runner.campaign.outgoing import question_as_asked
from runner.campaign.segment import SegmentCount, count_segments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.campaign.draft import Definition

AnswerKind = Literal["valid", "conclude_on", "invalid"]


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


@dataclass(frozen=True, slots=True)
class Turn:
    """How a conversation goes on after an answer (wire facts, "Question").

    Attributes:
        kind: what is answered: something valid, what concludes the survey, or something else.
        answers: those that are meant; empty for any.
        then: the text that follows; the same question after an invalid answer; None at the end.
        skipped: questions that are left out.
    """

    kind: AnswerKind
    answers: tuple[str, ...]
    then: Bubble | None
    skipped: int = 0


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


def iterate_turns(bubbles: Sequence[Bubble], place: int) -> Iterator[Turn]:
    """Yield how a conversation can go on after one of its texts.

    Args:
        bubbles: the whole conversation.
        place: where in it the text is, from 0. What is no question has no turns.
    """
    bubble, rest = bubbles[place], bubbles[place + 1 :]
    if bubble.part != "question":
        return
    ending = bubble.conclude_on
    others = tuple(answer for answer in bubble.responses if not _is_same(answer, ending))
    if others or not bubble.responses:
        yield Turn("valid", others, rest[0] if rest else None)
    if ending is not None:
        skipped = sum(later.part == "question" for later in rest)
        conclusion = next((later for later in rest if later.part == "conclusion"), None)
        yield Turn("conclude_on", (ending,), conclusion, skipped)
    if bubble.responses:
        yield Turn("invalid", (), bubble)


def _is_same(answer: str, ending: str | None) -> bool:
    return ending is not None and answer.strip().casefold() == ending.strip().casefold()
