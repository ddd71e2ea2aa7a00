"""What is kept of an answer: which response it is, what number it reads as, never a text of one's own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from runner.report.facts import QuestionOutline

# Fifteen digits keep every value exact as a float, and a hostile answer from costing time.
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:[.,][0-9]{1,15})?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
# An index, as opposed to a phone number or other digits that somebody typed into a freeform question.
_INDEX = re.compile(r"[1-9][0-9]{0,2}")
_LABELLED_SCALES = frozenset({"nps", "csat", "ces"})
_POSITIONED_SCALES = frozenset({"csat", "ces"})


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What is kept of one answer. Equal by identity: a reader gives equal answers one and the same value.

    Attributes:
        answer: `result_answer` of a multiple-choice answer; empty for a freeform one.
        label: the response's text; None for a text of the participant's own, which is not kept.
        position: the 1-based place among the question's responses; None when it is none of them.
        number: what it counts as on the question's scale; None when it does not read as a number.
        concludes: whether it ends the survey.
    """

    answer: str = ""
    label: str | None = None
    position: int | None = None
    number: Fraction | None = None
    concludes: bool = False


OWN_WORDS = Reading()
"""A text of the participant's own, about which nothing more is known."""


class AnswerReader(Protocol):
    """Reads the answers to one question."""

    def read(self, answer: str, response: str) -> Reading:
        """Return what is kept of a result with this `result_answer` and `result_response`."""


def normalise(text: str) -> str:
    """Return a text as the service compares it: without regard to case and outer blanks (wire facts)."""
    return text.strip().casefold()


def read_number(text: str) -> Fraction | None:
    """Return the number that a whole text is, or None: `7`, `7.5`, `7,5`, `-1`, but not `1e3` or `seven`.

    A comma is a decimal one, as in most of Europe, unless it may as well part thousands: `1,500` is no
    number, since it is 1.5 to some and 1500 to others; `0,125` is, since no thousands begin with 0.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None or _THOUSANDS.fullmatch(found[0]):
        return None
    return Fraction(found[0].replace(",", "."))


def read_scale_point(label: str) -> Fraction | None:
    """Return the number that a label starts with, or None: 10 for `10`, `10 (very likely)`, `10: surely`."""
    found = _NUMBER.match(label.strip())
    if found is None or label.strip()[found.end() :][:1] not in ("", " ", ":", "(", ")", "="):
        return None
    return read_number(found[0])


def read_scale(question: QuestionOutline) -> tuple[Fraction | None, ...]:
    """Return what each response of a question counts as on its scale.

    Responses of a satisfaction or effort question that are words, if only one of them, count as their places.
    """
    read = read_scale_point if question.scale in _LABELLED_SCALES else read_number
    points = tuple(read(response) for response in question.responses)
    if question.scale in _POSITIONED_SCALES and None in points:
        return tuple(Fraction(place) for place in range(1, len(points) + 1))
    return points


def is_index(answer: str) -> bool:
    """Tell whether a `result_answer` can be the index of a response."""
    return _INDEX.fullmatch(answer.strip()) is not None


def build_reader(question: QuestionOutline | None) -> AnswerReader:
    """Return the reader for a question; None stands for one that only results know."""
    if question is None:
        return UnknownReader()
    return ChoiceReader(question) if question.responses else FreeformReader(question)


class ChoiceReader:
    """Matches answers to responses by `result_response`: what an index means is for the service to say."""

    def __init__(self, question: QuestionOutline) -> None:
        self._question = question
        self._conclusion = _read_conclusion(question)
        self._places: dict[str, int] = {}
        for place, response in enumerate(question.responses):
            self._places.setdefault(normalise(response), place)
        self._scale = read_scale(question)
        self._own_words = {concludes: Reading(concludes=concludes) for concludes in (False, True)}
        self._seen: dict[tuple[str, str], Reading] = {}

    def read(self, answer: str, response: str) -> Reading:
        """Return what is kept of a result with this `result_answer` and `result_response`."""
        reading = self._seen.get((answer, response))
        if reading is not None:
            return reading
        reading = self._match(answer, response)
        if reading.label is not None:
            self._seen[answer, response] = reading
        return reading

    def _match(self, answer: str, response: str) -> Reading:
        key = normalise(response)
        concludes = key == self._conclusion
        place = self._places.get(key)
        if place is not None:
            label = self._question.responses[place]
            return Reading(str(place + 1), label, place + 1, self._scale[place], concludes)
        if is_index(answer):
            return Reading(answer.strip(), response.strip(), None, self._read_stranger(response), concludes)
        return self._own_words[concludes]

    def _read_stranger(self, response: str) -> Fraction | None:
        # Where places count, a response without a place counts as nothing.
        if self._question.scale in _POSITIONED_SCALES:
            return None
        return read_scale_point(response) if self._question.scale == "nps" else read_number(response)


class FreeformReader:
    """Keeps the number that a freeform answer reads as, where the scale wants one, and nothing else."""

    def __init__(self, question: QuestionOutline) -> None:
        self._conclusion = _read_conclusion(question)
        self._wants_numbers = question.scale not in ("text", "choice")
        self._seen: dict[tuple[Fraction | None, bool], Reading] = {}

    def read(self, answer: str, response: str) -> Reading:
        """Return what is kept of a result with this `result_response`; its `result_answer` is the same."""
        del answer
        number = read_number(response) if self._wants_numbers else None
        key = (number, normalise(response) == self._conclusion)
        return self._seen.setdefault(key, Reading(number=key[0], concludes=key[1]))


class UnknownReader:
    """Reads answers to a question that the campaign does not have."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], Reading] = {}

    def read(self, answer: str, response: str) -> Reading:
        """Return what is kept of a result with this `result_answer` and `result_response`."""
        if not is_index(answer):
            return OWN_WORDS
        key = (answer.strip(), response.strip())
        return self._seen.setdefault(key, Reading(*key))


def _read_conclusion(question: QuestionOutline) -> str | None:
    return None if question.conclude_on is None else normalise(question.conclude_on)
