"""People's latest answers with all that is known of them, as tables of the engine, for files and comments.

`kept` has a row a person, message and question, `latest` a row a person and question, over all messages:

- `person`: as in `runner.report.columns.person_table`; `message`, `question`: the places in the campaign;
- `us`: when it came, in microseconds since 1970, 0 if that is not known;
- `code`, `label`: of a response, its number among all that the campaign offers to the question, and its text;
  another response has no code;
- `value`: the number that it counts as on the question's scale;
- `words`: what the person wrote, if it is neither a response nor a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from runner.campaign.model import SCORED
from runner.campaign.scales import read_points
from runner.report.scores import NPS_SCALE
from runner.source.normalize import fold_answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.report.columns.engine import Engine
    from runner.report.columns.question_columns import Asked
    from runner.report.facts import (
        AnswerReading,
        CampaignOutline,
        MessageOutline,
        PooledOutline,
        QuestionOutline,
    )

_KEPT = """
CREATE OR REPLACE TEMP TABLE kept (person UUID, message INTEGER, question INTEGER, us BIGINT,
  code INTEGER, label VARCHAR, value DOUBLE, words VARCHAR)
"""
# Of several answers of one microsecond, that with the largest guid counts.
_KEEP = """
INSERT INTO kept
SELECT person, ?::INTEGER, numbers.question, created_us, labels.code, labels.label, labels.value,
  CASE WHEN labels.label IS NULL AND labels.value IS NULL AND NOT concludes THEN response END
FROM (FROM read_answers WHERE place IS NOT NULL
  QUALIFY row_number() OVER (PARTITION BY person, place ORDER BY rank DESC) = 1) answers
JOIN numbers ON numbers.place = answers.place
LEFT JOIN labels ON labels.place = answers.place AND labels.reading = answers.reading
"""
# Of two messages' answers of one microsecond, or without a known time, the later message's counts.
_LATEST = """
CREATE OR REPLACE TEMP TABLE latest AS FROM kept
QUALIFY row_number() OVER (PARTITION BY person, question ORDER BY us DESC, message DESC) = 1
"""

_KEEP_RESULTS = """
INSERT INTO kept_results
SELECT ?::VARCHAR, arm, person, question_tag, texts.question, question_text, question_display_order,
  if(is_kept, answer, NULL), labels.label, answer, response, labels.value, nullif(created_us, 0), result_guid
FROM read_replies
LEFT JOIN labels ON labels.reading = read_replies.reading AND labels.place = read_replies.place
LEFT JOIN texts ON texts.place = read_replies.place
"""
_RESULTS = """
CREATE OR REPLACE TEMP TABLE kept_results (message VARCHAR, arm VARCHAR, person UUID,
  question_tag VARCHAR, question VARCHAR, question_text VARCHAR, question_display_order INTEGER,
  answer VARCHAR, label VARCHAR, result_answer VARCHAR, result_response VARCHAR, value DOUBLE,
  us BIGINT, result_guid VARCHAR)
"""


@dataclass(frozen=True, slots=True)
class KeptQuestion:
    """A question of the campaign, over all messages and arms that ask it on the same scale.

    Attributes:
        outline: as the first message asks it.
        labels: of all responses, each once, with what they count as.
    """

    outline: QuestionOutline
    labels: Mapping[str, Fraction | None]

    @property
    def has_value(self) -> bool:
        """True if answers count as numbers."""
        return self.outline.scale in SCORED

    @property
    def low_end(self) -> Fraction:
        """The highest low score: of `nps` detractors', else the second lowest point."""
        points = sorted({point for point in self.labels.values() if point is not None})
        return Fraction(6) if self.outline.scale == "nps" else points[:2][-1]

    @property
    def is_whole(self) -> bool:
        """True if it has a score, and all that counts in it is a whole number."""
        points = [point for point in self.labels.values() if point is not None]
        return self.outline.scale == "nps" or (
            self.outline.scale in ("csat", "ces") and all(point.denominator == 1 for point in points)
        )


class KeptAnswers:
    """A collector of each message's answers, while the engine counts them."""

    def __init__(self, engine: Engine, outline: CampaignOutline, *, keeps_results: bool) -> None:
        """Start without answers; with `keeps_results`, `kept_results` gets every result."""
        self._keeps_results = keeps_results
        self._engine = engine
        self._outline = outline
        self.questions = tuple(
            KeptQuestion(one.question, _list_labels(one, outline)) for one in outline.questions
        )
        engine.run(_KEPT)
        engine.run(_RESULTS)

    @property
    def messages(self) -> list[str]:
        """The ids of the campaign's messages, by their places."""
        return [one.id for one in self._outline.messages]

    def keep(self, outline: MessageOutline, asked: Asked, readings: Sequence[AnswerReading]) -> None:
        """Keep the answers to a message that the engine has counted, by the numbers of their readings."""
        numbers = [
            number
            for one in asked.questions
            for number, pooled in enumerate(self._outline.questions)
            if outline.id in pooled.messages
            and (pooled.question.tag, pooled.question.scale) == (one.tag, one.scale)
        ]
        self._engine.fill("numbers", {"place": "INTEGER", "question": "INTEGER"}, list(enumerate(numbers)))
        kinds = {"place": "INTEGER", "reading": "INTEGER", "code": "INTEGER", "label": "VARCHAR"}
        self._engine.fill(
            "labels",
            {**kinds, "value": "DOUBLE", "concludes": "BOOLEAN"},
            [
                (place, *row)
                for place, number in enumerate(numbers)
                for row in _describe_readings(self.questions[number], readings)
            ],
        )
        self._engine.run(_KEEP, [self._outline.messages.index(outline)])
        if self._keeps_results:
            texts = [(place, one.text) for place, one in enumerate(asked.questions)]
            self._engine.fill("texts", {"place": "INTEGER", "question": "VARCHAR"}, texts)
            self._engine.run(_KEEP_RESULTS, [outline.id])

    def finish(self) -> None:
        """Make the table `latest`, once all messages were kept."""
        self._engine.run(_LATEST)


def _list_labels(pooled: PooledOutline, outline: CampaignOutline) -> dict[str, Fraction | None]:
    asking = [message for message in outline.messages if message.id in pooled.messages]
    found: dict[str, tuple[str, Fraction | None]] = {}
    for one in (question for message in asking for way in message.all_ways for question in way.questions):
        if (one.tag, one.scale) == (pooled.question.tag, pooled.question.scale):
            points = read_points(one.scale, one.responses, one.values)
            for label, point in zip(one.responses, points, strict=True):
                found.setdefault(fold_answer(label), (label, point))
    return dict(found.values())


def _describe_readings(
    question: KeptQuestion, readings: Iterable[AnswerReading]
) -> Iterator[tuple[int, int | None, str | None, float | None, bool]]:
    """Yield the number of each reading with its code, label and value, and whether it ends the survey."""
    codes = {fold_answer(label): code for code, label in enumerate(question.labels, start=1)}
    for number, one in enumerate(readings):
        counts = question.outline.scale != "nps" or one.number in NPS_SCALE
        value = float(one.number) if one.number is not None and counts else None
        yield number, codes.get(fold_answer(one.label or "")), one.label, value, one.concludes
