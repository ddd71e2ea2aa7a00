"""Counts of a campaign's results, by the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.report.answers import LEAST_LENGTH
from runner.report.columns.engine import quote
from runner.report.columns.question_columns import (
    OWN_WORDS_NUMBER,
    Asked,
    count_groups,
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
    from collections.abc import Collection, Iterable, Mapping
    from datetime import date

    from runner.report.columns.engine import Engine
    from runner.report.facts import ScoreOutline


LEAST_PARTICIPANTS = 5
"""Words that fewer participants used are not counted: they could identify somebody."""
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
# Ranks an answer by one number: of several answers the latest is the largest. After the time
# comes the start of the guid, for answers of one microsecond; then the characters of own words, or, from
# where no text is as long, the number of the reading. A product costs less than a shift of as many bits.
_PACKED = f"""created_us::HUGEINT * {1 << _TIME_PLACE}::HUGEINT
  + ((tie >> {64 - _TIE_BITS} << {_CONTENT_BITS})::BIGINT
    + if(is_kept, {_FIRST_READING} + reading, characters))::HUGEINT"""
# A word counts once a participant, in the latest answer. Participants who answered no question
# twice need no check: an answer's list of words has each word once.
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
SELECT value, reading_{{1}}, count(*) AS n FROM {_GROUPED} WHERE reading_{{1}} IS NOT NULL GROUP BY ALL
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
        paths=_count_paths(engine),
        questions={
            tag: _count_question(engine, asked, place, readings) for place, tag in enumerate(asked.tags)
        },
        unlisted=asked.unlisted,
        first_s=dict(count_groups(engine, _count_seconds("first_us - started_us"))),
        days=_count_days(engine),
        groups={
            column: _count_groups(engine, message, asked, readings, number)
            for number, column in enumerate(columns)
        },
        arm_days={(arm, day): count for arm, day, count in sorted(count_groups(engine, _ARM_DAYS))},
    )


def gather_people(engine: Engine, asked: Asked, ending: Sequence[int]) -> None:
    """Make the tables `people`, a row a participant with the latest answers, and `repeated`."""
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


def _count_paths(engine: Engine) -> dict[tuple[str, str], int]:
    return {(arm, path): count for arm, path, count in sorted(count_groups(engine, _PATHS))}


def _count_seconds(microseconds: str) -> str:
    """Return the statement that counts participants by whole seconds, without negative times."""
    return f"""
        SELECT ({microseconds}) // 1000000 AS seconds, count(*) AS n FROM people
        WHERE ({microseconds}) >= 0 GROUP BY seconds ORDER BY seconds"""


def _count_question(
    engine: Engine, asked: Asked, place: int, readings: Sequence[AnswerReading]
) -> QuestionTally:
    rows = count_groups(engine, _READINGS.format(place))
    counted = {(arm, readings[number]): count for arm, number, count in sorted(rows)}
    is_known = place < len(asked.questions)
    return QuestionTally(
        readings=counted,
        texts={} if is_known else dict(count_groups(engine, _TEXTS, [place])),
        lengths=dict(count_groups(engine, _LENGTHS.format(place))),
        words=dict(count_groups(engine, _WORDS, [place], choose=_FREQUENT))
        if is_known and not asked.questions[place].responses
        else {},
        gaps_s=dict(count_groups(engine, _count_gaps(asked, place))) if is_known else {},
    )


def _count_gaps(asked: Asked, place: int) -> str:
    """Return the statement for the times since the answer before a question, in the order of each arm."""
    since = {arm: _write_since(order, place) for arm, order in asked.orders}
    usual = next(iter(since.values()))
    others = "".join(f" WHEN {quote(arm)} THEN {text}" for arm, text in since.items() if text != usual)
    begun = f"CASE arm{others} ELSE {usual} END" if others else usual
    return _count_seconds(f"answered_us_{place} - ({begun})")


def _write_since(order: Sequence[int], place: int) -> str:
    before = order[: order.index(place)] if place in order else order
    earlier = ", ".join(f"answered_us_{one}" for one in before)
    return f"greatest({earlier})" if earlier else "started_us"


def _count_days(engine: Engine) -> dict[date, DayTally]:
    firsts: dict[date, int] = dict(count_groups(engine, _FIRST_DAYS))
    answers: dict[date, int] = dict(count_groups(engine, _ANSWER_DAYS))
    return {
        day: DayTally(firsts.get(day, 0), answers.get(day, 0))
        for day in sorted(firsts.keys() | answers.keys())
    }


def _count_groups(
    engine: Engine, message: str, asked: Asked, readings: Sequence[AnswerReading], number: int
) -> dict[str, GroupTally]:
    sent: dict[str, int] = dict(count_groups(engine, _SENT_TO_GROUPS.format(number), [message]))
    paths: dict[str, dict[tuple[str, str], int]] = {}
    for group, arm, path, count in sorted(count_groups(engine, _GROUP_PATHS.format(number))):
        paths.setdefault(group, {})[arm, path] = count
    answers: dict[str, dict[str, Counter[AnswerReading]]] = {}
    for place, question in enumerate(asked.questions):
        for group, reading, count in sorted(count_groups(engine, _GROUP_READINGS.format(number, place))):
            counted = answers.setdefault(group, {}).setdefault(question.tag, Counter())
            counted[readings[reading]] += count
    return {
        group: GroupTally(sent.get(group, 0), paths.get(group, {}), answers.get(group, {}))
        for group in sorted(sent.keys() | paths.keys())
    }


_POOL = """
CREATE OR REPLACE TEMP TABLE pooled (person UUID, message INTEGER, reading INTEGER, answered_us BIGINT)
"""
# Of two answers of one microsecond, or without a known time, the later message's counts.
_COUNT_POOL = """
SELECT latest.message AS message, latest.reading AS reading, count(*) AS n FROM (
  SELECT arg_max({'message': message, 'reading': reading}, (answered_us::HUGEINT << 16) | message) AS latest
  FROM pooled GROUP BY person
) GROUP BY ALL
"""
_FOUND = "SELECT message, refuses, arm, question_tag, count(*) AS n FROM results GROUP BY ALL"
_PARTICIPANTS = "SELECT count(DISTINCT person) FROM results SEMI JOIN names USING (message) WHERE NOT refuses"


@dataclass(frozen=True, slots=True)
class Found:
    """The results that exist.

    Attributes:
        messages: answers by arm and question tag, by the id under which they are entered, by message.
        refusals: results that opt out, by message.
        strays: results of messages that the campaign does not have.
    """

    messages: Mapping[str, Mapping[str, Counter[tuple[str, str]]]]
    refusals: Mapping[str, int]
    strays: int

    def list_names(self, message: str) -> list[str]:
        """Return the ids under which a message has results."""
        return list(self.messages.get(message, {}))

    def list_asked(self, outline: MessageOutline) -> Asked:
        """Return the questions of a message."""
        found = sum(self.messages.get(outline.id, {}).values(), Counter[tuple[str, str]]())
        return list_asked(outline, found, self.refusals.get(outline.id, 0))


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
    there = _find_results(engine, {outline.id for outline in outlines}, message_ids)
    engine.run(_POOL)
    tallies: dict[str, MessageTally] = {}
    kept: dict[str, list[AnswerReading]] = {}
    for number, one in enumerate(outlines):
        asked = there.list_asked(one)
        _name_message(engine, there.list_names(one.id))
        place_answers(engine, one, asked)
        readings = kept[one.id] = read_kept(engine, one, asked)
        gather_people(engine, asked, list_ending(readings))
        _pool_answers(engine, number, _find_place(score, one.id, asked))
        tallies[one.id] = count_message(engine, one.id, asked, readings, columns)
        if keep_answers is not None:
            keep_answers(one, asked, readings)
    everybody = _count_participants(engine, there, tallies)
    return CampaignTally(tallies, everybody, there.strays, _count_pool(engine, list(tallies), kept))


def _find_results(engine: Engine, wanted: Collection[str], message_ids: Mapping[str, str]) -> Found:
    """Return the results that exist of the wanted messages, and of others."""
    messages: dict[str, dict[str, Counter[tuple[str, str]]]] = {}
    refusals: Counter[str] = Counter()
    strays = 0
    for message, refuses, arm, tag, count in count_groups(engine, _FOUND):
        now = message_ids.get(message, message)
        if now not in wanted:
            strays += count
            continue
        names = messages.setdefault(now, {}).setdefault(message, Counter())
        if refuses:
            refusals[now] += count
        else:
            names[arm, tag] += count
    return Found(messages, refusals, strays)


def _count_participants(engine: Engine, found: Found, messages: Mapping[str, MessageTally]) -> int:
    """Return the number of participants, each once over all messages (table `names`)."""
    if len(found.messages) <= 1:
        # Each participant has one path through a message.
        return sum(sum(messages[message].paths.values()) for message in found.messages)
    _name_message(engine, [name for names in found.messages.values() for name in names])
    ((count,),) = engine.rows(_PARTICIPANTS)
    return int(count)


def _name_message(engine: Engine, names: Iterable[str]) -> None:
    """Make the table `names`: the ids of the message that is counted next."""
    engine.run("CREATE OR REPLACE TEMP TABLE names AS SELECT unnest(?::VARCHAR[]) AS message", [list(names)])


def _find_place(score: ScoreOutline | None, message: str, asked: Asked) -> int | None:
    """Return the place of the campaign's question in a message; None if it is not pooled from there."""
    if score is None or message not in score.messages:
        return None
    return asked.tags.index(score.question.tag)


def _pool_answers(engine: Engine, number: int, place: int | None) -> None:
    """Add each participant's latest answer to one message to the pool."""
    if place is not None:
        engine.run(
            f"""INSERT INTO pooled SELECT person, {number}, reading_{place},
            coalesce(answered_us_{place}, 0) FROM people WHERE reading_{place} IS NOT NULL"""
        )


def _count_pool(
    engine: Engine, messages: Sequence[str], readings: Mapping[str, Sequence[AnswerReading]]
) -> dict[tuple[str, AnswerReading], int]:
    """Return participants by the message of their latest answer, and by its reading."""
    counted: Counter[tuple[str, AnswerReading]] = Counter()
    for number, reading, count in count_groups(engine, _COUNT_POOL):
        counted[messages[number], readings[messages[number]][reading]] += count
    return dict(counted)
