"""A report's charts, none where there is nothing to draw; the figures are in a table beside each."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from runner.report.documents.wording import write_percent
from runner.report.model import Day
from runner.report.scores import divide
from runner.view.blocks import Chart
from runner.view.charts import ChartMark, plot_bars, plot_columns, plot_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.report.model import Turnout
    from runner.report.question_model import NetPromoterScore


MOST_BARS = 24
"""Bars of a chart, at most: more would be longer than a page; the table has all of them."""

MOST_DAYS = 120
"""Days of a chart, at most; a chart of more has only days with events."""


def draw_nps(nps: NetPromoterScore | None) -> Iterator[Chart]:
    """Yield the detractors, passives and promoters as one bar."""
    if nps is not None and nps.counted:
        parts = {"detractors": nps.detractors, "passives": nps.passives, "promoters": nps.promoters}
        legend = [
            (kind, f"{kind.capitalize()} {count:,} ({write_percent(divide(count, nps.counted))})")
            for kind, count in parts.items()
        ]
        yield Chart(plot_parts(parts, "Bar: shares of detractors, passives and promoters"), legend=legend)


def draw_days(days: Sequence[Day]) -> Iterator[Chart]:
    """Yield first and further answers by day, as columns; none for fewer than two days of answers."""
    by_date = {day.date: day for day in days}
    if sum((day.answers or 0) > 0 for day in days) < 2:  # noqa: PLR2004  # one column is no chart
        return
    dates = sorted(by_date)
    if (dates[-1] - dates[0]).days < MOST_DAYS:
        # Days without events have no rows, but take time.
        dates = [dates[0] + timedelta(days=number) for number in range((dates[-1] - dates[0]).days + 1)]
    shown = [by_date.get(date) or Day(date, 0, 0, 0) for date in dates]
    firsts = [day.first_answers or 0 for day in shown]
    further = [max((day.answers or 0) - first, 0) for day, first in zip(shown, firsts, strict=True)]
    parts = {"first": firsts, "further": further}
    svg = plot_columns([f"{date:%m-%d}" for date in dates], parts, "Column chart: answers by day")
    yield Chart(svg, legend=[("first", "First answers"), ("further", "Further answers")])


def draw_groups(groups: Sequence[Turnout]) -> Iterator[Chart]:
    """Yield the response rates of groups with their intervals, as bars."""
    if not 1 < len(groups) <= MOST_BARS or all(group.response_rate is None for group in groups):
        return
    marks = [
        ChartMark(
            group.name,
            None if group.response_rate is None else float(group.response_rate),
            write_percent(group.response_rate),
            group.response_interval,
        )
        for group in groups
    ]
    name = "Bar chart: response rate of each group, with its 95 % interval"
    svg = plot_bars(marks, name, lambda rate: f"{100 * rate:.0f} %")
    yield Chart(svg, "Response rates; the whiskers are 95 % intervals.")
