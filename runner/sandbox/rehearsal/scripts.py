"""What the owners of magic numbers write: pure functions from where they stand to their next text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.sandbox.conversation import match_response, write_choice

if TYPE_CHECKING:
    from runner.sandbox.model import Definition, Question

FREE_TEXT = "All good, thank you!"
LONG_TEXT = "Tout va bien 🎉 – " + "it works “every day”, even at 5 % battery; " * 8 + "شكرا"
NONSENSE = "blue bananas"
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Situation:
    """Where the owner of a magic number stands.

    Attributes:
        definition: the project that asks them something; None while nobody does.
        position: index of the question that waits, from 0.
        said: how many texts they have written since that question was first asked.
        has_news: whether something was sent to them since they last wrote.
        has_opted_out: whether they may not be texted.
    """

    definition: Definition | None
    position: int
    said: int
    has_news: bool
    has_opted_out: bool


def say_nothing(_situation: Situation) -> str | None:
    """Never write."""
    return None


def answer(situation: Situation, *, after: tuple[str, ...] = ()) -> str | None:
    """Answer each question rightly, once, after having said something else to it."""
    question = _find_question(situation)
    if question is None or situation.said > len(after):
        return None
    return after[situation.said] if situation.said < len(after) else choose_right_answer(question)


def answer_after_nonsense(situation: Situation) -> str | None:
    """Answer each choice with nonsense first; a freeform question would take that for the answer."""
    return answer(situation, after=(NONSENSE,) if _is_choice(situation) else ())


def never_understand(situation: Situation) -> str | None:
    """Answer choices with nonsense, three times each, and then no more."""
    return NONSENSE if _is_choice(situation) and situation.said < _TRIES else None


def ask_for_help(situation: Situation) -> str | None:
    """Write HELP to the first question, then answer."""
    return answer(situation, after=("HELP",) if situation.position == 0 else ())


def opt_out(situation: Situation) -> str | None:
    """Write STOP to whatever comes, also where nothing is asked."""
    return "STOP" if situation.has_news and not situation.has_opted_out else None


def opt_out_half_way(situation: Situation) -> str | None:
    """Answer the first question and write STOP to the second."""
    return opt_out(situation) if situation.definition and situation.position else answer(situation)


def come_and_go(situation: Situation) -> str | None:
    """Write STOP to whatever comes, and START when the time has come."""
    return "START" if situation.has_opted_out else opt_out(situation)


def answer_first(situation: Situation) -> str | None:
    """Answer the first question alone."""
    return None if situation.position else answer(situation)


def conclude(situation: Situation) -> str | None:
    """Answer so that the survey ends, where a question says how; rightly where none does."""
    question = _find_question(situation)
    if question is None or question.conclude_on is None or situation.said:
        return answer(situation)
    index = match_response(question.responses, question.conclude_on)
    return question.conclude_on if index is None else write_choice(question, index)


def write_at_length(situation: Situation) -> str | None:
    """Answer freeform questions with several segments of text in several scripts."""
    if _find_question(situation) is None or _is_choice(situation) or situation.said:
        return answer(situation)
    return LONG_TEXT


def choose_right_answer(question: Question) -> str:
    """Choose a valid answer: the first response that doesn't end the survey."""
    if not question.responses:
        return FREE_TEXT
    ending = None
    if question.conclude_on is not None:
        ending = match_response(question.responses, question.conclude_on)
    going_on = [index for index in range(len(question.responses)) if index != ending]
    return write_choice(question, going_on[0] if going_on else 0)


def _find_question(situation: Situation) -> Question | None:
    return situation.definition.questions[situation.position] if situation.definition else None


def _is_choice(situation: Situation) -> bool:
    question = _find_question(situation)
    return question is not None and bool(question.responses)
