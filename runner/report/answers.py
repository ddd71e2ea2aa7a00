"""Readings of answers: a response or a number, never a participant's own text; and frequent words."""

from __future__ import annotations

import heapq
import re
from typing import TYPE_CHECKING, Protocol

from runner.campaign.scales import read_points, read_scale_point
from runner.report.facts import AnswerReading
from runner.report.model import WordCount
from runner.source.normalize import fold_answer
from runner.source.quantity import read_number

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from fractions import Fraction

    from runner.report.facts import QuestionOutline


# An index, unlike a phone number or other digits that somebody typed into a freeform question.
_INDEX = re.compile(r"[1-9][0-9]{0,2}")

OWN_WORDS = AnswerReading()
"""A text of the participant's own, without further reading."""


class AnswerReader(Protocol):
    """A reader of the answers to one question."""

    def read(self, answer: str, response: str) -> AnswerReading:
        """Return the reading of a result with this `result_answer` and `result_response`."""


def is_index(answer: str) -> bool:
    """Return whether a `result_answer` can be the index of a response."""
    return _INDEX.fullmatch(answer.strip()) is not None


def build_reader(question: QuestionOutline | None) -> AnswerReader:
    """Return the reader for a question; None stands for one that only results know."""
    if question is None:
        return UnknownReader()
    return ChoiceReader(question) if question.responses else FreeformReader(question)


class ChoiceReader:
    """A reader that matches `result_response` to responses: only the service knows what an index means."""

    def __init__(self, question: QuestionOutline) -> None:
        self._question = question
        self._conclusion = _read_conclusion(question)
        self._places: dict[str, int] = {}
        for place, response in enumerate(question.responses):
            self._places.setdefault(fold_answer(response), place)
        self._scale = read_points(question.scale, question.responses, question.values)
        self._own_words = {concludes: AnswerReading(concludes=concludes) for concludes in (False, True)}
        self._seen: dict[tuple[str, str], AnswerReading] = {}

    def read(self, answer: str, response: str) -> AnswerReading:
        """Return the reading of a result."""
        reading = self._seen.get((answer, response))
        if reading is not None:
            return reading
        reading = self._match(answer, response)
        if reading.label is not None:
            self._seen[answer, response] = reading
        return reading

    def _match(self, answer: str, response: str) -> AnswerReading:
        key = fold_answer(response)
        concludes = key == self._conclusion
        place = self._places.get(key)
        if place is not None:
            label = self._question.responses[place]
            return AnswerReading(str(place + 1), label, place + 1, self._scale[place], concludes)
        if is_index(answer):
            return AnswerReading(
                answer.strip(), response.strip(), None, self._read_stranger(response), concludes
            )
        return self._own_words[concludes]

    def _read_stranger(self, response: str) -> Fraction | None:
        # Where places or values count, a response that is none of them has no number.
        if self._question.values or self._question.scale in ("csat", "ces"):
            return None
        return read_scale_point(response) if self._question.scale == "nps" else read_number(response)


class FreeformReader:
    """A reader that keeps only the number of a freeform answer, where the scale wants one."""

    def __init__(self, question: QuestionOutline) -> None:
        self._conclusion = _read_conclusion(question)
        self._wants_numbers = question.scale not in ("text", "choice")
        self._seen: dict[tuple[Fraction | None, bool], AnswerReading] = {}

    def read(self, answer: str, response: str) -> AnswerReading:
        """Return the reading of a result with this `result_response`; its `result_answer` is the same."""
        del answer
        number = read_number(response) if self._wants_numbers else None
        key = (number, fold_answer(response) == self._conclusion)
        return self._seen.setdefault(key, AnswerReading(number=key[0], concludes=key[1]))


class UnknownReader:
    """A reader of answers to a question that the campaign does not have."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], AnswerReading] = {}

    def read(self, answer: str, response: str) -> AnswerReading:
        """Return the reading of a result."""
        if not is_index(answer):
            return OWN_WORDS
        key = (answer.strip(), response.strip())
        return self._seen.setdefault(key, AnswerReading(*key))


def _read_conclusion(question: QuestionOutline) -> str | None:
    return None if question.conclude_on is None else fold_answer(question.conclude_on)


LEAST_LENGTH = 3
"""Shorter words say little: of, is, no."""

_FUNCTION_WORDS = """
    about above after again all also although always among and another any anybody anyone anything are
    aren't around because been before being below between both but can can't cannot could couldn't did
    didn't does doesn't doing don't down during each either else even ever every everybody everyone
    everything few for from further had hadn't has hasn't have haven't having he'd he'll he's her here
    hers herself him himself his how however i'd i'll i'm i've into isn't it'd it'll it's its itself just
    let's many may might mine more most much must myself neither nor not now off once one only onto other
    others our ours ourselves out over own per quite rather really same shall she she'd she'll she's
    should shouldn't since some somebody someone something still such than that that's the their theirs
    them themselves then there there's these they they'd they'll they're they've this those though through
    thus too toward towards under until upon very was wasn't we'd we'll we're we've were weren't what
    what's when where whether which while who who's whoever whom whose why will with within without won't
    would wouldn't yet you you'd you'll you're you've your yours yourself yourselves
"""

STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English function words: pronouns, articles, prepositions, conjunctions, auxiliaries and their contractions.
Our own choice, and few: showing a dull word does less harm than hiding a telling one."""


def list_frequent(
    counts: Mapping[str, int],
    limit: int = 20,
    least: int = 5,
    stop_words: Collection[str] = STOP_WORDS,
) -> tuple[WordCount, ...]:
    """Return the most frequent words, the most frequent first, then by the alphabet; none for a limit of 0.

    `counts` are participants by word, in small letters. Words of fewer than `least` are left out: few
    people's words may name one of them.
    """
    frequent = ((-count, word) for word, count in counts.items() if count >= least and word not in stop_words)
    return tuple(WordCount(word, -negated) for negated, word in heapq.nsmallest(limit, frequent))
