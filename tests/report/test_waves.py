"""Waves of a series: what has changed since the last one, and one test over all."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from runner.report.experiment import link_series
from runner.report.model import CampaignReport
from runner.report.people_model import PeopleReport
from runner.report.question_model import Score
from runner.report.scores import divide

if TYPE_CHECKING:
    from runner.report.comparison_model import SeriesReport


def wave(
    name: str, month: int | None, answered: int = 100, nps: int = 20, scored: int = 100
) -> CampaignReport:
    """Return a campaign of 200 people; its score is known to four points."""
    score = Score("nps", "nps", Fraction(nps), (nps - 8.0, nps + 8.0), scored, 4.0)
    return CampaignReport(
        campaign=name,
        target="live",
        reconciled_at=None,
        messages=(),
        first_sent_at=None if month is None else datetime(2026, month, 1, tzinfo=UTC),
        people=PeopleReport(texted=200, answered=answered, response_rate=divide(answered, 200)),
        score=None if month is None else score,
    )


def link(*reports: CampaignReport, other: str = "") -> dict[str, SeriesReport | None]:
    series = {one.campaign: None if one.campaign == other else "pulse" for one in reports}
    linked = link_series((one, series[one.campaign]) for one in reports)
    return {one.campaign: one.series for one in linked}


def test_a_wave_is_compared_with_the_one_before_it() -> None:
    """In the order of sending, whatever their names: response and score, each with interval and test."""
    found = link(wave("a", 7, 130, 36), wave("b", 4, 100, 20), wave("c", 1))["a"]
    assert found is not None
    assert [one.campaign for one in found.waves] == ["c", "b", "a"]
    response, score = found.changes
    assert (response.measure, response.against, response.difference) == ("response", "b", Fraction(3, 20))
    assert response.verdict == "differs"
    assert (score.measure, score.difference, score.verdict) == ("score", Fraction(16), "differs")
    assert score.p_value == pytest.approx(0.00468, abs=1e-5)
    assert score.interval == pytest.approx((16 - 128**0.5, 16 + 128**0.5))


def test_one_test_looks_at_all_waves() -> None:
    """Pearson's chi-squared of responses, Cochran's Q of scores: both by hand."""
    found = link(wave("a", 7, 130, 36), wave("b", 4, 100, 20), wave("c", 1, 100, 22))["b"]
    assert found is not None
    response, score = found.tests
    assert (response.waves, response.freedom, round(float(response.statistic), 4)) == (3, 2, 12.1212)
    # 600/110 + 600/90 with 110 of 200 expected to answer.
    assert response.p_value == pytest.approx(0.002333, abs=1e-6)
    # The mean is 26; (10² + 6² + 4²)/4² = 9.5.
    assert score.statistic == Fraction(19, 2)
    assert score.p_value == pytest.approx(0.008652, abs=1e-6)
    assert (response.verdict, score.verdict) == ("differs", "differs")


def test_two_waves_have_one_test() -> None:
    """What has changed since the last wave; a test over both would be a second one of the same."""
    found = link(wave("a", 7, 130, 36), wave("b", 4, 100, 20))["a"]
    assert found is not None
    assert [one.verdict for one in found.changes] == ["differs", "differs"]
    assert found.tests == ()


def test_a_test_of_all_waves_needs_people_in_each() -> None:
    """With too few answers, or too few expected, in one wave nothing is said of all."""
    few = wave("c", 1, 4, 60, scored=29)
    rare = [wave(name, month, 4) for name, month in (("a", 7), ("b", 4), ("c", 1))]
    for reports, verdicts in (
        ((wave("a", 7, 130), wave("b", 4), few), ["differs", "too_few"]),
        (rare, ["too_few", "no_difference_shown"]),
    ):
        found = link(*reports)["a"]
        assert found is not None
        assert [one.verdict for one in found.tests] == verdicts


def test_campaigns_of_no_series_are_no_waves() -> None:
    """Nor is one that was not sent; it sees the waves that were, and a first one has no change."""
    found = link(wave("a", 7), wave("b", 4), wave("planned", None), other="b")
    assert found["b"] is None
    assert found["a"] is not None
    assert found["planned"] is not None
    assert [one.campaign for one in found["planned"].waves] == ["a"]
    assert (found["a"].changes, found["a"].tests, found["planned"].changes) == ((), (), ())
