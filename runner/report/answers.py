"""Readings of answers: a response or a number, never a participant's own text; and frequent words."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from runner.campaign.scales import read_points, read_scale_point
from runner.report.facts import AnswerReading
from runner.report.question_model import WordCount
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


AnswerReader = Callable[[str, str], AnswerReading]
"""A reader of the answers to one question: of a result with this `result_answer` and `result_response`."""


def is_index(answer: str) -> bool:
    """Return whether a `result_answer` can be the index of a response."""
    return _INDEX.fullmatch(answer.strip()) is not None


def build_reader(question: QuestionOutline | None) -> AnswerReader:
    """Return the reader for a question; None stands for one that only results know.

    Only `result_response` is matched to responses: the service alone knows what an index means. A freeform
    answer leaves nothing but its number, where the scale wants one.
    """
    if question is None:
        return _read_unknown
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
        if is_index(answer):
            number = _read_stranger(question, response)
            return AnswerReading(answer.strip(), response.strip(), number, concludes)
        return AnswerReading(concludes=concludes)

    return read


def _read_stranger(question: QuestionOutline, response: str) -> Fraction | None:
    # Where places or values count, a response that is none of them has no number.
    if question.values or question.scale in ("csat", "ces"):
        return None
    return read_scale_point(response) if question.scale == "nps" else read_number(response)


def _read_unknown(answer: str, response: str) -> AnswerReading:
    return AnswerReading(answer.strip(), response.strip()) if is_index(answer) else OWN_WORDS


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
