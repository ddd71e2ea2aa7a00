"""All replies with what is known of them, as a table of the engine, for files and comments.

`told` has a row a result, the view `kept` one a person, message and question, with the latest answer, and
`latest` one a person and question, over all messages:

- `person`: as in `runner.report.columns.person_table`; `message`, `question`: the places in the campaign;
- `us`: when it came, in microseconds since 1970, 0 if that is not known;
- `code`, `label`: of a response, its number among all that the campaign offers to the question, and its text;
  another response has no code;
- `value`: the number that it counts as on the question's scale;
- `words`: what the person wrote, if it is neither a response nor a number; `answer` is no such text.
"""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from runner.report.masking import mask_words
from runner.report.question_model import CommentsReport, QuotedComment
from runner.report.scores import NPS_SCALE
from runner.source.normalize import fold_answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.report.columns.engine import Engine
    from runner.report.facts import AnswerReading, CampaignOutline, PooledOutline

CELL_SEPARATOR = "\x1f"
"""Stands between all that the audience says of a person, in the column `cells` of the table `members`."""
_KEEP = """
CREATE OR REPLACE TEMP TABLE told AS
SELECT message, person, arm, question_tag AS tag, r.question, text, question_display_order AS display_order,
  refuses, created_us AS us, rank, result_guid AS guid,
  if(label IS NULL AND value IS NULL, NULL, answer) AS answer, code, label, value,
  CASE WHEN label IS NULL AND value IS NULL AND NOT coalesce(concludes, false) THEN response END AS words
FROM read_replies r LEFT JOIN labels ON labels.question = r.question AND labels.reading = r.reading;
CREATE OR REPLACE TEMP VIEW kept AS FROM told WHERE question IS NOT NULL AND NOT refuses
QUALIFY row_number() OVER (PARTITION BY person, message, question ORDER BY rank DESC) = 1;
CREATE OR REPLACE TEMP VIEW latest AS FROM told WHERE question IS NOT NULL AND NOT refuses
QUALIFY row_number() OVER (PARTITION BY person, question ORDER BY rank DESC) = 1;
"""
_LABELS = "question INTEGER, reading INTEGER, code INTEGER, label VARCHAR, value DOUBLE, concludes BOOLEAN"
# Names of people who have left the audience are not known, so their words stay away.
_WORDS = """
SELECT DISTINCT told.person, words, cells FROM told JOIN members m ON m.person = told.person
WHERE words IS NOT NULL
"""
_SHOW_MASKED = """
CREATE OR REPLACE TEMP TABLE told AS SELECT told.* REPLACE (masked.shown AS words)
FROM told LEFT JOIN masked ON masked.person = told.person::VARCHAR AND masked.words = told.words
"""
MOST_COMMENTS = 300
"""Comments of a report: files of answers have all."""
_FOUND = """
FROM latest LEFT JOIN members m ON m.person = latest.person
LEFT JOIN (FROM latest WHERE question = ?) scores ON scores.person = latest.person
WHERE trim(latest.words) <> ''
"""
_COUNT = f"SELECT count(*), count(*) FILTER (WHERE m.person IS NULL) {_FOUND}"
_NEWEST = f"""
SELECT latest.question, latest.words, latest.us, scores.value, m.cells {_FOUND}
  AND m.person IS NOT NULL
ORDER BY latest.us DESC, latest.person, latest.question LIMIT {MOST_COMMENTS}
"""


def keep_answers(engine: Engine, outline: CampaignOutline, readings: Sequence[AnswerReading]) -> None:
    """Make the tables of all replies that the engine has read, from the numbers of the readings."""
    labels = [
        (question, *row)
        for question, one in enumerate(outline.questions)
        for row in _describe_readings(one, readings)
    ]
    engine.fill("labels", _LABELS, labels)
    engine.run(_KEEP)


def mask_answers(engine: Engine) -> None:
    """Mask all words that are kept."""
    masked = (
        (person, words, mask_words(words, cells.split(CELL_SEPARATOR)))
        for person, words, cells in engine.iterate(_WORDS)
    )
    engine.load("masked", ("person", "words", "shown"), masked)
    engine.run(_SHOW_MASKED)


def gather_comments(engine: Engine, outline: CampaignOutline, problem: str | None = None) -> CommentsReport:
    """Return what people wrote, the newest first, unless it was masked.

    `problem` says why the audience cannot be read: then there is nobody in the table `members`.
    """
    score = [-1 if outline.score is None else outline.score]
    ((total, left_out),) = engine.rows(_COUNT, score)
    if problem is not None:
        return CommentsReport((), total, 0, problem)
    found = tuple(
        QuotedComment(
            question=outline.questions[question].question.tag,
            words=mask_words(words.strip(), cells.split(CELL_SEPARATOR)),
            score=None if value is None else Fraction(str(value)),
            answered_at=datetime.fromtimestamp(us / 1_000_000, UTC) if us else None,
        )
        for question, words, us, value, cells in engine.rows(_NEWEST, score)
    )
    return CommentsReport(found, total - left_out, left_out)


def _describe_readings(
    question: PooledOutline, readings: Iterable[AnswerReading]
) -> Iterator[tuple[int, int | None, str | None, float | None, bool]]:
    """Yield the number of each reading with its code, label and value, and whether it ends the survey."""
    codes = {fold_answer(label): code for code, label in enumerate(question.labels, start=1)}
    for number, one in enumerate(readings):
        counts = question.question.scale != "nps" or one.number in NPS_SCALE
        value = float(one.number) if one.number is not None and counts else None
        yield number, codes.get(fold_answer(one.label or "")), one.label, value, one.concludes
