"""Campaigns that ask the same thing again: a question's score from wave to wave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from runner.report.proportions import subtract_interval
from runner.report.wording import (
    write_number,
    write_number_range,
    write_percent,
    write_percent_range,
    write_points,
    write_score,
    write_score_range,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from fractions import Fraction

    from runner.report.answered import QuestionReport
    from runner.report.facts import Scale
    from runner.report.model import CampaignReport
    from runner.report.rounding import Interval

_FEWEST_WAVES = 2


@dataclass(frozen=True, slots=True)
class Score:
    """A question's score, of whatever scale.

    Attributes:
        measure: `nps` (points), `csat` (a fraction of 1) or `mean`.
        value: None when nothing was counted.
        interval: 95 %; None when there are too few answers for one.
        counted: answers that it rests on.
    """

    measure: Literal["nps", "csat", "mean"]
    value: Fraction | None
    interval: Interval | None
    counted: int

    def __str__(self) -> str:
        """Return the value as its measure is written."""
        write = {"nps": write_score, "csat": write_percent, "mean": write_number}[self.measure]
        return write(self.value)

    @property
    def range(self) -> str:
        """The interval as its measure is written; a dash when there is none."""
        write = {"nps": write_score_range, "csat": write_percent_range, "mean": write_number_range}
        return write[self.measure](self.interval)


@dataclass(frozen=True, slots=True)
class Wave:
    """One campaign's answers to a question that others ask as well.

    Attributes:
        campaign: the campaign's name.
        first_sent_at: start of its first launch, UTC.
        score: what came back.
    """

    campaign: str
    first_sent_at: datetime
    score: Score


@dataclass(frozen=True, slots=True)
class Trend:
    """A question's score over campaigns.

    Attributes:
        tag: the question's tag.
        scale: how its answers are read.
        text: the question as the latest wave asked it.
        waves: by the time of their first sending; two or more.
    """

    tag: str
    scale: Scale
    text: str
    waves: tuple[Wave, ...]


def read_score(question: QuestionReport) -> Score | None:
    """Return the score of a question; None for one whose scale has none."""
    if question.nps is not None:
        return Score("nps", question.nps.score, question.nps.interval, question.nps.counted)
    if question.csat is not None:
        return Score("csat", question.csat.score, question.csat.interval, question.csat.counted)
    if question.numbers is not None:
        numbers = question.numbers
        return Score("mean", numbers.mean, numbers.interval, numbers.counted)
    return None


def find_first_sending(report: CampaignReport) -> datetime | None:
    """Return when a campaign began to be sent; None when nothing was."""
    times = [message.first_sent_at for message in report.messages if message.first_sent_at is not None]
    return min(times, default=None)


def find_waves(reports: Sequence[CampaignReport]) -> tuple[Trend, ...]:
    """Return the trends of scored questions that two campaigns or more share, by tag and scale.

    Campaigns in which nobody gave a counted answer are no waves. Where several messages of a campaign ask the
    question, the campaign's own score counts; without one, that of the message with the most counted answers.

    Args:
        reports: of campaigns, in any order.

    Returns:
        By tag, then scale.
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
    """Return how the score changed between the last two waves, and how sure that is, as a sentence.

    A change is more than chance when the 95 % interval of the difference (`subtract_interval`, from the
    interval of each score) does not hold 0. That two intervals overlap tells nothing: they often do where the
    difference is sure.
    """
    before, after = trend.waves[-2:]
    since = f"{after.campaign} against {before.campaign}"
    one, other = after.score, before.score
    if one.value is None or other.value is None or one.measure != other.measure:
        return f"{since}: not to be compared."
    change = _write_difference(one.value - other.value, one.measure)
    if one.interval is None or other.interval is None:
        return f"{since}: {change}; too few answers to tell whether that is more than chance."
    low, high = subtract_interval(float(one.value), one.interval, float(other.value), other.interval)
    interval = f"95 % interval of the change {_write_difference_range((low, high), one.measure)}"
    if low <= 0 <= high:
        return f"{since}: {change}, {interval}: this may be chance."
    return f"{since}: {change}, {interval}: more than chance would explain."


def _list_scored(report: CampaignReport) -> Iterator[tuple[QuestionReport, Score]]:
    """Yield a campaign's scored questions with a tag, each tag and scale once."""
    best: dict[tuple[str, Scale], tuple[QuestionReport, Score]] = {}
    for message in report.messages:
        for question in message.questions:
            score = read_score(question)
            if score is None or score.value is None or not question.tag:
                continue
            known = best.get((question.tag, question.scale))
            if known is None or score.counted > known[1].counted:
                best[question.tag, question.scale] = (question, score)
    if report.score is not None:
        question = report.score.question
        score = read_score(question)
        if score is not None and score.value is not None and question.tag:
            best[question.tag, question.scale] = (question, score)
    yield from best.values()


def _write_difference(difference: Fraction, measure: str) -> str:
    if not difference:
        return "no change"
    if measure == "csat":
        return write_points(difference)
    if measure == "nps":
        return f"{write_score(difference)} points"
    return f"{'+' if difference > 0 else ''}{write_number(difference)}"


def _write_difference_range(interval: Interval, measure: str) -> str:
    if measure == "mean":
        low, high = (round(end, 2) + 0.0 for end in interval)
        return f"{low:+,.2f} to {high:+,.2f}"
    scale = 100 if measure == "csat" else 1
    return write_score_range((scale * interval[0], scale * interval[1]))
