"""Waves: campaigns that ask the same again, and the page across campaigns."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from runner.report.documents.index import find_waves, write_change, write_index
from runner.report.model import PooledScore, ScorePart
from tests.report.odd_reports import build_empty
from tests.report.sample import build_sample, build_wave, replace
from tests.report.sample_questions import SCORES

if TYPE_CHECKING:
    from runner.report.model import CampaignReport
    from runner.report.question_model import Interval


def test_waves_are_ordered_by_their_first_sending(waves: tuple[CampaignReport, ...]) -> None:
    """A question's waves come by time, whatever the order of the reports."""
    (trend,) = find_waves(waves)
    assert (trend.tag, trend.scale) == ("nps", "nps")
    assert [wave.campaign[-2:] for wave in trend.waves] == ["q1", "q2", "q3", "q4"]
    assert find_waves(waves[::-1]) == (trend,)


def test_one_campaign_is_no_trend() -> None:
    """A question of one campaign, or of ones that were not sent or not answered, has no trend."""
    assert find_waves([build_sample()]) == ()
    assert find_waves([build_sample(), build_empty(0)]) == ()
    assert find_waves([build_sample(), build_wave("silent", 90, (0,) * 11, None)]) == ()


def test_the_same_tag_on_another_scale_is_another_question(waves: tuple[CampaignReport, ...]) -> None:
    """Scores of different scales are never one line."""
    message = waves[0].messages[0]
    other = replace(
        message.questions[0],
        scale="number",
        nps=None,
        mean=message.questions[0].answer_rate,
        numeric_answers=9,
    )
    changed = replace(waves[0], messages=(replace(message, questions=(other,)),))
    assert [len(trend.waves) for trend in find_waves((changed, *waves[1:]))] == [3]


def test_of_several_messages_the_one_with_most_answers_counts() -> None:
    """A campaign is one wave, though it asks twice."""
    one = build_wave("one", 90, SCORES, None)
    few = build_wave("one", 80, (0,) * 10 + (5,), None)
    twice = replace(one, messages=(*few.messages, *one.messages))
    (trend,) = find_waves([twice, build_wave("two", 10, SCORES, None)])
    assert [wave.score.counted for wave in trend.waves] == [402, 402]


def test_the_score_of_a_campaign_is_its_wave() -> None:
    """What is pooled over a survey and its reminder goes before the score of either."""
    one = build_wave("one", 90, SCORES, None)
    pooled = build_wave("one", 80, (0,) * 10 + (5,), None).messages[0].questions[0]
    scored = replace(one, score=PooledScore(pooled, (ScorePart("ask", 3), ScorePart("nudge", 2))))
    (trend,) = find_waves([scored, build_wave("two", 10, SCORES, None)])
    assert [wave.score.counted for wave in trend.waves] == [5, 402]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            (13.0, 26.0),
            (21.0, 34.0),
            "+8.2 points, 95 % interval of the change -1.1 to +17.3: this may be chance.",
        ),
        # These overlap, and yet the difference is sure.
        (
            (14.0, 25.0),
            (22.0, 33.0),
            "+8.2 points, 95 % interval of the change +0.3 to +15.8: more than chance would explain.",
        ),
        (None, (20.0, 35.0), "+8.2 points; too few answers to tell whether that is more than chance."),
    ],
)
def test_a_change_says_whether_it_may_be_chance(
    before: Interval | None, after: Interval, sentence: str
) -> None:
    """The last two waves are compared by the interval of their difference, not by whether theirs overlap."""
    old = build_wave("old", 90, (12, 5, 8, 14, 11, 18, 27, 54, 80, 84, 89), before)
    (trend,) = find_waves([build_wave("new", 0, SCORES, after), old])
    assert write_change(trend) == f"new against old: {sentence}"


def change(score: str, before: Fraction, after: Fraction) -> str:
    """Return what is said of a change of the sample's satisfaction or visits."""
    reports = []
    for name, value, days in (("old", before, 2), ("new", after, 1)):
        question = build_sample().messages[0].questions[1 if score == "csat" else 3]
        if question.csat is not None:
            csat = replace(question.csat, score=value, interval=(value - 0.1, value + 0.1))
            question = replace(question, csat=csat)
        elif question.numeric_answers is not None:
            question = replace(question, mean=value, mean_interval=(value - 0.3, value + 0.3))
        wave = build_wave(name, days, SCORES, None)
        reports.append(replace(wave, messages=(replace(wave.messages[0], questions=(question,)),)))
    (trend,) = find_waves(reports)
    return write_change(trend)


def test_other_scores_change_in_their_own_unit() -> None:
    """Shares change by points, means by numbers, and so do the ends of the intervals."""
    assert change("csat", Fraction(1, 2), Fraction(2, 3)) == (
        "new against old: +16.7 points, 95 % interval of the change +2.5 to +30.8: more than chance would "
        "explain."
    )
    assert change("mean", Fraction(4), Fraction(7, 2)) == (
        "new against old: -0.50, 95 % interval of the change -0.92 to -0.08: more than chance would explain."
    )
    assert change("mean", Fraction(4), Fraction(4)) == (
        "new against old: no change, 95 % interval of the change -0.42 to +0.42: this may be chance."
    )


def test_the_index_has_the_latest_first(waves: tuple[CampaignReport, ...]) -> None:
    """Campaigns that were not sent come last, and those without a page of their own have no link."""
    page = write_index((*waves, build_empty(0)), {"customer-pulse-2026q3": "reports/q3.html?a=1&b=2"})
    names = ["customer-pulse-2026q4", "customer-pulse-2026q3", "customer-pulse-2026q2", ">pulse<"]
    places = [page.index(name) for name in names]
    assert places == sorted(places)
    assert page.count("<a href=") == 1
    assert '<a href="reports/q3.html?a=1&amp;b=2">' in page
    assert "not sent yet" in page


def test_an_index_with_a_simulation_says_so(waves: tuple[CampaignReport, ...]) -> None:
    """A campaign of the sandbox makes the page say that nobody was texted."""
    notice = "SANDBOX: simulated, nobody was texted."
    assert notice in write_index((replace(waves[0], target="sandbox"),), {})
    assert notice not in write_index(waves, {})
