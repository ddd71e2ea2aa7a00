"""Counts of a campaign's results, by the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from runner.report.columns.engine import quote
from runner.report.columns.question_columns import (
    Asked,
    list_asked,
    place_answers,
    read_kept,
)
from runner.report.facts import (
    AnswerReading,
    CampaignTally,
    DayTally,
    GroupTally,
    MessageOutline,
    MessageTally,
    QuestionTally,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from runner.report.columns.engine import Engine
    from runner.report.facts import ScoreOutline


_ANSWER = "{'us': created_us, 'tie': tie, 'reading': reading}"
# Whole seconds, without negative times.
_FIRST_SECONDS = """
SELECT (first_us - started_us) // 1000000 AS seconds, count(*) AS n FROM people
WHERE first_us >= started_us GROUP BY seconds ORDER BY seconds
"""
_PATHS = "SELECT arm, path, count(*) AS n FROM people GROUP BY ALL"
_READINGS = (
    "SELECT arm, latest_{0}.reading, count(*) AS n FROM people WHERE latest_{0} IS NOT NULL GROUP BY ALL"
)
_FIRST_DAYS = (
    "SELECT make_timestamp(first_us)::DATE AS day, count(*) AS n FROM people WHERE first_us > 0 GROUP BY ALL"
)
_ARM_DAYS = (
    "SELECT arm, make_timestamp(coalesce(first_us, 0))::DATE AS day, count(*) AS n FROM people "
    "WHERE arm <> '' GROUP BY ALL"
)
_ANSWER_DAYS = (
    "SELECT make_timestamp(created_us)::DATE AS day, count(*) AS n FROM named "
    "WHERE message = ? AND created_us > 0 AND NOT refuses GROUP BY ALL"
)
# Recipients who have left the audience belong to the group without a name.
_GROUPED = """
(SELECT people.*, coalesce(members.value_{0}, '') AS value
FROM people LEFT JOIN members ON members.person = people.person)
"""
_SENT_TO_GROUPS = """
SELECT coalesce(members.value_{0}, '') AS value, count(*) AS n
FROM reached LEFT JOIN members ON members.person = reached.person
WHERE reached.message = ? GROUP BY ALL
"""
_GROUP_PATHS = f"SELECT value, arm, path, count(*) AS n FROM {_GROUPED} GROUP BY ALL"
_GROUP_READINGS = f"""
SELECT value, latest_{{1}}.reading AS reading, count(*) AS n FROM {_GROUPED}
WHERE latest_{{1}} IS NOT NULL GROUP BY ALL
"""


def list_ending(readings: Sequence[AnswerReading]) -> list[int]:
    """Return the numbers of the readings that end the survey."""
    return [number for number, reading in enumerate(readings) if reading.concludes]


def count_message(
    engine: Engine, message: str, asked: Asked, readings: Sequence[AnswerReading], columns: Sequence[str]
) -> MessageTally:
    """Return the tally of one message, from the tables that `gather_people` made."""
    return MessageTally(
        results=asked.results,
        refusals=asked.refusals,
        non_answers=asked.non_answers,
        paths=_count_paths(engine),
        questions={
            question.tag: QuestionTally(_count_readings(engine, place, readings))
            for place, question in enumerate(asked.questions)
        },
        unknown=asked.unknown,
        first_s=dict(engine.rows(_FIRST_SECONDS)),
        days=_count_days(engine, message),
        groups={
            column: _count_groups(engine, message, asked, readings, number)
            for number, column in enumerate(columns)
        },
        arm_days={(arm, day): count for arm, day, count in sorted(engine.rows(_ARM_DAYS))},
    )


def gather_people(engine: Engine, asked: Asked, ending: Sequence[int]) -> None:
    """Make the table `people`, a row a participant with the latest answers.

    `latest_0` and so on are the latest answer to each question: of several of one microsecond, that with the
    largest guid.
    """
    steps = [_write_step(place, ending) for place in range(len(asked.questions))]
    latest = "".join(
        f", max({_ANSWER}) FILTER (WHERE place = {place}) AS latest_{place}"
        for place in range(len(asked.questions))
    )
    engine.run(f"""
        CREATE OR REPLACE TEMP TABLE people AS
        SELECT *, concat('', {", ".join(steps) or "''"}) AS path FROM (
          SELECT person, min(arm) AS arm, min(started_us) AS started_us,
            min(created_us) FILTER (WHERE created_us > 0) AS first_us{latest}
          FROM read_answers GROUP BY person)""")


def _write_step(place: int, ending: Sequence[int]) -> str:
    """Return the expression for a question's character of a path."""
    number = f"latest_{place}.reading"
    ends = f"list_contains({list(ending)}::INTEGER[], {number})"
    return f"CASE WHEN {number} IS NULL THEN '-' WHEN {ends} THEN 'c' ELSE 'a' END"


def _count_paths(engine: Engine) -> dict[tuple[str, str], int]:
    return {(arm, path): count for arm, path, count in sorted(engine.rows(_PATHS))}


def _count_readings(
    engine: Engine, place: int, readings: Sequence[AnswerReading]
) -> dict[tuple[str, AnswerReading], int]:
    rows = sorted(engine.rows(_READINGS.format(place)))
    return {(arm, readings[number]): count for arm, number, count in rows}


def _count_days(engine: Engine, message: str) -> dict[date, DayTally]:
    firsts: dict[date, int] = dict(engine.rows(_FIRST_DAYS))
    answers: dict[date, int] = dict(engine.rows(_ANSWER_DAYS, [message]))
    return {
        day: DayTally(firsts.get(day, 0), answers.get(day, 0))
        for day in sorted(firsts.keys() | answers.keys())
    }


def _count_groups(
    engine: Engine, message: str, asked: Asked, readings: Sequence[AnswerReading], number: int
) -> dict[str, GroupTally]:
    sent: dict[str, int] = dict(engine.rows(_SENT_TO_GROUPS.format(number), [message]))
    paths: dict[str, dict[tuple[str, str], int]] = {}
    for group, arm, path, count in sorted(engine.rows(_GROUP_PATHS.format(number))):
        paths.setdefault(group, {})[arm, path] = count
    answers: dict[str, dict[str, Counter[AnswerReading]]] = {}
    for place, question in enumerate(asked.questions):
        for group, reading, count in sorted(engine.rows(_GROUP_READINGS.format(number, place))):
            counted = answers.setdefault(group, {}).setdefault(question.tag, Counter())
            counted[readings[reading]] += count
    return {
        group: GroupTally(sent.get(group, 0), paths.get(group, {}), answers.get(group, {}))
        for group in sorted(sent.keys() | paths.keys())
    }


# Of two answers of one microsecond, or without a known time, the later message's counts.
_POOL = """
SELECT latest.message AS message, latest.reading AS reading, count(*) AS n FROM (
  SELECT max({'us': us, 'message': message, 'reading': reading}) AS latest FROM pooled GROUP BY person
) GROUP BY ALL
"""
_FOUND = "SELECT message, refuses, says_nothing, arm, question_tag, count(*) AS n FROM named GROUP BY ALL"

KeepAnswers = Callable[[MessageOutline, Asked, Sequence[AnswerReading]], None]


def count_campaign(
    engine: Engine,
    outlines: Sequence[MessageOutline],
    message_ids: Mapping[str, str],
    columns: Sequence[str] = (),
    *,
    score: ScoreOutline | None = None,
    keep_answers: KeepAnswers | None = None,
) -> CampaignTally:
    """Count the table `results`.

    `message_ids` maps former ids of messages to present ones. `columns` are the audience's, with their values
    in the tables of `runner.report.columns.dataset`; `score` is the question whose answers are pooled.
    `keep_answers` is called for each message while the engine has its answers.
    """
    _name_messages(engine, message_ids)
    found = sorted(engine.rows(_FOUND))
    engine.run(
        "CREATE OR REPLACE TEMP TABLE pooled (person UUID, message INTEGER, reading INTEGER, us BIGINT)"
    )
    tallies: dict[str, MessageTally] = {}
    kept: list[list[AnswerReading]] = []
    for number, one in enumerate(outlines):
        asked = list_asked(one, [row[1:] for row in found if row[0] == one.id])
        place_answers(engine, one, asked)
        readings = read_kept(engine, one, asked)
        kept.append(readings)
        gather_people(engine, asked, list_ending(readings))
        if score is not None and one.id in score.messages:
            tags = [question.tag for question in asked.questions]
            latest = f"latest_{tags.index(score.question.tag)}"
            engine.run(
                f"INSERT INTO pooled SELECT person, {number}, {latest}.reading, {latest}.us FROM people "
                f"WHERE {latest} IS NOT NULL"
            )
        tallies[one.id] = count_message(engine, one.id, asked, readings, columns)
        if keep_answers is not None:
            keep_answers(one, asked, readings)
    pooled: Counter[tuple[str, AnswerReading]] = Counter()
    for number, reading, count in engine.rows(_POOL):
        pooled[outlines[number].id, kept[number][reading]] += count
    strays = sum(count for message, *_, count in found if message not in tallies)
    return CampaignTally(tallies, _count_participants(engine, tallies), strays, pooled)


def _name_messages(engine: Engine, message_ids: Mapping[str, str]) -> None:
    """Make the view `named` of the results, with the present ids of their messages."""
    cases = "".join(f" WHEN {quote(former)} THEN {quote(now)}" for former, now in message_ids.items())
    message = f"CASE message{cases} ELSE message END" if cases else "message"
    engine.run(f"CREATE OR REPLACE TEMP VIEW named AS SELECT * REPLACE ({message} AS message) FROM results")


def _count_participants(engine: Engine, tallies: Mapping[str, MessageTally]) -> int:
    """Return the number of participants, each once over all messages."""
    answered = [tally.participants for tally in tallies.values() if tally.participants]
    if len(answered) <= 1:
        return sum(answered)
    ids = ", ".join(map(quote, tallies))
    statement = f"SELECT count(DISTINCT person) FROM named WHERE message IN ({ids}) AND NOT refuses"
    ((count,),) = engine.rows(statement)
    return int(count)
