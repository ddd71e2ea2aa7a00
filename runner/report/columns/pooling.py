"""Counts the answers to one question over several messages: of each participant the latest."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.report.answers import Reading
    from runner.report.columns.engine import Engine
    from runner.report.columns.groups import Groups
    from runner.report.columns.questions import Asked
    from runner.report.facts import ScoreOutline

_POOL = """
CREATE OR REPLACE TEMP TABLE pooled (person UUID, message INTEGER, reading INTEGER, answered_us BIGINT)
"""
# Of two answers of one microsecond, or of no known time, that to the later message counts.
_COUNT = """
SELECT latest.message AS message, latest.reading AS reading, count(*) AS n FROM (
  SELECT arg_max({'message': message, 'reading': reading}, (answered_us::HUGEINT << 16) | message) AS latest
  FROM pooled GROUP BY person
) GROUP BY ALL
"""


def find_place(score: ScoreOutline | None, message: str, asked: Asked) -> int | None:
    """Return the place of the campaign's question in a message; None if it is not pooled from there."""
    if score is None or message not in score.messages:
        return None
    return asked.tags.index(score.question.tag)


def begin_pool(engine: Engine) -> None:
    """Make the table of the answers that are pooled."""
    engine.run(_POOL)


def pool_answers(engine: Engine, number: int, place: int | None) -> None:
    """Put the answers to one message into the pool, each participant's latest.

    Args:
        engine: has the message's table `people`.
        number: the message's, in the campaign's order.
        place: the question's in the message; None for none.
    """
    if place is not None:
        engine.run(
            f"""INSERT INTO pooled SELECT person, {number}, reading_{place},
            coalesce(answered_us_{place}, 0) FROM people WHERE reading_{place} IS NOT NULL"""
        )


def count_pool(
    groups: Groups, messages: Sequence[str], readings: Mapping[str, Sequence[Reading]]
) -> dict[tuple[str, Reading], int]:
    """Return participants by the message of their latest answer, and by what was kept of it.

    Args:
        groups: of the pool.
        messages: the campaign's, by number.
        readings: of each message, by their numbers.
    """
    counted: Counter[tuple[str, Reading]] = Counter()
    for number, reading, count in groups.rows(_COUNT):
        counted[messages[number], readings[messages[number]][reading]] += count
    return dict(counted)
