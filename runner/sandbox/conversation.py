"""How a conversation goes on: pure rules, from a definition and a text to what is rendered and recorded."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from runner.sandbox.model import Definition, Kind, Question, SubStatus, Tally

SCALE_MIN_STEPS = 3
_KEPT_MAX = 4096  # characters of responses whose index is kept in memory


@dataclass(frozen=True, slots=True)
class Render:
    """A message or question turned into content that is sent; plans charge for renders alone."""

    kind: Kind
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A validated answer, as result records show it.

    Attributes:
        answer: the 1-based index of the response as text, or a freeform answer as written.
        response: the response's own text, or a freeform answer as written.
    """

    answer: str = field(repr=False)
    response: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the service does next in one session.

    Attributes:
        renders: what is sent, in order.
        position: index of the question that now waits for an answer; None when the session is complete.
        answer: what was recorded, if anything.
        sub_status: why the session ended before its last question, if it did.
    """

    renders: tuple[Render, ...]
    position: int | None
    answer: Answer | None = None
    sub_status: SubStatus | None = None

    def count(self) -> Tally:
        """Count this turn as stats do.

        Messages are the renders that ask nothing; questions are those asked for the first time; asking again
        costs a render and is neither.
        """
        kinds = [render.kind for render in self.renders]
        questions = kinds.count(Kind.QUESTION)
        return Tally(
            messages=len(kinds) - questions - kinds.count(Kind.REPEAT),
            questions=questions,
            renders=len(kinds),
            results=0 if self.answer is None else 1,
        )


def open_conversation(definition: Definition) -> Turn:
    """Start a session: the introduction and the text, if any, then the first question.

    Returns:
        The first turn. A definition without questions is complete with it.
    """
    opening = _render_given((Kind.INTRODUCTION, definition.introduction), (Kind.TEXT, definition.text))
    return _ask(definition, 0, opening)


def continue_conversation(definition: Definition, position: int, text: str) -> Turn:
    """Take a participant's text as the answer to the question at `position`.

    An invalid answer to a multiple-choice question is asked again. A match of `conclude_on` skips the
    remaining questions.
    """
    question = definition.questions[position]
    answer = _read_answer(question, text)
    if answer is None:
        return Turn((Render(Kind.REPEAT, render_question(question)),), position)
    following = len(definition.questions) if _concludes(question, text) else position + 1
    turn = _ask(definition, following, ())
    skips = following > position + 1
    return Turn(turn.renders, turn.position, answer, SubStatus.CONCLUDED if skips else None)


def match_response(responses: tuple[str, ...], text: str) -> int | None:
    """Find the response that a text means: by its own words first, else by its 1-based index.

    Words come first so that "7" on a scale from "0" to "10" means 7. Case, outer blanks and the ways in which
    Unicode writes the same characters (NFKC, Unicode Standard Annex 15) do not matter.

    Returns:
        The index from 0, or None if the text means none of them.
    """
    folded = _fold(text)
    is_small = sum(map(len, responses)) <= _KEPT_MAX
    index = (_index_kept if is_small else _index_responses)(responses).get(folded)
    if index is not None:
        return index
    # A longer number is no index of any list, and int() refuses to read one of several thousand digits.
    if folded.isascii() and folded.isdecimal() and len(folded) <= len(str(len(responses))):
        index = int(folded) - 1
        return index if 0 <= index < len(responses) else None
    return None


def write_choice(question: Question, index: int) -> str:
    """Write a response by its number, which is no command word, unless the number means another response.

    A scale's is written as itself: who is asked for 0 to 10 writes "10", though "11" would mean the same.

    Args:
        question: a multiple-choice one.
        index: of the response, from 0.
    """
    number = str(index + 1)
    is_plain = match_response(question.responses, number) == index and not is_scale(question.responses)
    return number if is_plain else question.responses[index]


def render_question(question: Question) -> str:
    """Turn a question into the text that is sent (the reference shows none: our own decision).

    Three or more consecutive ascending integers show as a range, other responses as a numbered list.
    """
    if not question.responses:
        return question.text
    if is_scale(question.responses):
        return f"{question.text}\nReply {question.responses[0]}-{question.responses[-1]}"
    lines = [f"{number}. {response}" for number, response in enumerate(question.responses, 1)]
    return "\n".join([question.text, *lines])


def is_scale(responses: tuple[str, ...]) -> bool:
    """Tell whether the responses are three or more consecutive ascending integers, written plainly."""
    try:
        numbers = [int(response) for response in responses]
    except ValueError:
        return False
    if len(numbers) < SCALE_MIN_STEPS or [str(number) for number in numbers] != list(responses):
        return False
    return all(after - before == 1 for before, after in pairwise(numbers))


def _ask(definition: Definition, position: int, before: tuple[Render, ...]) -> Turn:
    """Ask the question at `position`, or conclude when there is none left."""
    if position < len(definition.questions):
        asked = Render(Kind.QUESTION, render_question(definition.questions[position]))
        return Turn((*before, asked), position)
    return Turn(before + _render_given((Kind.CONCLUSION, definition.conclusion)), None)


def _render_given(*parts: tuple[Kind, str | None]) -> tuple[Render, ...]:
    return tuple(Render(kind, text) for kind, text in parts if text)


def _read_answer(question: Question, text: str) -> Answer | None:
    if not question.responses:
        return Answer(text, text)
    index = match_response(question.responses, text)
    return None if index is None else Answer(str(index + 1), question.responses[index])


def _concludes(question: Question, text: str) -> bool:
    if question.conclude_on is None:
        return False
    if not question.responses:
        return _fold(text) == _fold(question.conclude_on)
    concluding = match_response(question.responses, question.conclude_on)
    return concluding is not None and concluding == match_response(question.responses, text)


def _index_responses(responses: tuple[str, ...]) -> dict[str, int]:
    """Give each response's place by its folded words; the first counts where two are the same."""
    return {_fold(response): index for index, response in reversed(tuple(enumerate(responses)))}


_index_kept = lru_cache(maxsize=512)(_index_responses)


def _fold(text: str) -> str:
    # NFKC: phones and keyboards write é in one character or in two, and digits in their full width.
    return unicodedata.normalize("NFKC", text).strip().casefold()
