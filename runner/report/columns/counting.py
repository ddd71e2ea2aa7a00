"""Counts of a campaign's results, by the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from runner.report.answers import OWN_WORDS
from runner.report.columns.answer_pool import QUARTER_US, AnswerPool, add_days, find_deadline
from runner.report.columns.engine import quote
from runner.report.columns.person_table import (
    add_touches,
    begin_touches,
    count_contacts,
    count_paths,
    gather_persons,
)
from runner.report.columns.question_columns import (
    OWN_WORDS_NUMBER,
    Asked,
    list_asked,
    place_answers,
    read_kept,
)
from runner.report.facts import (
    AnswerReading,
    CampaignTally,
    MessageOutline,
    MessageTally,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from runner.report.columns.engine import Engine
    from runner.report.facts import CampaignOutline


# Whole seconds, without negative times. Quantiles as of numpy, R and spreadsheets: R. J. Hyndman and Y. Fan,
# "Sample quantiles in statistical packages", The American Statistician 50 (1996), 361-365, definition 7.
_FIRST_TIMES = """
SELECT quantile_cont(seconds, 0.5)
FROM (SELECT (first_us - started_us) // 1000000 AS seconds FROM people WHERE first_us >= started_us)
"""
_READINGS = "SELECT latest_{0}, count(*) AS n FROM people WHERE latest_{0} IS NOT NULL GROUP BY ALL"
# Quarters of an hour, which no time zone's days cut through.
_ANSWER_QUARTERS = (
    f"SELECT created_us // {QUARTER_US} AS quarter, count(*) AS n FROM named "
    "WHERE message = ? AND created_us > 0 AND NOT refuses GROUP BY ALL"
)
_FOUND = "SELECT message, refuses, says_nothing, arm, question_tag, count(*) AS n FROM named GROUP BY ALL"

KeepAnswers = Callable[[MessageOutline, Asked, Sequence[AnswerReading]], None]


def list_ending(readings: Sequence[AnswerReading]) -> list[int]:
    """Return the numbers of the readings that end the survey."""
    return [number for number, reading in enumerate(readings) if reading.concludes]


def count_message(
    engine: Engine, number: int, message: str, asked: Asked, readings: Sequence[AnswerReading], zone: ZoneInfo
) -> MessageTally:
    """Return the tally of one message, from the tables `people` and `touches`."""
    return MessageTally(
        results=asked.results,
        refusals=asked.refusals,
        non_answers=asked.non_answers,
        paths=count_paths(engine, number),
        questions={
            question.tag: _count_readings(engine, place, readings)
            for place, question in enumerate(asked.questions)
        },
        unknown=asked.unknown,
        median_first_s=_time_first(engine),
        days=dict(sorted(add_days(engine.rows(_ANSWER_QUARTERS, [message]), zone).items())),
        contacts=count_contacts(engine, number),
    )


def gather_people(engine: Engine, asked: Asked, ending: Sequence[int], timed: Collection[int]) -> None:
    """Make the table `people`, a row a participant with the latest answers.

    `latest_0` and so on are the reading of the latest answer to each question: of several of one microsecond,
    that with the largest guid. `us_0` and so on are when it came, at the places `timed` only.
    """
    steps = [_write_step(place, ending) for place in range(len(asked.questions))]
    latest = "".join(
        f", arg_max(reading, rank) FILTER (WHERE place = {place}) AS latest_{place}"
        for place in range(len(asked.questions))
    )
    latest += "".join(
        f", max(created_us) FILTER (WHERE place = {place}) AS us_{place}" for place in sorted(timed)
    )
    engine.run(f"""
        CREATE OR REPLACE TEMP TABLE people AS
        SELECT *, concat('', {", ".join(steps) or "''"}) AS path FROM (
          SELECT person, min(arm) AS arm, min(started_us) AS started_us,
            min(created_us) FILTER (WHERE created_us > 0) AS first_us{latest}
          FROM read_answers GROUP BY person)""")


def _write_step(place: int, ending: Sequence[int]) -> str:
    """Return the expression for a question's character of a path."""
    number = f"latest_{place}"
    ends = f"list_contains({list(ending)}::INTEGER[], {number})"
    return f"CASE WHEN {number} IS NULL THEN '-' WHEN {ends} THEN 'c' ELSE 'a' END"


def _time_first(engine: Engine) -> Fraction | None:
    ((median,),) = engine.rows(_FIRST_TIMES)
    return None if median is None else Fraction(median)


def _count_readings(
    engine: Engine, place: int, readings: Sequence[AnswerReading]
) -> dict[AnswerReading, int]:
    return {readings[number]: count for number, count in sorted(engine.rows(_READINGS.format(place)))}


def count_campaign(
    engine: Engine,
    outline: CampaignOutline,
    message_ids: Mapping[str, str],
    columns: Sequence[str] = (),
    *,
    as_of: datetime | None = None,
    keep_answers: KeepAnswers | None = None,
) -> CampaignTally:
    """Count the tables `results` and `contacts`.

    `message_ids` maps former ids of messages to present ones. `columns` are the audience's, with their values
    in the table `members`; `as_of` is the oldest reading of the launches, None if some was not reconciled.
    `keep_answers` is called for each message while the engine has its answers.
    """
    _name_messages(engine, message_ids)
    found = sorted(engine.rows(_FOUND))
    begin_touches(engine)
    pool = AnswerPool(engine, outline, find_deadline(engine, outline, message_ids, as_of), columns)
    tallies: dict[str, MessageTally] = {}
    numbers: dict[AnswerReading, int] = {OWN_WORDS: OWN_WORDS_NUMBER}
    for number, one in enumerate(outline.messages):
        asked = list_asked(one, [row[1:] for row in found if row[0] == one.id])
        place_answers(engine, one, asked)
        readings = read_kept(engine, one, asked, numbers)
        gather_people(engine, asked, list_ending(readings), pool.find_places(one).values())
        names = {name for name, now in message_ids.items() if now == one.id}
        add_touches(engine, number, one, {*names, one.id})
        pool.add(number, one)
        tallies[one.id] = count_message(engine, number, one.id, asked, readings, outline.time_zone)
        if keep_answers is not None:
            keep_answers(one, asked, readings)
    places = [one.id for one in outline.messages]
    experiment = None if outline.experiment is None else places.index(outline.experiment.message)
    people = gather_persons(engine, len(places), experiment)
    return CampaignTally(
        tallies,
        strays=sum(count for message, *_, count in found if message not in tallies),
        people=people,
        questions=pool.count_questions(list(numbers)),
        groups=pool.count_groups(list(numbers)),
        arms=pool.count_arms(list(numbers)),
    )


def _name_messages(engine: Engine, message_ids: Mapping[str, str]) -> None:
    """Make the view `named` of the results, with the present ids of their messages."""
    cases = "".join(f" WHEN {quote(former)} THEN {quote(now)}" for former, now in message_ids.items())
    message = f"CASE message{cases} ELSE message END" if cases else "message"
    engine.run(f"CREATE OR REPLACE TEMP VIEW named AS SELECT * REPLACE ({message} AS message) FROM results")
