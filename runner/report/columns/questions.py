"""Tells the engine what was asked, and learns from the readers of answers what is kept of an answer.

What participants wrote in their own words is never a group of its own. The engine keeps an answer if the
readers of `runner.report.answers` may make something of it; they have the last word on what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.report.answers import OWN_WORDS, build_reader, normalise

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.report.answers import Reading
    from runner.report.columns.engine import Engine
    from runner.report.columns.groups import Groups
    from runner.report.facts import MessageOutline, QuestionOutline

_MOST_UNKNOWN = 100
"""Questions that the campaign does not have, looked at: those with the most results."""
_MOST_STRANGERS = 1000
"""Responses that a question does not have, kept: the rarest of more count as own words."""

OWN_WORDS_NUMBER = 0
"""The number of the reading of everything that is not kept."""

_TABLES = """
CREATE OR REPLACE TEMP TABLE asked (arm VARCHAR, question_tag VARCHAR, place INTEGER, kind VARCHAR);
CREATE OR REPLACE TEMP TABLE offered (arm VARCHAR, place INTEGER, folded VARCHAR);
"""
_READINGS = """
CREATE OR REPLACE TEMP TABLE readings
  (arm VARCHAR, place INTEGER, answer VARCHAR, response VARCHAR, reading INTEGER)
"""
# What opts out is no answer, whatever it was a reply to.
_ANSWERS = """
CREATE OR REPLACE TEMP VIEW replies AS
SELECT r.*, asked.place, asked.kind FROM results r
SEMI JOIN names ON names.message = r.message
JOIN asked ON asked.arm = r.arm AND asked.question_tag = r.question_tag;
CREATE OR REPLACE TEMP VIEW answers AS SELECT * FROM replies WHERE NOT refuses;
"""
# An answer that is not kept, and a stranger that is too rare, has no reading of its own: that of own words is
# theirs.
_READ_REPLIES = f"""
CREATE OR REPLACE TEMP VIEW read_replies AS
SELECT replies.*, readings.reading IS NOT NULL AS is_kept, (created_us::UHUGEINT << 64) | tie AS rank,
  coalesce(readings.reading, {OWN_WORDS_NUMBER}) AS reading
FROM replies LEFT JOIN readings ON readings.arm = replies.arm AND readings.place = replies.place
  AND readings.answer = replies.answer AND readings.response = replies.response;
CREATE OR REPLACE TEMP VIEW read_answers AS SELECT * FROM read_replies WHERE NOT refuses;
"""
# What is offered, and a question's kind, follow from the other columns: they part no group.
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
    """The questions of one message as the engine numbers them: by their places here.

    Attributes:
        questions: the campaign's own, in its order.
        unknown: tags that only results have.
        unlisted: further ones, which are not looked at.
        arms: of the results, empty for a message without arms.
        results: of all questions, those that opt out among them.
        refusals: those that opt out.
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
    """Return what was asked of a message.

    Args:
        outline: as the campaign has it.
        found: answers by arm and question tag.
        refusals: results that opt out.
    """
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
    """Make the views `answers` and, for when the readings are known, `read_answers` and `read_replies`.

    The last of them has replies that opt out, too.

    Args:
        engine: has the ids under which the message is entered in its table `names`.
        outline: the message.
        asked: its questions.
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


def read_kept(groups: Groups, outline: MessageOutline, asked: Asked) -> list[Reading]:
    """Make the table `readings`: the numbers of the readings of what is kept of the answers.

    Args:
        groups: of what `place_answers` has placed.
        outline: the message.
        asked: its questions.

    Returns:
        The readings, by their numbers.
    """
    readers = {key: build_reader(one) for key, one in _place_questions(outline, asked).items()}
    numbers: dict[Reading, int] = {OWN_WORDS: OWN_WORDS_NUMBER}
    rows = []
    for arm, place, answer, response in sorted(groups.rows(_CANDIDATES, choose=_KEPT)):
        reading = readers[arm, place].read(answer, response)
        rows.append((arm, place, answer, response, numbers.setdefault(reading, len(numbers))))
    groups.engine.run(_READINGS)
    _insert(groups.engine, "readings", rows)
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
    # The engine has no case folding: what it makes of a text is either of these, as with ß.
    return {folded for text in texts for folded in (normalise(text), text.strip().lower())}


def _insert(engine: Engine, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Put rows into a table of the engine, all at once: one at a time costs a hundred times as much."""
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        values = ", ".join("unnest(?)" for _ in columns)
        engine.run(f"INSERT INTO {table} SELECT {values}", columns)
