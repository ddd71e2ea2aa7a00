"""Which charts a report has: its values as bars, columns and lines; empty where there is nothing to draw."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from runner.report.charts import Mark, draw_bars, draw_columns, draw_estimates, draw_parts
from runner.report.turnout import Day
from runner.report.wording import write_count, write_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.report.answered import NetPromoterScore, QuestionReport
    from runner.report.model import MessageReport
    from runner.report.turnout import Turnout

MOST_BARS = 24
"""A chart of more bars would be longer than a page; the table has all of them."""

MOST_DAYS = 120
"""A chart of more days has only those on which something happened."""

_LOWEST_PASSIVE = 7
_LOWEST_PROMOTER = 9
_NPS_POINTS = 11


def draw_funnel(message: MessageReport) -> str:
    """Return a message's way from its audience to the end of the survey, as bars."""
    marks = []
    if message.audience is not None:
        marks.append(_mark("Audience", message.audience.recipients))
    marks.append(_mark("Sent", message.sent))
    if message.questions:
        answered, completed = message.participants_answered, message.participants_completed
        of_sent, of_answered = write_percent(message.response_rate), write_percent(message.completion_rate)
        # What is not known has no length.
        if answered is not None:
            marks.append(_mark("Answered", answered, f"{of_sent} of sent"))
        if completed is not None:
            marks.append(_mark("Reached the end", completed, f"{of_answered} of these"))
    if len(marks) == 1 or not message.sent:
        return ""
    return draw_bars(marks, "Bar chart: people at each step, from the audience to the end of the survey")


def draw_nps(nps: NetPromoterScore) -> str:
    """Return the detractors, passives and promoters as one bar."""
    if not nps.counted:
        return ""
    parts = {"detractors": nps.detractors, "passives": nps.passives, "promoters": nps.promoters}
    return draw_parts(parts, "Bar: shares of detractors, passives and promoters")


def draw_distribution(question: QuestionReport) -> str:
    """Return how often each score of an NPS question was given, as columns; empty for other questions."""
    responses = question.distribution
    if question.nps is None or not question.nps.counted or len(responses) != _NPS_POINTS:
        return ""
    kinds = [_name_group(place) for place in range(_NPS_POINTS)]
    parts = {
        group: [
            response.count if kind == group else 0 for kind, response in zip(kinds, responses, strict=True)
        ]
        for group in ("detractors", "passives", "promoters")
    }
    return draw_columns([str(place) for place in range(_NPS_POINTS)], parts, "Column chart: answers by score")


def draw_days(days: Sequence[Day]) -> str:
    """Return first and further answers by day, as columns; empty for fewer than two days of answers."""
    by_date = {day.date: day for day in days}
    if sum((day.answers or 0) > 0 for day in days) < 2:  # noqa: PLR2004  # one column is no chart
        return ""
    dates = sorted(by_date)
    if (dates[-1] - dates[0]).days < MOST_DAYS:
        # Days without anything are no rows, but they are time.
        dates = [dates[0] + timedelta(days=number) for number in range((dates[-1] - dates[0]).days + 1)]
    shown = [by_date.get(date) or Day(date, 0, 0, 0) for date in dates]
    parts = {
        "first": [day.first_answers or 0 for day in shown],
        "further": [max((day.answers or 0) - (day.first_answers or 0), 0) for day in shown],
    }
    return draw_columns([f"{date:%m-%d}" for date in dates], parts, "Column chart: answers by day")


def draw_groups(groups: Sequence[Turnout]) -> str:
    """Return the response rates of groups with their intervals, as bars."""
    if not 1 < len(groups) <= MOST_BARS or all(group.response_rate is None for group in groups):
        return ""
    marks = [
        Mark(
            group.name,
            None if group.response_rate is None else float(group.response_rate),
            interval=group.response_interval,
        )
        for group in groups
    ]
    return draw_estimates(
        marks,
        "Bar chart: response rate of each group, with its 95 % interval",
        _write_rounded_percent,
    )


def _mark(label: str, count: int, share: str = "") -> Mark:
    text = f"{write_count(count)} ({share})" if share else write_count(count)
    return Mark(label, count, text)


def _name_group(score: int) -> str:
    if score < _LOWEST_PASSIVE:
        return "detractors"
    return "passives" if score < _LOWEST_PROMOTER else "promoters"


def _write_rounded_percent(rate: float) -> str:
    return f"{100 * rate:.0f} %"
