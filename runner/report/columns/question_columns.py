"""Questions and answer readings as tables of the engine, and statements that count groups.

Participants' own words are never a group. The engine keeps candidates, and the readers of
`runner.report.answers` decide which of them are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.report.answers import OWN_WORDS, build_reader
from runner.source.normalize import fold_answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.report.columns.engine import Engine
    from runner.report.facts import AnswerReading, MessageOutline, QuestionOutline


_MOST_UNKNOWN = 100
"""Questions counted that the campaign does not have: those with the most results."""
_MOST_STRANGERS = 1000
"""Responses kept that a question does not have: the rarest beyond these count as own words."""

OWN_WORDS_NUMBER = 0
"""The number of the reading of all answers that are not kept."""

_TABLES = """
CREATE OR REPLACE TEMP TABLE asked (arm VARCHAR, question_tag VARCHAR, place INTEGER, kind VARCHAR);
CREATE OR REPLACE TEMP TABLE offered (arm VARCHAR, place INTEGER, folded VARCHAR);
"""
_READINGS = """
CREATE OR REPLACE TEMP TABLE readings
  (arm VARCHAR, place INTEGER, answer VARCHAR, response VARCHAR, reading INTEGER)
"""
# A reply that opts out is no answer to any question.
_ANSWERS = """
CREATE OR REPLACE TEMP VIEW replies AS
SELECT r.*, asked.place, asked.kind FROM results r
SEMI JOIN names ON names.message = r.message
JOIN asked ON asked.arm = r.arm AND asked.question_tag = r.question_tag;
CREATE OR REPLACE TEMP VIEW answers AS SELECT * FROM replies WHERE NOT refuses;
"""
# Answers that are not kept, and unknown ones that are too rare, share the reading of
# answers in own words.
_READ_REPLIES = f"""
CREATE OR REPLACE TEMP VIEW read_replies AS
SELECT replies.*, readings.reading IS NOT NULL AS is_kept, (created_us::UHUGEINT << 64) | tie AS rank,
  coalesce(readings.reading, {OWN_WORDS_NUMBER}) AS reading
FROM replies LEFT JOIN readings ON readings.arm = replies.arm AND readings.place = replies.place
  AND readings.answer = replies.answer AND readings.response = replies.response;
CREATE OR REPLACE TEMP VIEW read_answers AS SELECT * FROM read_replies WHERE NOT refuses;
"""
# The offer and a question's kind follow from the other columns: they split no group.
_CANDIDATES = """
SELECT answers.arm, answers.place, answer, response, kind, offered.folded IS NOT NULL AS is_offered,
  count(*) AS n
FROM answers LEFT JOIN offered ON offered.arm = answers.arm AND offered.place = answers.place
  AND offered.folded = answers.folded
WHERE offered.folded IS NOT NULL
  OR (is_index AND kind IN ('choice', 'unknown'))
  OR (is_number AND kind = 'number')
GROUP BY ALL
"""
_KEPT = f"""
SELECT arm, place, answer, response FROM {{}}
QUALIFY kind = 'number' OR is_offered OR row_number() OVER (
  PARTITION BY arm, place ORDER BY n DESC, answer, response) <= {_MOST_STRANGERS}
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """The questions of one message, numbered by their places here.

    Attributes:
        questions: the campaign's own, in its order.
        unknown: tags that only results have.
        unlisted: the number of further ones, which are not counted.
        arms: of the results, empty for a message without arms.
        results: of all questions, with those that opt out.
        orders: the places of an arm's questions as it asks them; the first one's are those of unknown arms.
    """

    questions: tuple[QuestionOutline, ...]
    unknown: tuple[str, ...]
    unlisted: int
    arms: tuple[str, ...]
    results: int
    refusals: int = 0
    orders: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags, by place."""
        return (*(question.tag for question in self.questions), *self.unknown)


def list_asked(outline: MessageOutline, found: Mapping[tuple[str, str], int], refusals: int = 0) -> Asked:
    """Return the questions of a message; `found` has the answers by arm and question tag."""
    known = {question.tag: place for place, question in enumerate(outline.questions)}
    strange: dict[str, int] = {}
    for (_, tag), count in found.items():
        if tag not in known:
            strange[tag] = strange.get(tag, 0) + count
    ordered = sorted(strange, key=lambda tag: (-strange[tag], tag))
    return Asked(
        questions=outline.questions,
        unknown=tuple(sorted(ordered[:_MOST_UNKNOWN])),
        unlisted=len(ordered[_MOST_UNKNOWN:]),
        arms=tuple(sorted({arm for arm, _ in found})),
        results=sum(found.values()) + refusals,
        refusals=refusals,
        orders=tuple(
            (way.arm, tuple(known[question.tag] for question in way.questions)) for way in outline.all_ways
        ),
    )


def place_answers(engine: Engine, outline: MessageOutline, asked: Asked) -> None:
    """Make the views `answers` and, for use once the readings are known, `read_answers` and `read_replies`.

    The last also has replies that opt out. The ids of the message are in the engine's table `names`.
    """
    engine.run(_TABLES)
    engine.run(_READINGS)
    questions = _place_questions(outline, asked)
    _insert(
        engine,
        "asked",
        [(arm, asked.tags[place], place, _kind_of(one)) for (arm, place), one in questions.items()],
    )
    _insert(
        engine,
        "offered",
        [(arm, place, text) for (arm, place), one in questions.items() for text in _list_offered(one)],
    )
    engine.run(_ANSWERS)
    engine.run(_READ_REPLIES)


def read_kept(engine: Engine, outline: MessageOutline, asked: Asked) -> list[AnswerReading]:
    """Make the table `readings` of the kept answers, and return the readings by their numbers."""
    readers = {key: build_reader(one) for key, one in _place_questions(outline, asked).items()}
    numbers: dict[AnswerReading, int] = {OWN_WORDS: OWN_WORDS_NUMBER}
    rows = []
    for arm, place, answer, response in sorted(count_groups(engine, _CANDIDATES, choose=_KEPT)):
        reading = readers[arm, place].read(answer, response)
        rows.append((arm, place, answer, response, numbers.setdefault(reading, len(numbers))))
    engine.run(_READINGS)
    _insert(engine, "readings", rows)
    return list(numbers)


def _place_questions(outline: MessageOutline, asked: Asked) -> dict[tuple[str, int], QuestionOutline | None]:
    return {
        (arm, place): question
        for arm in asked.arms
        for place, question in enumerate(_list_questions(outline, asked, arm))
    }


def _list_questions(outline: MessageOutline, asked: Asked, arm: str) -> Iterator[QuestionOutline | None]:
    """Yield the questions by place, as an arm asks them; None for those that only results know."""
    ways = {way.arm: {question.tag: question for question in way.questions} for way in outline.all_ways}
    own = ways.get(arm, {})
    for question in asked.questions:
        yield own.get(question.tag, question)
    for _ in asked.unknown:
        yield None


def _kind_of(question: QuestionOutline | None) -> str:
    if question is None:
        return "unknown"
    if question.responses:
        return "choice"
    return "text" if question.scale in ("text", "choice") else "number"


def _list_offered(question: QuestionOutline | None) -> set[str]:
    if question is None:
        return set()
    ending = () if question.conclude_on is None else (question.conclude_on,)
    texts = (*question.responses, *ending)
    # The engine has neither case folding, as of ß, nor compatibility forms: it has either of these.
    return {folded for text in texts for folded in (fold_answer(text), text.strip().lower())}


def _insert(engine: Engine, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows into a table of the engine at once: single inserts cost a hundred times as much."""
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        values = ", ".join("unnest(?)" for _ in columns)
        engine.run(f"INSERT INTO {table} SELECT {values}", columns)


def count_groups(
    engine: Engine, statement: str, values: Sequence[object] = (), *, choose: str = "FROM {} ORDER BY ALL"
) -> list[tuple[Any, ...]]:
    """Return groups with their counts, or the result of a further statement on them.

    The last column of `statement` is `n`; `choose` reads the groups, which it calls `{}`.

    Raises:
        RunnerError: the disk is full, or the files cannot be read.
    """
    return engine.rows(choose.format(f"({statement})"), values)
