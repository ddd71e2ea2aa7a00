"""Counts a campaign's results: one pass of the engine for each message, and groups of what it found."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runner.report.columns.engine import quote
from runner.report.columns.found import count_participants, find_results, list_all_names, name_message
from runner.report.columns.groups import WholeGroups
from runner.report.columns.pooling import begin_pool, count_pool, find_place, pool_answers
from runner.report.columns.questions import OWN_WORDS_NUMBER, place_answers, read_kept
from runner.report.tally import CampaignTally, DayTally, GroupTally, MessageTally, QuestionTally
from runner.report.words import LEAST_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import date

    from runner.report.answers import Reading
    from runner.report.columns.engine import Engine
    from runner.report.columns.groups import Groups
    from runner.report.columns.questions import Asked
    from runner.report.facts import MessageOutline, ScoreOutline

    KeepAnswers = Callable[[MessageOutline, Asked, Sequence[Reading]], None]

LEAST_PARTICIPANTS = 5
"""A word that fewer participants used is not counted: it could tell who they are."""
_MOST_WORDS = 1000

_FREQUENT = f"""
SELECT word, n FROM {{}} WHERE n >= {LEAST_PARTICIPANTS} ORDER BY n DESC, word LIMIT {_MOST_WORDS}
"""
_FIND_REPEATED = """
CREATE OR REPLACE TEMP TABLE repeated AS SELECT person FROM people WHERE is_repeated
"""
_TIE_BITS, _CONTENT_BITS = 39, 24
_TIME_PLACE = _TIE_BITS + _CONTENT_BITS
_FIRST_READING = 1 << 16
# All that is to be known of an answer, in one number: of several the latest is the largest. After the time
# comes the start of the guid, for answers of one microsecond; then the characters of own words, or, from
# where no text is as long, the number of the reading. A product costs less than a shift of as many bits.
_PACKED = f"""created_us::HUGEINT * {1 << _TIME_PLACE}::HUGEINT
  + ((tie >> {64 - _TIE_BITS} << {_CONTENT_BITS})::BIGINT
    + if(is_kept, {_FIRST_READING} + reading, characters))::HUGEINT"""
# A word counts once a participant, of the answer that counts: the latest. Those who answered no question
# twice are not looked at one by one: a word is in the list of an answer's words once.
_WORDS = f"""
SELECT word, count(*) AS n FROM (
  SELECT unnest(words) AS word FROM read_answers ANTI JOIN repeated USING (person)
  WHERE place = $1 AND NOT is_kept
  UNION ALL
  SELECT unnest(words) FROM (
    SELECT arg_max(words, latest) AS words, arg_max(is_kept, latest) AS is_kept
    FROM (SELECT *, {_PACKED} AS latest FROM read_answers SEMI JOIN repeated USING (person) WHERE place = $1)
    GROUP BY person
  ) WHERE NOT is_kept
) WHERE length(word) >= {LEAST_LENGTH}
GROUP BY word
"""
_PATHS = "SELECT arm, path, count(*) AS n FROM people GROUP BY ALL"
_READINGS = "SELECT arm, reading_{0}, count(*) AS n FROM people WHERE reading_{0} IS NOT NULL GROUP BY ALL"
_TEXTS = "SELECT question_text, count(*) AS n FROM answers WHERE place = ? GROUP BY ALL ORDER BY ALL"
_LENGTHS = """
SELECT characters_{0}, count(*) AS n FROM people
WHERE characters_{0} IS NOT NULL GROUP BY ALL ORDER BY ALL
"""
_FIRST_DAYS = (
    "SELECT make_timestamp(first_us)::DATE AS day, count(*) AS n FROM people WHERE first_us > 0 GROUP BY ALL"
)
_ARM_DAYS = (
    "SELECT arm, make_timestamp(coalesce(first_us, 0))::DATE AS day, count(*) AS n FROM people "
    "WHERE arm <> '' GROUP BY ALL"
)
_ANSWER_DAYS = (
    "SELECT make_timestamp(created_us)::DATE AS day, count(*) AS n FROM results "
    "SEMI JOIN names USING (message) WHERE created_us > 0 AND NOT refuses GROUP BY ALL"
)
# Who was sent to and is in the audience no more belongs to the group without a name.
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
SELECT value, reading_{{1}}, count(*) AS n FROM {_GROUPED} WHERE reading_{{1}} IS NOT NULL GROUP BY ALL
"""


def count_campaign(
    engine: Engine,
    outlines: Iterable[MessageOutline],
    message_ids: Mapping[str, str],
    columns: Sequence[str] = (),
    *,
    score: ScoreOutline | None = None,
    keep_answers: KeepAnswers | None = None,
) -> CampaignTally:
    """Return what there is in the table `results`.

    Args:
        engine: sees the table.
        outlines: the campaign's messages.
        message_ids: the ids that messages have now, by those that they had before.
        columns: of the audience: who has which value is in the tables of `runner.report.columns.members`.
        score: the question whose answers are pooled; None for none.
        keep_answers: is called for each message while the engine has its answers at hand.
    """
    groups = WholeGroups(engine)
    wanted = {outline.id: outline for outline in outlines}
    found = find_results(groups, wanted, message_ids)
    messages, kept = {}, {}
    begin_pool(engine)
    for number, (id_, outline) in enumerate(wanted.items()):
        asked = found.list_asked(outline)
        name_message(engine, found.list_names(id_))
        place_answers(engine, outline, asked)
        readings = kept[id_] = read_kept(groups, outline, asked)
        gather_people(engine, asked, list_ending(readings))
        pool_answers(engine, number, find_place(score, id_, asked))
        messages[id_] = count_message(groups, id_, asked, readings, columns)
        if keep_answers is not None:
            keep_answers(outline, asked, readings)
    name_message(engine, list_all_names(found))
    pooled = count_pool(groups, list(wanted), kept)
    return CampaignTally(messages, count_participants(groups, found, messages), found.strays, pooled)


def list_ending(readings: Sequence[Reading]) -> list[int]:
    """Return the numbers of the readings that end the survey."""
    return [number for number, reading in enumerate(readings) if reading.concludes]


def count_message(
    groups: Groups, message: str, asked: Asked, readings: Sequence[Reading], columns: Sequence[str]
) -> MessageTally:
    """Return what there is of one message, in the tables of `gather_people`.

    Args:
        groups: of the message.
        message: its id.
        asked: its questions.
        readings: by their numbers.
        columns: as for `count_campaign`.
    """
    return MessageTally(
        results=asked.results,
        refusals=asked.refusals,
        paths=_count_paths(groups),
        questions={
            tag: _count_question(groups, asked, place, readings) for place, tag in enumerate(asked.tags)
        },
        unlisted=asked.unlisted,
        first_s=dict(groups.rows(_count_seconds("first_us - started_us"))),
        days=_count_days(groups),
        groups={
            column: _count_groups(groups, message, asked, readings, number)
            for number, column in enumerate(columns)
        },
        arm_days={(arm, day): count for arm, day, count in sorted(groups.rows(_ARM_DAYS))},
    )


def gather_people(engine: Engine, asked: Asked, ending: Sequence[int]) -> None:
    """Make the tables `people`, a row a participant with the latest answers, and `repeated`.

    Args:
        engine: has placed and read the answers.
        asked: the questions.
        ending: the numbers of the readings that end the survey.
    """
    engine.run(_gather_people(asked, ending))
    engine.run(_FIND_REPEATED)


def _gather_people(asked: Asked, ending: Sequence[int]) -> str:
    steps = [_write_step(place, ending) for place in range(len(asked.questions))]
    latest = "".join(
        f", max(latest) FILTER (WHERE place = {place}) AS latest_{place}" for place in range(len(asked.tags))
    )
    parts = "".join(_take_apart(place) for place in range(len(asked.tags)))
    once = " + ".join(f"(latest_{place} IS NOT NULL)::INTEGER" for place in range(len(asked.tags)))
    return f"""
        CREATE OR REPLACE TEMP TABLE people AS
        SELECT *, concat('', {", ".join(steps) or "''"}) AS path FROM (
          SELECT person, arm, started_us, first_us, answers > {once or 0} AS is_repeated{parts} FROM (
            SELECT person, min(arm) AS arm, min(started_us) AS started_us, count(*) AS answers,
              min(created_us) FILTER (WHERE created_us > 0) AS first_us{latest}
            FROM (SELECT *, {_PACKED} AS latest FROM read_answers) GROUP BY person))"""


def _take_apart(place: int) -> str:
    """Return the columns of the latest answer to a question."""
    latest = f"latest_{place}"
    content = f"({latest} & {2**_CONTENT_BITS - 1})::INTEGER"
    return (
        f", CASE WHEN {content} >= {_FIRST_READING} THEN {content} - {_FIRST_READING}"
        f" WHEN {latest} IS NOT NULL THEN {OWN_WORDS_NUMBER} END AS reading_{place}"
        f", CASE WHEN {content} < {_FIRST_READING} THEN {content} END AS characters_{place}"
        f", nullif(({latest} >> {_TIME_PLACE})::BIGINT, 0) AS answered_us_{place}"
    )


def _write_step(place: int, ending: Sequence[int]) -> str:
    """Return the expression for a question's character of a path."""
    number = f"reading_{place}"
    ends = f"list_contains({list(ending)}::INTEGER[], {number})"
    return f"CASE WHEN {number} IS NULL THEN '-' WHEN {ends} THEN 'c' ELSE 'a' END"


def _count_paths(groups: Groups) -> dict[tuple[str, str], int]:
    return {(arm, path): count for arm, path, count in sorted(groups.rows(_PATHS))}


def _count_seconds(microseconds: str) -> str:
    """Return the statement that counts participants by whole seconds; clocks that went back are left out."""
    return f"""
        SELECT ({microseconds}) // 1000000 AS seconds, count(*) AS n FROM people
        WHERE ({microseconds}) >= 0 GROUP BY seconds ORDER BY seconds"""


def _count_question(groups: Groups, asked: Asked, place: int, readings: Sequence[Reading]) -> QuestionTally:
    rows = groups.rows(_READINGS.format(place))
    counted = {(arm, readings[number]): count for arm, number, count in sorted(rows)}
    is_known = place < len(asked.questions)
    return QuestionTally(
        readings=counted,
        texts={} if is_known else dict(groups.rows(_TEXTS, [place])),
        lengths=dict(groups.rows(_LENGTHS.format(place))),
        words=dict(groups.rows(_WORDS, [place], choose=_FREQUENT))
        if is_known and not asked.questions[place].responses
        else {},
        gaps_s=dict(groups.rows(_count_gaps(asked, place))) if is_known else {},
    )


def _count_gaps(asked: Asked, place: int) -> str:
    """Return the statement for the times from the answer before a question, in the order of each arm."""
    since = {arm: _write_since(order, place) for arm, order in asked.orders}
    usual = next(iter(since.values()))
    others = "".join(f" WHEN {quote(arm)} THEN {text}" for arm, text in since.items() if text != usual)
    begun = f"CASE arm{others} ELSE {usual} END" if others else usual
    return _count_seconds(f"answered_us_{place} - ({begun})")


def _write_since(order: Sequence[int], place: int) -> str:
    before = order[: order.index(place)] if place in order else order
    earlier = ", ".join(f"answered_us_{one}" for one in before)
    return f"greatest({earlier})" if earlier else "started_us"


def _count_days(groups: Groups) -> dict[date, DayTally]:
    firsts: dict[date, int] = dict(groups.rows(_FIRST_DAYS))
    answers: dict[date, int] = dict(groups.rows(_ANSWER_DAYS))
    return {
        day: DayTally(firsts.get(day, 0), answers.get(day, 0))
        for day in sorted(firsts.keys() | answers.keys())
    }


def _count_groups(
    groups: Groups, message: str, asked: Asked, readings: Sequence[Reading], number: int
) -> dict[str, GroupTally]:
    sent: dict[str, int] = dict(groups.rows(_SENT_TO_GROUPS.format(number), [message]))
    paths: dict[str, dict[tuple[str, str], int]] = {}
    for group, arm, path, count in sorted(groups.rows(_GROUP_PATHS.format(number))):
        paths.setdefault(group, {})[arm, path] = count
    answers: dict[str, dict[str, Counter[Reading]]] = {}
    for place, question in enumerate(asked.questions):
        for group, reading, count in sorted(groups.rows(_GROUP_READINGS.format(number, place))):
            counted = answers.setdefault(group, {}).setdefault(question.tag, Counter())
            counted[readings[reading]] += count
    return {
        group: GroupTally(sent.get(group, 0), paths.get(group, {}), answers.get(group, {}))
        for group in sorted(sent.keys() | paths.keys())
    }
