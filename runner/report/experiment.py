"""The arms of a campaign's experiment, and its waves, from counted people."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from runner.document import build
from runner.report.breakdowns import describe_group, score_question
from runner.report.comparison import (
    LEAST_EXPECTED,
    Sample,
    are_enough,
    compare_arms,
    compare_waves,
    find_reach,
    judge,
    share,
)
from runner.report.comparison_model import (
    AnalysisReport,
    ArmShare,
    ExperimentReport,
    SeriesReport,
    SplitReport,
    Wave,
    WaveTest,
)
from runner.report.question_model import FEW_ANSWERS, Interval, Score
from runner.report.scores import Z_95, chi_squared_p_value, divide

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from runner.report.comparison_model import Change, Compared, PairComparison
    from runner.report.facts import ArmTally, CampaignOutline, GroupTally
    from runner.report.model import CampaignReport

_SPLIT_SIGNIFICANCE = 0.001
_LEAST_WAVES = 3
"""With fewer waves a test over all would be a second one of the same change."""


def describe_experiment(
    outline: CampaignOutline, tally: ArmTally | None, *, is_read: bool
) -> ExperimentReport | None:
    """Return the results of a campaign's arms by person; None for a campaign without.

    Unless every launch's answers `is_read`, nothing is compared.
    """
    experiment = outline.experiment
    if experiment is None or tally is None:
        return None
    split = _check_split({arm: group.people for arm, group in tally.groups.items()}, experiment.weights)
    asks = any(one.questions for one in outline.messages)
    if not is_read or not asks:
        return ExperimentReport(experiment.message, (), split=split)
    is_due, at_every_look = tally.deadline.is_due, not experiment.is_fixed
    responses = [
        share(arm, min(group.answered, group.texted), group.texted) for arm, group in tally.groups.items()
    ]
    scores = [] if outline.score is None else _sample_scores(outline, tally, outline.score)
    comparisons = (
        *compare_arms("response", responses, at_every_look=at_every_look),
        *compare_arms("score", scores, at_every_look=at_every_look),
    )
    few = {one.name for one in scores if one.counted < FEW_ANSWERS}
    reaches = [find_reach(one, at_every_look=at_every_look) for one in (responses, scores)]
    reach, score_reach = (one if is_due and isfinite(one) else None for one in reaches)
    own = {} if outline.score is None else {outline.score: score_reach}
    return ExperimentReport(
        experiment.message,
        arms=tuple(
            describe_group(outline.questions, arm, group, (), reach, own)
            for arm, group in tally.groups.items()
        ),
        comparisons=tuple(_leave_out(one, few, is_due=is_due) for one in comparisons),
        analysis=build(
            AnalysisReport,
            tally.deadline,
            method="sequential" if at_every_look else "fixed",
            per_arm=experiment.per_arm,
            answered_later=None if tally.deadline.cutoff_us is None else tally.answered_later,
        ),
        split=split,
    )


def _leave_out(one: PairComparison, few: Collection[str], *, is_due: bool) -> PairComparison:
    """Return a comparison without what rests on few answers, and as long as it is too early."""
    if one.measure == "score" and not {one.arm, one.against}.isdisjoint(few):
        one = one.replace(difference=None, interval=None, p_value=None)
    return one if is_due else one.replace(interval=None, p_value=None, verdict="too_early")


def _sample_scores(outline: CampaignOutline, tally: ArmTally, number: int) -> list[Sample]:
    """Return the campaign's score of each arm."""

    def score(group: GroupTally, z: float = Z_95) -> Score | None:
        return score_question(outline.questions[number].question, group.readings.get(number, {}), z).score

    return [
        _sample(arm, found, partial(score, group))
        for arm, group in tally.groups.items()
        if (found := score(group)) is not None
    ]


def _sample(name: str, score: Score, find: Callable[[float], Score | None]) -> Sample:
    """Return the sample of a score, of which `find` returns the one with an interval of another reach."""
    if score.satisfied is not None:
        return share(name, score.satisfied, score.counted)

    def find_interval(z: float) -> Interval | None:
        return found.interval if (found := find(z)) else None

    return Sample(name, score.counted, score.value, find_interval, standard_error=score.standard_error)


def _check_split(assigned: Mapping[str, int], weights: Mapping[str, float]) -> SplitReport | None:
    """Return whether people were split as planned; None before anybody was.

    It is Pearson's chi-squared test of the arms' people against their weights. Source: A. Fabijan et al.,
    "Diagnosing sample ratio mismatch in online controlled experiments", KDD 2019; the level of 0.001 is our
    choice. Without at least five people expected in each arm there is no test (Cochran 1954).
    """
    people, whole = sum(assigned.values()), sum(map(Fraction, weights.values()))
    if not people or not whole:
        return None
    planned = {arm: Fraction(weight) / whole for arm, weight in weights.items()}
    arms = tuple(ArmShare(arm, count, divide(count, people), planned[arm]) for arm, count in assigned.items())
    expected = {arm: float(part * people) for arm, part in planned.items() if part}
    p_value = None
    if len(expected) > 1 and min(expected.values()) >= LEAST_EXPECTED:
        statistic = sum((assigned[arm] - count) ** 2 / count for arm, count in expected.items())
        p_value = chi_squared_p_value(statistic, len(expected) - 1)
    return SplitReport(arms, p_value, None if p_value is None else p_value >= _SPLIT_SIGNIFICANCE)


def link_series(reports: Iterable[tuple[CampaignReport, str | None]]) -> list[CampaignReport]:
    """Return reports with the waves of their series among them, in the order given.

    Each comes with the name of its series, None for none. What was not sent is no wave yet.
    """
    pairs = list(reports)
    found = []
    for report, name in pairs:
        waves = [one for one, series in pairs if series == name and one.first_sent_at is not None]
        waves.sort(key=lambda one: (str(one.first_sent_at), one.label))
        series = None if name is None else _describe_series(name, report, waves)
        found.append(report.replace(series=series))
    return found


def _describe_series(name: str, report: CampaignReport, waves: Sequence[CampaignReport]) -> SeriesReport:
    names = [one.label for one in waves]
    place = names.index(report.label) if report.label in names else 0
    changes: list[Change] = []
    tests: list[WaveTest] = []
    measures: tuple[Compared, ...] = ("response", "score")
    for measure in measures:
        samples = {one.label: _sample_wave(measure, one, report) for one in waves}
        if place:
            wave, last = samples[names[place]], samples[names[place - 1]]
            change = compare_waves(measure, wave, last) if wave and last else None
            changes += [] if change is None else [change]
        tests += _test_waves(measure, [one for one in samples.values() if one is not None and one.counted])
    described = tuple(_describe_wave(one, one.first_sent_at) for one in waves if one.first_sent_at)
    return SeriesReport(name, described, tuple(changes), tuple(tests))


def _sample_wave(measure: Compared, wave: CampaignReport, report: CampaignReport) -> Sample | None:
    """Return a wave's response or score; None if it is not known, or another measure than this campaign's."""
    people, score = wave.people, wave.score
    if measure == "response":
        if not people.texted or people.answered is None or people.response_rate is None:
            return None
        return share(wave.label, people.answered, people.texted)
    if score is None or report.score is None or score.measure != report.score.measure:
        return None
    return None if score.value is None else _sample(wave.label, score, lambda _: score)


def _test_waves(measure: Compared, samples: Sequence[Sample]) -> list[WaveTest]:
    """Return the test that no wave differs, if it is defined; two waves have the test of their change.

    Of shares it is Pearson's chi-squared test of homogeneity; of means Cochran's Q, Σ (x - x̄)²/s² with x̄ the
    mean of the waves weighted by 1/s². Both are chi-squared with one degree of freedom less than the waves.
    Sources: K. Pearson, Philosophical Magazine 50 (1900), 157-175; W. G. Cochran, "The combination of
    estimates from different experiments", Biometrics 10 (1954), 101-129.
    """
    freedom = len(samples) - 1
    if len(samples) < _LEAST_WAVES:
        return []
    if all(one.successes is not None for one in samples):
        successes, people = sum(one.successes or 0 for one in samples), sum(one.counted for one in samples)
        if not 0 < successes < people:
            return []
        rate = Fraction(successes, people)
        statistic = sum(
            ((one.successes or 0) - one.counted * rate) ** 2 / (one.counted * rate * (1 - rate))
            for one in samples
        )
    else:
        weighed = [
            (one.value, 1 / Fraction(one.standard_error) ** 2)
            for one in samples
            if one.standard_error and one.value is not None
        ]
        if len(weighed) < len(samples):
            return []
        mean = sum((w * x for x, w in weighed), Fraction()) / sum(w for _, w in weighed)
        statistic = sum((w * (x - mean) ** 2 for x, w in weighed), Fraction())
    p_value = chi_squared_p_value(float(statistic), freedom)
    verdict = judge(p_value, is_enough=are_enough(samples))
    return [WaveTest(measure, len(samples), Fraction(statistic), freedom, p_value, verdict)]


def _describe_wave(report: CampaignReport, first_sent_at: datetime) -> Wave:
    score = report.score
    return build(
        Wave,
        report.people,
        campaign=report.label,
        title=report.heading,
        first_sent_at=first_sent_at,
        score=None if score is None else score.value,
        score_interval=None if score is None else score.interval,
        scored=None if score is None else score.counted,
    )
