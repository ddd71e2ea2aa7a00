"""What people wrote, each beside their score: the newest, with what tells who they are masked."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from runner.report.columns.kept_answers import CELL_SEPARATOR
from runner.report.masking import mask_words
from runner.report.question_model import CommentsReport, QuotedComment

if TYPE_CHECKING:
    from runner.report.columns.engine import Engine
    from runner.report.columns.kept_answers import KeptAnswers

MOST_COMMENTS = 300
"""Comments of a report: files of answers have all."""
# Names of people who have left the audience are not known, so their words stay away.
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


def gather_comments(
    engine: Engine, kept: KeptAnswers, score: int | None, problem: str | None = None
) -> CommentsReport:
    """Return what people wrote, the newest first.

    `score` is the place of the question with the score; `problem` says why the audience cannot be read: then
    there is nobody in the table `members`.
    """
    about = [-1 if score is None else score]
    ((total, left_out),) = engine.rows(_COUNT, about)
    found = tuple(
        QuotedComment(
            question=kept.questions[question].outline.tag,
            words=mask_words(words.strip(), about_them.split(CELL_SEPARATOR)),
            score=None if value is None else Fraction(str(value)),
            answered_at=datetime.fromtimestamp(us / 1_000_000, UTC) if us else None,
        )
        for question, words, us, value, about_them in engine.rows(_NEWEST, about)
    )
    if problem is not None:
        return CommentsReport((), total, 0, problem)
    return CommentsReport(found, total - left_out, left_out)
