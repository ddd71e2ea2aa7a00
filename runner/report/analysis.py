"""When an experiment's verdict is taken, and of whom: on a day that was fixed before, or at every look.

A test that is made anew at each of many reports finds differences that are not there: of 100 experiments
without one, 14 daily reports call some 15 different. So a test for one look is made of people and answers
before one fixed day alone: every later report makes the same test of the same data.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from runner.report.comparison import compare_arms, postpone_comparison
from runner.report.turnout import Analysis, CountedArm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.ledger.report_model import SentRow
    from runner.report.comparison import ArmDifference
    from runner.report.facts import AnalysisPlan

DAYS_TO_ANSWER = 7
"""From the day on which enough people had been asked to the day of the verdict, which is our choice."""


def analyse(
    plan: AnalysisPlan,
    arms: Sequence[str],
    sent: Iterable[SentRow],
    answered: Mapping[tuple[str, date], int],
    as_of: datetime | None,
) -> tuple[Analysis, tuple[ArmDifference, ...]]:
    """Return how the arms' response rates are compared, and what came out.

    With `at` a test for one look is made of the people asked, and of the first answers that came, before that
    day (UTC), once every launch was reconciled on it or later. With `per_arm` that day follows from the
    sending: the seventh after the one on which the last arm had so many people asked. With neither, a test
    that holds at every look is made of all there is.

    Args:
        plan: what the campaign fixes.
        arms: in the campaign's order.
        sent: recipients of the message, by arm and day.
        answered: participants by arm and the day of their first answer.
        as_of: when the launches were reconciled, that of the oldest reading; None when some was not.
    """
    rows = [(row.arm, date.fromisoformat(row.date), row.recipients) for row in sent]
    firsts = [(arm, day, count) for (arm, day), count in answered.items()]
    due = plan.at if plan.per_arm is None else _find_due_day(plan.per_arm, arms, rows)
    is_sequential = plan.at is None and plan.per_arm is None
    has_come = due is not None and as_of is not None and as_of >= datetime.combine(due, time(), UTC)
    is_due = is_sequential or has_come
    counted = _count_before(due if due is not None and has_come else date.max, arms, rows, firsts)
    analysis = Analysis("sequential" if is_sequential else "fixed", due, plan.per_arm, is_due, counted)
    counts = [(arm.name, arm.answered, arm.sent) for arm in counted]
    if not is_due:
        return analysis, postpone_comparison(counts)
    return analysis, compare_arms(counts, at_every_look=is_sequential)


def _find_due_day(per_arm: int, arms: Sequence[str], rows: Iterable[tuple[str, date, int]]) -> date | None:
    """Return the day of the verdict; None as long as an arm has too few people asked."""
    asked: Counter[str] = Counter()
    for arm, day, recipients in sorted(rows, key=lambda row: row[1]):
        asked[arm] += recipients
        if all(asked[one] >= per_arm for one in arms):
            return day + timedelta(days=DAYS_TO_ANSWER)
    return None


def _count_before(
    day: date,
    arms: Sequence[str],
    sent: Iterable[tuple[str, date, int]],
    answered: Iterable[tuple[str, date, int]],
) -> tuple[CountedArm, ...]:
    """Return how many of each arm were asked, and answered, before a day."""
    asked, responded = Counter[str](), Counter[str]()
    for counter, rows in ((asked, sent), (responded, answered)):
        for arm, one, count in rows:
            if one < day:
                counter[arm] += count
    # More answers than sends are a discrepancy, of which no test can make sense.
    return tuple(CountedArm(arm, asked[arm], min(responded[arm], asked[arm])) for arm in arms)
