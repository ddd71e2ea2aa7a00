"""One page across campaigns: what each came to, and how scores changed from wave to wave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.report.charts import Mark, draw_trend
from runner.report.html import render_page
from runner.report.tables import Column, Table
from runner.report.waves import find_first_sending, find_waves, read_score
from runner.report.wording import (
    NOT_DEFINED,
    write_count,
    write_percent,
    write_percent_range,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from runner.report.model import CampaignReport, MessageReport
    from runner.report.waves import Trend

MOST_WAVES = 24
"""A chart has the last waves, as many as this; the table has all."""

_LIMITS = {"nps": (-100.0, 100.0), "csat": (0.0, 1.0), "mean": (float("-inf"), float("inf"))}


def write_index(reports: Sequence[CampaignReport], links: Mapping[str, str]) -> str:
    """Return an HTML page across campaigns: a table of them, and the trends between waves.

    Args:
        reports: one for each campaign, in any order: the page has the latest first.
        links: by campaign, the address of its own report as it is from this page; a campaign without one has
            no link. Characters that an address can't have are percent-encoded already.
    """
    ordered = sorted(reports, key=lambda report: report.campaign)
    ordered.sort(key=_rank, reverse=True)
    trends = find_waves(reports)
    return render_page(
        "index.html.j2",
        rows=[(report, describe_campaign(report), links.get(report.campaign)) for report in ordered],
        trends=[(trend, draw_waves(trend), tabulate_waves(trend)) for trend in trends],
        is_simulated=any(report.is_simulated for report in reports),
    )


def describe_campaign(report: CampaignReport) -> tuple[str, ...]:
    """Return a campaign's dates, sent, answered, response rate, its interval, and scores, as texts.

    The rate is that of the message that was sent to the most people, of those that ask something: a person
    may have had several.
    """
    surveys = [message for message in report.messages if message.questions and message.sent]
    main = max(surveys, key=lambda message: message.sent, default=None)
    return (
        _write_dates(report),
        write_count(report.sent),
        write_count(report.participants_answered),
        NOT_DEFINED if main is None else write_percent(main.response_rate),
        NOT_DEFINED if main is None else write_percent_range(main.response_rate_interval),
        NOT_DEFINED if main is None else _write_scores(main),
    )


def tabulate_waves(trend: Trend) -> Table:
    """Return a question's score in each wave."""
    columns = (
        Column("Campaign", "text"),
        Column("First sent"),
        Column("Score"),
        Column("95 % interval"),
        Column("Answers"),
    )
    rows = tuple(
        (
            wave.campaign,
            wave.first_sent_at.date().isoformat(),
            str(wave.score),
            wave.score.range,
            write_count(wave.score.counted),
        )
        for wave in trend.waves
    )
    return Table(f"{trend.tag}, wave by wave", columns, rows)


def draw_waves(trend: Trend) -> str:
    """Return a question's score in each wave as a line with its intervals."""
    measure = trend.waves[-1].score.measure
    waves = trend.waves[-MOST_WAVES:]
    months = [f"{wave.first_sent_at:%Y-%m}" for wave in waves]
    dates = [wave.first_sent_at.date().isoformat() for wave in waves]
    marks = [
        Mark(
            label,
            None if wave.score.value is None else float(wave.score.value),
            interval=wave.score.interval,
        )
        for label, wave in zip(months if len(set(months)) == len(months) else dates, waves, strict=True)
    ]
    return draw_trend(
        marks,
        f"Line chart: {trend.tag}, wave by wave, with 95 % intervals",
        _AXES[measure],
        _LIMITS[measure],
    )


def _rank(report: CampaignReport) -> tuple[bool, str]:
    first: datetime | None = find_first_sending(report)
    return (False, "") if first is None else (True, first.isoformat())


def _write_dates(report: CampaignReport) -> str:
    times = [
        time
        for message in report.messages
        for time in (message.first_sent_at, message.last_sent_at)
        if time is not None
    ]
    if not times:
        return "not sent yet"
    first, last = min(times).date().isoformat(), max(times).date().isoformat()
    return first if first == last else f"{first} to {last}"


def _write_scores(message: MessageReport) -> str:
    scores = []
    for question in message.questions:
        score = read_score(question)
        if score is not None and question.scale != "number":
            scores.append(f"{_NAMES[score.measure]} {score}")
    return ", ".join(scores) or NOT_DEFINED


_NAMES = {"nps": "NPS", "csat": "CSAT", "mean": "mean"}
_AXES: Mapping[str, Callable[[float], str]] = {
    "nps": lambda score: f"{score:+.0f}" if round(score) else "0",
    "csat": lambda share: f"{100 * share:.0f} %",
    "mean": "{:g}".format,
}
