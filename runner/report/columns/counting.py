"""Counts a campaign's results: one pass of the engine for each message, and groups of what it found."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runner.report.columns.questions import OWN_WORDS_NUMBER, list_asked, place_answers
from runner.report.tally import CampaignTally, DayTally, GroupTally, MessageTally, QuestionTally
from runner.report.words import LEAST_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import date

    from runner.report.answers import Reading
    from runner.report.columns.engine import Engine
    from runner.report.columns.questions import Asked
    from runner.report.facts import MessageOutline

    KeepAnswers = Callable[[MessageOutline, Asked, Sequence[Reading]], None]

LEAST_PARTICIPANTS = 5
"""A word that fewer participants used is not counted: it could tell who they are."""
_MOST_WORDS = 1000

_FOUND = "SELECT message, arm, question_tag, count(*) FROM results GROUP BY ALL"
_PARTICIPANTS = "SELECT count(DISTINCT person) FROM results SEMI JOIN names USING (message)"
# A word counts once a participant. Those who answered no question twice are not looked at one by one: a word
# is in the list of an answer's words once.
_WORDS = f"""
SELECT word, sum(if(person IS NULL, times, 1)) AS participants FROM (
  SELECT person, word, count(*) AS times FROM (
    SELECT repeated.person, unnest(words) AS word
    FROM read_answers LEFT JOIN repeated ON repeated.person = read_answers.person
    WHERE place = ? AND NOT is_kept
  ) GROUP BY person, word
) WHERE length(word) >= {LEAST_LENGTH}
GROUP BY word HAVING participants >= {LEAST_PARTICIPANTS}
ORDER BY participants DESC, word LIMIT {_MOST_WORDS}
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
_PATHS = "SELECT arm, path, count(*) FROM people GROUP BY ALL"
_READINGS = "SELECT arm, reading_{0}, count(*) FROM people WHERE reading_{0} IS NOT NULL GROUP BY ALL"
_TEXTS = "SELECT question_text, count(*) FROM answers WHERE place = ? GROUP BY ALL ORDER BY ALL"
_LENGTHS = """
SELECT characters_{0}, count(*) FROM people
WHERE characters_{0} IS NOT NULL GROUP BY ALL ORDER BY ALL
"""
_FIRST_DAYS = "SELECT make_timestamp(first_us)::DATE, count(*) FROM people WHERE first_us > 0 GROUP BY ALL"
_ANSWER_DAYS = (
    "SELECT make_timestamp(created_us)::DATE, count(*) FROM results SEMI JOIN names USING (message) "
    "WHERE created_us > 0 GROUP BY ALL"
)
# Who was sent to and is in the audience no more belongs to the group without a name.
_JOIN_GROUPS = """
CREATE OR REPLACE TEMP VIEW grouped AS
SELECT people.*, coalesce(members.value_{0}, '') AS value
FROM people LEFT JOIN members ON members.person = people.person
"""
_SENT_TO_GROUPS = """
SELECT coalesce(members.value_{0}, ''), count(*)
FROM reached LEFT JOIN members ON members.person = reached.person
WHERE reached.message = ? GROUP BY ALL
"""
_GROUP_PATHS = "SELECT value, arm, path, count(*) FROM grouped GROUP BY ALL"
_GROUP_READINGS = """
SELECT value, reading_{0}, count(*) FROM grouped WHERE reading_{0} IS NOT NULL GROUP BY ALL
"""


def count_campaign(
    engine: Engine,
    outlines: Iterable[MessageOutline],
    message_ids: Mapping[str, str],
    columns: Sequence[str] = (),
    *,
    keep_answers: KeepAnswers | None = None,
) -> CampaignTally:
    """Return what there is in the table `results`.

    Args:
        engine: sees the table.
        outlines: the campaign's messages.
        message_ids: the ids that messages have now, by those that they had before.
        columns: of the audience: who has which value is in the tables of `runner.report.columns.members`.
        keep_answers: is called for each message while the engine has its answers at hand.
    """
    wanted = {outline.id: outline for outline in outlines}
    found: dict[str, dict[str, Counter[tuple[str, str]]]] = {}
    strays = 0
    for message, arm, tag, count in engine.rows(_FOUND):
        now = message_ids.get(message, message)
        if now in wanted:
            found.setdefault(now, {}).setdefault(message, Counter())[arm, tag] += count
        else:
            strays += count
    messages = {}
    for id_, outline in wanted.items():
        _name(engine, found.get(id_, {}))
        asked = list_asked(outline, sum(found.get(id_, {}).values(), Counter()))
        readings = place_answers(engine, outline, asked)
        engine.run(_gather_people(asked, readings))
        engine.run(_FIND_REPEATED)
        messages[id_] = _count_message(engine, id_, asked, readings, columns)
        if keep_answers is not None:
            keep_answers(outline, asked, readings)
    return CampaignTally(messages, _count_participants(engine, found, messages), strays)


def _count_participants(
    engine: Engine, found: Mapping[str, Iterable[str]], messages: Mapping[str, MessageTally]
) -> int:
    if len(found) <= 1:
        # Everybody has one path through a message.
        return sum(sum(messages[message].paths.values()) for message in found)
    _name(engine, [name for names in found.values() for name in names])
    ((participants,),) = engine.rows(_PARTICIPANTS)
    return int(participants)


def _name(engine: Engine, names: Iterable[str]) -> None:
    engine.run("CREATE OR REPLACE TEMP TABLE names AS SELECT unnest(?::VARCHAR[]) AS message", [list(names)])


def _count_message(
    engine: Engine, message: str, asked: Asked, readings: Sequence[Reading], columns: Sequence[str]
) -> MessageTally:
    return MessageTally(
        results=asked.results,
        paths=_count_paths(engine),
        questions={
            tag: _count_question(engine, asked, place, readings) for place, tag in enumerate(asked.tags)
        },
        unlisted=asked.unlisted,
        first_s=dict(engine.rows(_count_seconds("first_us - started_us"))),
        days=_count_days(engine),
        groups={
            column: _count_groups(engine, message, asked, readings, number)
            for number, column in enumerate(columns)
        },
    )


def _gather_people(asked: Asked, readings: Sequence[Reading]) -> str:
    """Return the statement that makes the table `people`: a row a participant, with the latest answers."""
    ending = [number for number, reading in enumerate(readings) if reading.concludes]
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
    return {(arm, path): count for arm, path, count in sorted(engine.rows(_PATHS))}


def _count_seconds(microseconds: str) -> str:
    """Return the statement that counts participants by whole seconds; clocks that went back are left out."""
    return f"""
        SELECT ({microseconds}) // 1000000 AS seconds, count(*) FROM people
        WHERE ({microseconds}) >= 0 GROUP BY seconds ORDER BY seconds"""


def _count_question(engine: Engine, asked: Asked, place: int, readings: Sequence[Reading]) -> QuestionTally:
    rows = engine.rows(_READINGS.format(place))
    counted = {(arm, readings[number]): count for arm, number, count in sorted(rows)}
    is_known = place < len(asked.questions)
    return QuestionTally(
        readings=counted,
        texts={} if is_known else dict(engine.rows(_TEXTS, [place])),
        lengths=dict(engine.rows(_LENGTHS.format(place))),
        words=dict(engine.rows(_WORDS, [place])) if is_known and not asked.questions[place].responses else {},
        gaps_s=dict(engine.rows(_count_gaps(place))) if is_known else {},
    )


def _count_gaps(place: int) -> str:
    before = [f"answered_us_{earlier}" for earlier in range(place)]
    since = "started_us" if not before else f"greatest({', '.join(before)})"
    return _count_seconds(f"answered_us_{place} - {since}")


def _count_days(engine: Engine) -> dict[date, DayTally]:
    firsts: dict[date, int] = dict(engine.rows(_FIRST_DAYS))
    answers: dict[date, int] = dict(engine.rows(_ANSWER_DAYS))
    return {
        day: DayTally(firsts.get(day, 0), answers.get(day, 0))
        for day in sorted(firsts.keys() | answers.keys())
    }


def _count_groups(
    engine: Engine, message: str, asked: Asked, readings: Sequence[Reading], number: int
) -> dict[str, GroupTally]:
    engine.run(_JOIN_GROUPS.format(number))
    sent: dict[str, int] = dict(engine.rows(_SENT_TO_GROUPS.format(number), [message]))
    paths: dict[str, dict[tuple[str, str], int]] = {}
    for group, arm, path, count in sorted(engine.rows(_GROUP_PATHS)):
        paths.setdefault(group, {})[arm, path] = count
    answers: dict[str, dict[str, Counter[Reading]]] = {}
    for place, question in enumerate(asked.questions):
        for group, reading, count in sorted(engine.rows(_GROUP_READINGS.format(place))):
            counted = answers.setdefault(group, {}).setdefault(question.tag, Counter())
            counted[readings[reading]] += count
    return {
        group: GroupTally(sent.get(group, 0), paths.get(group, {}), answers.get(group, {}))
        for group in sorted(sent.keys() | paths.keys())
    }
