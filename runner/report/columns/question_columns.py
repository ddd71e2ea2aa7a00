"""Questions and answer readings as tables of the engine, and statements that count groups.

Participants' own words are never a group. The engine keeps candidates, and the readers of
`runner.report.answers` decide which of them are kept.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.report.answers import build_reader
from runner.report.columns.engine import quote
from runner.source.normalize import fold_answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.report.columns.engine import Engine
    from runner.report.facts import AnswerReading, MessageOutline, QuestionOutline


_MOST_STRANGERS = 1000
"""Responses kept that a question does not have: the rarest beyond these count as own words."""

OWN_WORDS_NUMBER = 0
"""The number of the reading of all answers that are not kept."""

_READINGS = {
    "arm": "VARCHAR",
    "place": "INTEGER",
    "answer": "VARCHAR",
    "response": "VARCHAR",
    "reading": "INTEGER",
}
# Replies that opt out, or answer nothing, are no answers to any question. Answers to questions that the
# campaign does not have are at no place; who gave them has answered.
_ANSWERS = """
CREATE OR REPLACE TEMP VIEW replies AS
SELECT r.*, asked.place, asked.kind FROM named r
LEFT JOIN asked ON asked.arm = r.arm AND asked.question_tag = r.question_tag WHERE r.message = {};
CREATE OR REPLACE TEMP VIEW answers AS SELECT * FROM replies WHERE NOT refuses;
"""
# Answers that are not kept, and unknown ones that are too rare, share the reading of answers in own words. Of
# one person, the answer with the highest rank is the latest: by time, then by guid.
_READ_REPLIES = f"""
CREATE OR REPLACE TEMP VIEW read_replies AS
SELECT replies.*, created_us::HUGEINT * 4294967296 + nth AS rank,
  coalesce(readings.reading, {OWN_WORDS_NUMBER}) AS reading
FROM replies LEFT JOIN readings ON readings.arm = replies.arm AND readings.place = replies.place
  AND readings.answer = replies.answer AND readings.response = replies.response;
CREATE OR REPLACE TEMP VIEW read_answers AS SELECT * FROM read_replies WHERE NOT refuses;
"""
# The offer and a question's kind follow from the other columns: they split no group.
_CANDIDATES = f"""
SELECT answers.arm, answers.place, answer, response
FROM answers LEFT JOIN offered ON offered.arm = answers.arm AND offered.place = answers.place
  AND offered.folded = answers.folded
WHERE offered.folded IS NOT NULL
  OR (is_index AND kind = 'choice')
  OR (is_number AND kind = 'number')
GROUP BY answers.arm, answers.place, answer, response, kind, offered.folded
QUALIFY kind = 'number' OR offered.folded IS NOT NULL OR row_number() OVER (
  PARTITION BY answers.arm, answers.place ORDER BY count(*) DESC, answer, response) <= {_MOST_STRANGERS}
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """The questions of one message, numbered by their places here.

    Attributes:
        questions: the campaign's, in its order.
        unknown: answers to questions that the campaign does not have, by tag.
        arms: of the results, empty for a message without arms.
        results: of all questions, with those that are no answers.
        refusals: those that are no answers: they opt out, or answer nothing.
        non_answers: those that answer nothing.
    """

    questions: tuple[QuestionOutline, ...]
    unknown: Mapping[str, int]
    arms: tuple[str, ...]
    results: int
    refusals: int = 0
    non_answers: int = 0


def list_asked(outline: MessageOutline, found: Sequence[tuple[Any, ...]]) -> Asked:
    """Return the questions of a message.

    `found` counts its results by whether they are no answers, whether they say nothing, by arm and question
    tag.
    """
    known = {question.tag for question in outline.questions}
    strange: Counter[str] = Counter()
    for refuses, _, _, tag, count in found:
        if not refuses and tag not in known:
            strange[tag] += count
    return Asked(
        questions=outline.questions,
        unknown=strange,
        arms=tuple(sorted({arm for refuses, _, arm, _, _ in found if not refuses})),
        results=sum(count for *_, count in found),
        refusals=sum(count for refuses, *_, count in found if refuses),
        non_answers=sum(count for _, says_nothing, *_, count in found if says_nothing),
    )


def place_answers(engine: Engine, outline: MessageOutline, asked: Asked) -> None:
    """Make the views `answers` and, for use once the readings are known, `read_answers` and `read_replies`.

    The last also has replies that are no answers.
    """
    questions = _place_questions(outline, asked)
    engine.fill(
        "asked",
        {"arm": "VARCHAR", "question_tag": "VARCHAR", "place": "INTEGER", "kind": "VARCHAR"},
        [(arm, one.tag, place, _kind_of(one)) for (arm, place), one in questions.items()],
    )
    engine.fill(
        "offered",
        {"arm": "VARCHAR", "place": "INTEGER", "folded": "VARCHAR"},
        [(arm, place, text) for (arm, place), one in questions.items() for text in _list_offered(one)],
    )
    engine.fill("readings", _READINGS, ())
    engine.run(_ANSWERS.format(quote(outline.id)))
    engine.run(_READ_REPLIES)


def read_kept(
    engine: Engine, outline: MessageOutline, asked: Asked, numbers: dict[AnswerReading, int]
) -> list[AnswerReading]:
    """Make the table `readings` of the kept answers, and return the readings by their numbers.

    New ones are added to `numbers`, which has those of the messages before.
    """
    readers = {key: build_reader(one) for key, one in _place_questions(outline, asked).items()}
    rows = []
    for arm, place, answer, response in sorted(engine.rows(_CANDIDATES)):
        reading = readers[arm, place](answer, response)
        rows.append((arm, place, answer, response, numbers.setdefault(reading, len(numbers))))
    engine.fill("readings", _READINGS, rows)
    return list(numbers)


def _place_questions(outline: MessageOutline, asked: Asked) -> dict[tuple[str, int], QuestionOutline]:
    """Return the questions by arm and place, as the arm asks them."""
    ways = {way.arm: {question.tag: question for question in way.questions} for way in outline.all_ways}
    return {
        (arm, place): ways.get(arm, {}).get(question.tag, question)
        for arm in asked.arms
        for place, question in enumerate(asked.questions)
    }


def _kind_of(question: QuestionOutline) -> str:
    if question.responses:
        return "choice"
    return "text" if question.scale in ("text", "choice") else "number"


def _list_offered(question: QuestionOutline) -> set[str]:
    ending = () if question.conclude_on is None else (question.conclude_on,)
    texts = (*question.responses, *ending)
    # The engine has neither case folding, as of ß, nor compatibility forms: it has either of these.
    return {folded for text in texts for folded in (fold_answer(text), text.strip().lower())}
