"""A page across campaigns: the outcome of each, and the scores from wave to wave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.report.comparison import subtract_interval
from runner.report.documents.wording import (
    NOT_DEFINED,
    SCORE_FORMATS,
    SIMULATION_NOTE,
    write_count,
    write_percent,
    write_percent_range,
)
from runner.view.blocks import Beside, Chart, Column, Link, Section, Sentence, TableBlock
from runner.view.charts import ChartMark, plot_trend
from runner.view.html import write_page
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from runner.report.facts import Scale
    from runner.report.model import CampaignReport, MessageReport
    from runner.report.question_model import QuestionReport, Score


MOST_WAVES = 24
"""Waves in a chart, the latest; the table has all."""


def write_index(reports: Sequence[CampaignReport], links: Mapping[str, str]) -> str:
    """Return an HTML page across campaigns: a table of them, the latest first, and the trends between waves.

    `links` has addresses of campaigns' reports relative to this page, percent-encoded; not every campaign
    needs one.
    """
    ordered = sorted(reports, key=lambda report: report.campaign)
    ordered.sort(key=_rank, reverse=True)
    rows = [
        (Link(one.campaign, links[one.campaign]) if one.campaign in links else one.campaign, *_outline(one))
        for one in ordered
    ]
    table = TableBlock(
        (
            "Campaign",
            "Sent on",
            "Texts sent",
            "People answered",
            "Response",
            "95 % interval",
            Column("Scores", "text"),
        ),
        rows,
        "The latest first. The response rate is that of the survey that was sent to the most people.",
    )
    sections = [Section("What each came to", [table])]
    trends = find_waves(reports)
    if trends:
        note = (
            "Questions that several campaigns ask with the same tag and scale. Overlapping intervals do not "
            "show that nothing changed."
        )
        waves = [
            Section(
                trend.text,
                [
                    Sentence(write_change(trend), "strong"),
                    Beside([Chart(draw_waves(trend))], [tabulate_waves(trend)]),
                ],
            )
            for trend in trends
        ]
        sections.append(Section("From wave to wave", [Sentence(note, "quiet"), *waves]))
    is_simulated = any(report.is_simulated for report in reports)
    notice = [Sentence(SIMULATION_NOTE, "notice")] if is_simulated else []
    return write_page(count_words(len(reports), "campaign"), "Campaign reports", notice, sections)


def _outline(report: CampaignReport) -> tuple[str, ...]:
    """Return a campaign's dates, sent, answered, response rate, its interval, and scores, as texts.

    The rate is of the message with questions that was sent to the most people: a person may have had several.
    """
    surveys = [message for message in report.messages if message.questions and message.sent]
    main = max(surveys, key=lambda message: message.sent, default=None)
    counts = _write_dates(report), write_count(report.sent), write_count(report.participants_answered)
    if main is None:
        return (*counts, NOT_DEFINED, NOT_DEFINED, NOT_DEFINED)
    interval = write_percent_range(main.response_rate_interval)
    return (*counts, write_percent(main.response_rate), interval, _write_scores(main))


def tabulate_waves(trend: Trend) -> TableBlock:
    """Return a question's score in each wave."""
    rows = [
        (
            wave.campaign,
            wave.first_sent_at.date().isoformat(),
            SCORE_FORMATS[wave.score.measure].write(wave.score.value),
            SCORE_FORMATS[wave.score.measure].write_range(wave.score.interval),
            write_count(wave.score.counted),
        )
        for wave in trend.waves
    ]
    columns = "Campaign", "First sent", "Score", "95 % interval", "Answers"
    return TableBlock(columns, rows, f"{trend.tag}, wave by wave")


def draw_waves(trend: Trend) -> str:
    """Return a question's score in each wave as a line with its intervals."""
    form = SCORE_FORMATS[trend.waves[-1].score.measure]
    waves = trend.waves[-MOST_WAVES:]
    months = [f"{wave.first_sent_at:%Y-%m}" for wave in waves]
    dates = [wave.first_sent_at.date().isoformat() for wave in waves]
    marks = [
        ChartMark(
            label,
            None if wave.score.value is None else float(wave.score.value),
            form.write(wave.score.value),
            wave.score.interval,
        )
        for label, wave in zip(months if len(set(months)) == len(months) else dates, waves, strict=True)
    ]
    name = f"Line chart: {trend.tag}, wave by wave, with 95 % intervals"
    return plot_trend(marks, name, form.write_mark, form.limits)


def _rank(report: CampaignReport) -> tuple[bool, str]:
    first = find_first_sending(report)
    return first is not None, "" if first is None else first.isoformat()


def _write_dates(report: CampaignReport) -> str:
    sent = [message for message in report.messages if message.first_sent_at and message.last_sent_at]
    if not sent:
        return "not sent yet"
    first = min(f"{message.first_sent_at:%Y-%m-%d}" for message in sent)
    last = max(f"{message.last_sent_at:%Y-%m-%d}" for message in sent)
    return first if first == last else f"{first} to {last}"


def _write_scores(message: MessageReport) -> str:
    scores = [
        f"{SCORE_FORMATS[score.measure].name} {SCORE_FORMATS[score.measure].write(score.value)}"
        for question in message.questions
        if (score := question.score) is not None and question.scale != "number"
    ]
    return ", ".join(scores) or NOT_DEFINED


_FEWEST_WAVES = 2


@dataclass(frozen=True, slots=True)
class Wave:
    """One campaign's score of a question that others ask as well; `first_sent_at` is UTC."""

    campaign: str
    first_sent_at: datetime
    score: Score


@dataclass(frozen=True, slots=True)
class Trend:
    """A question's score over two or more campaigns, by the time of their first sending.

    `text` is the question as the latest wave asked it; `scale` is how its answers are read.
    """

    tag: str
    scale: Scale
    text: str
    waves: tuple[Wave, ...]


def find_first_sending(report: CampaignReport) -> datetime | None:
    """Return the start of a campaign's sending; None if nothing was sent."""
    times = [message.first_sent_at for message in report.messages if message.first_sent_at is not None]
    return min(times, default=None)


def find_waves(reports: Sequence[CampaignReport]) -> tuple[Trend, ...]:
    """Return the trends of scored questions that two campaigns or more share, by tag, then scale.

    Campaigns without counted answers are no waves. If several messages of a campaign ask the question, the
    campaign's own score counts, or else that of the message with the most counted answers.
    """
    found: dict[tuple[str, Scale], list[tuple[Wave, str]]] = {}
    for report in reports:
        first_sent_at = find_first_sending(report)
        if first_sent_at is None:
            continue
        for question, score in _list_scored(report):
            wave = Wave(report.campaign, first_sent_at, score)
            found.setdefault((question.tag, question.scale), []).append((wave, question.text))
    trends = []
    for (tag, scale), waves in sorted(found.items()):
        if len(waves) >= _FEWEST_WAVES:
            waves.sort(key=lambda pair: (pair[0].first_sent_at, pair[0].campaign))
            trends.append(Trend(tag, scale, waves[-1][1], tuple(wave for wave, _ in waves)))
    return tuple(trends)


def write_change(trend: Trend) -> str:
    """Return a sentence on the change between the last two waves, and its certainty.

    A change is more than chance if the 95 % interval of the difference (`subtract_interval`) does not hold 0.
    Overlap of the two intervals says nothing: it is common where the difference is certain.
    """
    before, after = trend.waves[-2:]
    since = f"{after.campaign} against {before.campaign}"
    one, other = after.score, before.score
    if one.value is None or other.value is None or one.measure != other.measure:
        return f"{since}: not to be compared."
    form, difference = SCORE_FORMATS[one.measure], one.value - other.value
    change = form.write_change(difference) if difference else "no change"
    if one.interval is None or other.interval is None:
        return f"{since}: {change}; too few answers to tell whether that is more than chance."
    low, high = subtract_interval(float(one.value), one.interval, float(other.value), other.interval)
    interval = f"95 % interval of the change {form.write_change_range((low, high))}"
    if low <= 0 <= high:
        return f"{since}: {change}, {interval}: this may be chance."
    return f"{since}: {change}, {interval}: more than chance would explain."


def _list_scored(report: CampaignReport) -> Iterator[tuple[QuestionReport, Score]]:
    """Yield a campaign's scored questions with a tag, each tag and scale once."""
    best: dict[tuple[str, Scale], tuple[QuestionReport, Score]] = {}
    pooled = () if report.score is None else (report.score.question,)
    for question in (*(one for message in report.messages for one in message.questions), *pooled):
        score = question.score
        if score is None or score.value is None or not question.tag:
            continue
        known = best.get((question.tag, question.scale))
        if known is None or question in pooled or score.counted > known[1].counted:
            best[question.tag, question.scale] = (question, score)
    yield from best.values()
