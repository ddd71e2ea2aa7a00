"""Latest answers of people over all messages: by question, group of the audience, and arm.

Days are counted from quarters of an hour, which the days of no time zone cut through.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runner.campaign.model import SCORED
from runner.report.columns.dataset import fold_column
from runner.report.columns.engine import quote
from runner.report.columns.person_table import MOST_MESSAGES, was_asked
from runner.report.comparison import fix_deadline
from runner.report.facts import ArmTally, Deadline, GroupTally, PooledTally

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date
    from zoneinfo import ZoneInfo

    from runner.report.columns.engine import Engine
    from runner.report.facts import AnswerReading, CampaignOutline, MessageOutline, PooledOutline

QUARTER_US = 900_000_000
_QUARTER_S = 900
_ANSWERS = {
    "question": "INTEGER",
    "message": "INTEGER",
    "person": "UUID",
    "reading": "INTEGER",
    "us": "BIGINT",
}
# Of two answers of one microsecond, or without a known time, the later message's counts.
_LATEST = """
CREATE OR REPLACE TEMP VIEW {latest} AS
SELECT question, person, arg_max(message, rank) AS message, arg_max(reading, rank) AS reading
FROM (SELECT *, us::HUGEINT * {most} + message AS rank FROM {answers}) GROUP BY question, person
"""
_BY_MESSAGE = "SELECT question, message, reading, count(*) AS n FROM pooled GROUP BY ALL"
_SENDINGS = f"""
SELECT arm, began_us // {QUARTER_US} AS quarter, count(*) AS n FROM contacts
WHERE message IN ({{}}) AND is_sent AND began_us IS NOT NULL GROUP BY ALL
"""
_SUMS = "count_if(is_texted) AS texted, count_if(has_answered) AS answered, count_if(is_complete) AS complete"
# Recipients who have left the audience belong to the group without a name.
_GROUPED = """
(SELECT persons.*, coalesce(members.value_{0}, '') AS value
FROM persons LEFT JOIN members ON members.person = persons.person WHERE persons.state IS NOT NULL)
"""
_BEFORE = "is_texted AND coalesce(arm_began_us < {0}, false)"


def add_days(rows: Iterable[tuple[int, int]], zone: ZoneInfo) -> Counter[date]:
    """Return counts by quarter of an hour since 1970 as counts by day in a time zone."""
    days: Counter[date] = Counter()
    for quarter, count in rows:
        days[datetime.fromtimestamp(quarter * _QUARTER_S, zone).date()] += count
    return days


def find_deadline(
    engine: Engine, outline: CampaignOutline, message_ids: Mapping[str, str], as_of: datetime | None
) -> Deadline:
    """Return the time of the verdict on the arms, from the recipients in the table `contacts`."""
    if outline.experiment is None:
        return Deadline()
    names = [name for name, now in message_ids.items() if now == outline.experiment.message]
    rows = engine.rows(_SENDINGS.format(", ".join(map(quote, names or [outline.experiment.message]))))
    sent = {
        arm: add_days(((quarter, count) for one, quarter, count in rows if one == arm), outline.time_zone)
        for arm in outline.experiment.weights
    }
    return fix_deadline(outline.experiment.analysis, sent, as_of, outline.time_zone)


@dataclass(slots=True)
class AnswerPool:
    """A collector of each message's latest answers, as far as they are counted over messages.

    `columns` are the audience's, in the order of the table `members`.
    """

    engine: Engine
    outline: CampaignOutline
    deadline: Deadline
    columns: Sequence[str]
    _pooled: dict[int, PooledOutline] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Start without answers."""
        by_person = bool(self.columns or self.outline.experiment)
        for number, one in enumerate(self.outline.questions):
            if len(one.messages) > 1 or (by_person and one.question.scale in SCORED):
                self._pooled[number] = one
        for latest, answers in (("pooled", "pool"), ("counted", "early_pool")):
            self.engine.fill(answers, _ANSWERS, ())
            self.engine.run(_LATEST.format(latest=latest, answers=answers, most=MOST_MESSAGES))
        self.engine.fill("pool_asked", {"question": "INTEGER", "person": "UUID"}, ())
        self.engine.fill("late", {"person": "UUID"}, ())

    def find_places(self, outline: MessageOutline) -> dict[int, int]:
        """Return the places of the message's questions that are counted over messages, by their numbers."""
        places = {question.tag: place for place, question in enumerate(outline.questions)}
        return {
            key: places[one.question.tag] for key, one in self._pooled.items() if outline.id in one.messages
        }

    def add(self, number: int, outline: MessageOutline) -> None:
        """Add the answers to a message, at its place in the campaign, that the engine has in `people`."""
        cutoff = self.deadline.cutoff_us
        if cutoff is not None:
            self.engine.run(
                f"INSERT INTO late SELECT DISTINCT person FROM read_answers WHERE created_us >= {cutoff}"
            )
        for key, place in self.find_places(outline).items():
            self.engine.run(
                f"INSERT INTO pool SELECT {key}, {number}, person, latest_{place}, us_{place} "
                f"FROM people WHERE latest_{place} IS NOT NULL"
            )
            if len(self._pooled[key].messages) > 1:
                self.engine.run(
                    f"INSERT INTO pool_asked SELECT {key}, person FROM touches WHERE message = {number} "
                    f"AND ({was_asked(outline, place)})"
                )
            if cutoff is not None and self._pooled[key].question.scale in SCORED:
                self.engine.run(
                    f"INSERT INTO early_pool SELECT {key}, {number}, person, arg_max(reading, rank), "
                    f"max(created_us) FROM read_answers WHERE place = {place} "
                    f"AND created_us < {cutoff} GROUP BY person"
                )

    def count_questions(self, readings: Sequence[AnswerReading]) -> dict[int, PooledTally]:
        """Return the answers to each question that several messages ask."""
        found: dict[int, Counter[tuple[str, AnswerReading]]] = {
            key: Counter() for key, one in self._pooled.items() if len(one.messages) > 1
        }
        if not found:
            return {}
        for key, message, reading, count in self.engine.rows(_BY_MESSAGE):
            if key in found:
                found[key][self.outline.messages[message].id, readings[reading]] += count
        rows = self.engine.rows("SELECT question, count(DISTINCT person) FROM pool_asked GROUP BY ALL")
        asked = dict(rows)
        return {key: PooledTally(counts, asked.get(key, 0)) for key, counts in found.items()}

    def count_groups(self, readings: Sequence[AnswerReading]) -> dict[str, dict[str, GroupTally]]:
        """Return everybody by the values of each column, without regard to case, blanks and typography.

        A group is called as most of its people are.
        """
        return {
            name: self._count_groups(_GROUPED.format(number), readings)
            for number, name in enumerate(self.columns)
        }

    def _count_groups(self, table: str, readings: Sequence[AnswerReading]) -> dict[str, GroupTally]:
        key = fold_column("value")
        statement = f"SELECT {key} AS key, value, {_SUMS}, count(*) AS n FROM {table} GROUP BY ALL"
        rows = self.engine.rows(statement)
        names: dict[str, str] = {}
        sums: dict[str, Counter[str]] = {}
        for folded, value, texted, answered, complete, _ in sorted(rows, key=lambda row: (-row[-1], row[1])):
            names.setdefault(folded, value.strip())
            counts = {"texted": texted, "answered": answered, "completed": complete}
            sums.setdefault(folded, Counter()).update(counts)
        joined = f"pooled JOIN {table} grouped ON grouped.person = pooled.person"
        found = self._count_readings(key, joined, readings)
        return {
            names[folded]: GroupTally(**{**_NOTHING, **sums[folded]}, readings=found.get(folded, {}))
            for folded in sorted(sums, key=lambda one: names[one])
        }

    def _count_readings(
        self, key: str, table: str, readings: Sequence[AnswerReading]
    ) -> dict[str, dict[int, Counter[AnswerReading]]]:
        """Return people by group, question's number and reading of their latest answer."""
        found: dict[str, dict[int, Counter[AnswerReading]]] = {}
        statement = f"SELECT {key} AS key, question, reading, count(*) AS n FROM {table} GROUP BY ALL"
        for group, question, reading, count in self.engine.rows(statement):
            found.setdefault(group, {}).setdefault(question, Counter())[readings[reading]] += count
        return found

    def count_arms(self, readings: Sequence[AnswerReading]) -> ArmTally | None:
        """Return the people in each arm, as far as the verdict counts them; None without an experiment."""
        experiment, cutoff = self.outline.experiment, self.deadline.cutoff_us
        if experiment is None:
            return None
        before = "is_texted" if cutoff is None else _BEFORE.format(cutoff)
        answered = "has_answered" if cutoff is None else f"has_answered AND coalesce(first_us, 0) < {cutoff}"
        early = "pooled" if cutoff is None else "counted"
        found = self._count_readings(
            "arm", f"{early} JOIN persons ON persons.person = {early}.person WHERE {before}", readings
        )
        statement = f"""SELECT arm, count(*) AS assigned, count_if({before}) AS texted,
            count_if({before} AND {answered}) AS answered, count_if({before} AND is_complete) AS completed,
            count_if(person IN (FROM late)) AS later
            FROM persons WHERE state IS NOT NULL GROUP BY ALL"""
        rows: dict[str, Sequence[Any]] = {arm: counts for arm, *counts in self.engine.rows(statement)}
        counts = {arm: rows.get(arm, [0] * 5) for arm in experiment.weights}
        return ArmTally(
            assigned={arm: row[0] for arm, row in counts.items()},
            groups={
                # Whether an end was reached is known of all answers together only.
                arm: GroupTally(row[1], row[2], row[3] if cutoff is None else None, found.get(arm, {}))
                for arm, row in counts.items()
            },
            answered_later=sum(row[4] for row in counts.values()),
            deadline=self.deadline,
        )


_NOTHING = {"texted": 0, "answered": 0, "completed": 0}
