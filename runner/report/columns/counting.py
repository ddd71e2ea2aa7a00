"""Counts of a campaign's results, by the engine: by message, over all of them, by group, and by arm."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from runner.campaign.message_model import SCORED
from runner.report.columns.dataset import fold_column
from runner.report.columns.person_table import (
    add_touches,
    begin_touches,
    gather_people,
    gather_persons,
    was_asked,
)
from runner.report.columns.replies import number_messages, read_replies
from runner.report.comparison import fix_deadline
from runner.report.facts import ArmTally, CampaignTally, GroupTally, MessageTally, PooledTally

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import date
    from zoneinfo import ZoneInfo

    from runner.report.columns.engine import Engine
    from runner.report.facts import AnswerReading, CampaignOutline

# Quarters of an hour, which no time zone's days cut through.
_QUARTER_S = 900
_QUARTER_US = 900_000_000
_ANSWER_QUARTERS = (
    f"SELECT created_us // {_QUARTER_US} AS quarter, count(*) AS n FROM named "
    "WHERE message = ? AND created_us > 0 AND NOT refuses GROUP BY ALL"
)
_SENDING_QUARTERS = (
    f"SELECT arm, began_us // {_QUARTER_US} AS quarter, count(*) AS n FROM reached "
    "WHERE message = ? AND is_sent AND began_us IS NOT NULL GROUP BY ALL"
)
# Whole seconds, without negative times. Quantiles as of numpy, R and spreadsheets: R. J. Hyndman and Y. Fan,
# "Sample quantiles in statistical packages", The American Statistician 50 (1996), 361-365, definition 7.
_FIRST_TIMES = """
SELECT quantile_cont(seconds, 0.5)
FROM (SELECT (first_us - started_us) // 1000000 AS seconds FROM people WHERE first_us >= started_us)
"""
_READINGS = "SELECT latest_{0}, count(*) AS n FROM people WHERE latest_{0} IS NOT NULL GROUP BY ALL"
_CONTACTS = """
SELECT (SELECT count_if(is_sent) FROM sendings WHERE message = {number}) AS sent,
  (SELECT count_if(is_sent AND is_listed) FROM sendings WHERE message = {number}) AS listed,
  count_if(is_texted) AS texted, count_if(has_answered) AS answered, count_if(is_complete) AS completed,
  count_if(has_opted_out) AS opted_out
FROM touches WHERE message = {number}
"""
_POOL = """
CREATE OR REPLACE TEMP TABLE {name} AS
SELECT question, person, arg_max(message, rank) AS message, arg_max(reading, rank) AS reading
FROM read_answers WHERE list_contains({questions}::INTEGER[], question) AND created_us < {before}
GROUP BY question, person
"""
_ALWAYS = 2**63 - 1
_BY_MESSAGE = "SELECT question, message, reading, count(*) AS n FROM pooled GROUP BY ALL"
# Recipients who have left the audience belong to the group without a name.
_BY_COLUMN = """
SELECT persons.*, coalesce(members.value_{number}, '') AS value, {key} AS key, true AS is_counted
FROM persons LEFT JOIN members ON members.person = persons.person
"""
_BY_ARM = """
SELECT * REPLACE (is_texted AND is_counted AS is_texted, is_complete AND is_counted AS is_complete,
  has_answered AND is_counted AND coalesce(first_us, 0) < {before} AS has_answered)
FROM (SELECT *, arm AS value, arm AS key, {is_counted} AS is_counted FROM persons)
"""
_GROUPS = """
SELECT key, first(value ORDER BY n DESC, value), sum(n), sum(texted), sum(answered), sum(complete) FROM (
  SELECT key, value, count(*) AS n, count_if(is_texted) AS texted, count_if(has_answered) AS answered,
    count_if(is_complete) AS complete
  FROM grouped GROUP BY ALL)
GROUP BY key
"""
_READ = """
SELECT key, question, reading, count(*) AS n FROM {pool} JOIN grouped USING (person) WHERE is_counted
GROUP BY ALL
"""
_LATER = """
SELECT count(*) FROM persons WHERE state IS NOT NULL AND list_contains(?::VARCHAR[], arm)
  AND person IN (SELECT person FROM read_answers WHERE created_us >= {before})
"""


def count_campaign(
    engine: Engine,
    outline: CampaignOutline,
    message_ids: Mapping[str, str],
    columns: Sequence[str] = (),
    *,
    as_of: datetime | None = None,
) -> CampaignTally:
    """Count the tables `results` and `contacts`.

    `message_ids` maps former ids of messages to present ones. `columns` are the audience's, with their values
    in the table `members`; `as_of` is the oldest reading of the launches, None if some was not reconciled.
    """
    found = number_messages(engine, outline, message_ids)
    counter = _ResultCounter(engine, outline, read_replies(engine, outline, found))
    begin_touches(engine)
    messages = {}
    for number, one in enumerate(outline.messages):
        gather_people(engine, number, one, counter.readings)
        add_touches(engine, number, one)
        messages[one.id] = counter.count_message(number, [row[1:] for row in found if row[0] == number])
    people = gather_persons(engine, counter.experiment)
    scored = {number for number, one in enumerate(outline.questions) if one.question.scale in SCORED}
    shared = {number for number, one in enumerate(outline.questions) if len(one.messages) > 1}
    counter.pool("pooled", shared | scored if columns or outline.experiment else shared)
    return CampaignTally(
        messages,
        strays=sum(row[-1] for row in found if row[0] is None),
        people=people,
        questions=counter.count_questions(shared),
        groups=counter.count_columns(columns),
        arms=counter.count_arms(scored, as_of),
        readings=counter.readings,
    )


def _add_days(rows: Iterable[tuple[int, int]], zone: ZoneInfo) -> Counter[date]:
    """Return counts by quarter of an hour since 1970 as counts by day in a time zone."""
    days: Counter[date] = Counter()
    for quarter, count in rows:
        days[datetime.fromtimestamp(quarter * _QUARTER_S, zone).date()] += count
    return days


@dataclass(frozen=True, slots=True)
class _ResultCounter:
    """A counter of one campaign's people and answers; `readings` are by the numbers that the tables have."""

    engine: Engine
    outline: CampaignOutline
    readings: Sequence[AnswerReading]

    @property
    def experiment(self) -> int | None:
        """The place of the message that has arms."""
        ids, experiment = [one.id for one in self.outline.messages], self.outline.experiment
        return None if experiment is None else ids.index(experiment.message)

    def count_message(self, number: int, found: Sequence[tuple[Any, ...]]) -> MessageTally:
        """Return the tally of one message, from the tables `people` and `touches`."""
        engine, outline = self.engine, self.outline.messages[number]
        tags = [question.tag for question in outline.questions]
        unknown: Counter[str] = Counter()
        for refuses, _, _, tag, count in found:
            if not refuses and tag not in tags:
                unknown[tag] += count
        asked = [f"count_if({was_asked(outline, tag)}) AS asked_{place}" for place, tag in enumerate(tags)]
        select = f"SELECT {', '.join(asked)} FROM touches WHERE message = {number}"
        ((median,),) = engine.rows(_FIRST_TIMES)
        return MessageTally(
            **engine.count(_CONTACTS.format(number=number)),
            results=sum(count for *_, count in found),
            non_answers=sum(count for _, says_nothing, *_, count in found if says_nothing),
            unknown=unknown,
            questions={
                tag: {self.readings[one]: n for one, n in sorted(engine.rows(_READINGS.format(place)))}
                for place, tag in enumerate(tags)
            },
            asked=dict(zip(tags, engine.count(select).values(), strict=True)) if asked else {},
            median_first_s=None if median is None else Fraction(median),
            days=_add_days(engine.rows(_ANSWER_QUARTERS, [number]), self.outline.time_zone),
        )

    def pool(self, name: str, questions: Collection[int], before: int = _ALWAYS) -> None:
        """Make a table of the latest answers of people to these questions, over all messages."""
        self.engine.run(_POOL.format(name=name, questions=sorted(questions), before=before))

    def count_questions(self, shared: Collection[int]) -> dict[int, PooledTally]:
        """Return the answers to each question that several messages ask."""
        messages, found = self.outline.messages, self.engine.rows(_BY_MESSAGE) if shared else []
        tallies = {}
        for number in sorted(shared):
            pooled = self.outline.questions[number]
            asked = " OR ".join(
                f"message = {place} AND {was_asked(one, pooled.question.tag)}"
                for place, one in enumerate(messages)
                if one.id in pooled.messages
            )
            ((people,),) = self.engine.rows(f"SELECT count(DISTINCT person) FROM touches WHERE {asked}")
            counts = {
                (messages[place].id, self.readings[reading]): count
                for question, place, reading, count in found
                if question == number
            }
            tallies[number] = PooledTally(counts, people)
        return tallies

    def count_columns(self, columns: Sequence[str]) -> dict[str, dict[str, GroupTally]]:
        """Return everybody by the values of each column, without regard to case, blanks and typography."""
        key = fold_column("value")
        return {
            name: self._count_groups(_BY_COLUMN.format(number=number, key=key), "pooled")
            for number, name in enumerate(columns)
        }

    def _count_groups(self, select: str, pool: str) -> dict[str, GroupTally]:
        """Return people by a key, and their latest answers in a pool; a group is called as most of it are."""
        self.engine.run(f"CREATE OR REPLACE TEMP VIEW grouped AS FROM ({select}) WHERE state IS NOT NULL")
        found: dict[str, dict[int, Counter[AnswerReading]]] = {}
        for key, question, reading, count in self.engine.rows(_READ.format(pool=pool)):
            found.setdefault(key, {}).setdefault(question, Counter())[self.readings[reading]] += count
        groups = {
            name.strip(): GroupTally(texted, answered, completed, found.get(key, {}), people)
            for key, name, people, texted, answered, completed in self.engine.rows(_GROUPS)
        }
        return dict(sorted(groups.items()))

    def count_arms(self, scored: Collection[int], as_of: datetime | None) -> ArmTally | None:
        """Return the people in each arm, as far as the verdict counts them; None without an experiment."""
        experiment, zone = self.outline.experiment, self.outline.time_zone
        if experiment is None:
            return None
        quarters = self.engine.rows(_SENDING_QUARTERS, [self.experiment])
        sent = {
            arm: _add_days((row[1:] for row in quarters if row[0] == arm), zone) for arm in experiment.weights
        }
        deadline = fix_deadline(experiment, sent, as_of, zone)
        before, is_counted, pool, later = _ALWAYS, "is_texted", "pooled", 0
        if deadline.cutoff_us is not None:
            before, pool = deadline.cutoff_us, "counted"
            is_counted = f"is_texted AND coalesce(arm_began_us < {before}, false)"
            self.pool(pool, scored, before)
            ((later,),) = self.engine.rows(_LATER.format(before=before), [list(experiment.weights)])
        found = self._count_groups(_BY_ARM.format(before=before, is_counted=is_counted), pool)
        groups = {arm: found.get(arm, GroupTally()) for arm in experiment.weights}
        if deadline.cutoff_us is not None:
            # Whether an end was reached is known of all answers together only.
            groups = {arm: replace(group, completed=None) for arm, group in groups.items()}
        return ArmTally(groups, later, deadline)
