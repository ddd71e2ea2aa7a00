"""Rules of a conversation: pure functions from a definition and a text to renders and records."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from runner.sandbox.model import Definition, Kind, ServiceQuestion, SubStatus, Tally

SCALE_MIN_STEPS = 3
_TYPOGRAPHY = str.maketrans("’‘ʼ`´“”„«»–—‐‑−", "'" * 5 + '"' * 5 + "-" * 5)
_AROUND_MARKS = re.compile(r"\s*([\"-])\s*")


@dataclass(frozen=True, slots=True)
class Render:
    """A message or question as sent; plans charge for renders alone."""

    kind: Kind
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ParticipantAnswer:
    """A validated answer, as result records show it.

    `answer` is the response's 1-based index, `response` its text; both are a freeform answer as written.
    """

    answer: str = field(repr=False)
    response: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServiceTurn:
    """The service's next step in one session.

    Attributes:
        renders: in sending order.
        position: index of the question that now waits for an answer; None when the session is complete.
        answer: the recorded answer, if any.
        sub_status: the reason for an early end, if any.
    """

    renders: tuple[Render, ...]
    position: int | None
    answer: ParticipantAnswer | None = None
    sub_status: SubStatus | None = None

    def count(self) -> Tally:
        """Count this turn as stats do: asking again costs a render, but is no message or question."""
        kinds = [render.kind for render in self.renders]
        questions = kinds.count(Kind.QUESTION)
        return Tally(
            messages=len(kinds) - questions - kinds.count(Kind.REPEAT),
            questions=questions,
            renders=len(kinds),
            results=0 if self.answer is None else 1,
        )


def open_conversation(definition: Definition) -> ServiceTurn:
    """Start a session: introduction, text and first question; without questions, it is complete."""
    opening = _render_given((Kind.INTRODUCTION, definition.introduction), (Kind.TEXT, definition.text))
    return _ask(definition, 0, opening)


def continue_conversation(definition: Definition, position: int, text: str) -> ServiceTurn:
    """Take a text as the answer to the question at `position`; invalid choices are asked again."""
    question = definition.questions[position]
    answer = _read_answer(question, text)
    if answer is None:
        return ServiceTurn((Render(Kind.REPEAT, render_question(question)),), position)
    following = len(definition.questions) if _concludes(question, text) else position + 1
    turn = _ask(definition, following, ())
    skips = following > position + 1
    return ServiceTurn(turn.renders, turn.position, answer, SubStatus.CONCLUDED if skips else None)


def match_response(responses: tuple[str, ...], text: str) -> int | None:
    """Return the index, from 0, of the response that a text means; None if it means none.

    Words come before 1-based indices, so that "7" on a scale from "0" to "10" means 7. Case, blanks, Unicode
    forms (NFKC, Unicode Standard Annex 15), and the quotes and dashes that phones type do not matter.
    """
    folded = _fold(text)
    index = _index_responses(responses).get(folded)
    if index is not None:
        return index
    # Longer numbers are no index of any list, and int() refuses thousands of digits.
    if folded.isascii() and folded.isdecimal() and len(folded) <= len(str(len(responses))):
        index = int(folded) - 1
        return index if 0 <= index < len(responses) else None
    return None


def write_choice(question: ServiceQuestion, index: int) -> str:
    """Return the reply for the response at `index`: its number, which is no command word.

    A number that means another response, as on a scale from 0 to 10, is replaced by the response itself.
    """
    number = str(index + 1)
    is_plain = match_response(question.responses, number) == index and not is_scale(question.responses)
    return number if is_plain else question.responses[index]


def render_question(question: ServiceQuestion) -> str:
    """Return a question's text as sent, in a layout of our own.

    Three or more consecutive ascending integers show as a range, other responses as a numbered list.
    """
    if not question.responses:
        return question.text
    if is_scale(question.responses):
        return f"{question.text}\nReply {question.responses[0]}-{question.responses[-1]}"
    lines = [f"{number}. {response}" for number, response in enumerate(question.responses, 1)]
    return "\n".join([question.text, *lines])


def is_scale(responses: tuple[str, ...]) -> bool:
    """Return whether the responses are three or more consecutive ascending integers, written plainly."""
    try:
        numbers = [int(response) for response in responses]
    except ValueError:
        return False
    if len(numbers) < SCALE_MIN_STEPS or [str(number) for number in numbers] != list(responses):
        return False
    return all(after - before == 1 for before, after in pairwise(numbers))


def _ask(definition: Definition, position: int, before: tuple[Render, ...]) -> ServiceTurn:
    """Ask the question at `position`, or conclude if there is none."""
    if position < len(definition.questions):
        asked = Render(Kind.QUESTION, render_question(definition.questions[position]))
        return ServiceTurn((*before, asked), position)
    return ServiceTurn(before + _render_given((Kind.CONCLUSION, definition.conclusion)), None)


def _render_given(*parts: tuple[Kind, str | None]) -> tuple[Render, ...]:
    return tuple(Render(kind, text) for kind, text in parts if text)


def _read_answer(question: ServiceQuestion, text: str) -> ParticipantAnswer | None:
    if not question.responses:
        return ParticipantAnswer(text, text)
    index = match_response(question.responses, text)
    return None if index is None else ParticipantAnswer(str(index + 1), question.responses[index])


def _concludes(question: ServiceQuestion, text: str) -> bool:
    if question.conclude_on is None:
        return False
    if not question.responses:
        return _fold(text) == _fold(question.conclude_on)
    concluding = match_response(question.responses, question.conclude_on)
    return concluding is not None and concluding == match_response(question.responses, text)


@lru_cache(maxsize=256)
def _index_responses(responses: tuple[str, ...]) -> dict[str, int]:
    """Return each response's index by its folded words; the first of equal ones counts."""
    return {_fold(response): index for index, response in reversed(tuple(enumerate(responses)))}


def _fold(text: str) -> str:
    # Keyboards write é in one or two characters, digits in full width, and quotes and dashes of their own.
    plain = unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHY)).casefold()
    return " ".join(_AROUND_MARKS.sub(r"\1", plain).split())
