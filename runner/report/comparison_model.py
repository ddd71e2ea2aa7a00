"""The values of a report that compare: arms of an experiment, and waves of a series."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction
from typing import Literal

from runner.document import Count, Part
from runner.report.people_model import GroupReport
from runner.report.question_model import Interval, Rate

Verdict = Literal["too_early", "too_few", "no_difference_shown", "differs"]
Compared = Literal["response", "score"]
"""The measures compared: the response rate, or the campaign's score in its unit."""


class PairComparison(Part, frozen=True):
    """The comparison of an arm with an earlier one.

    Attributes:
        measure: `response`, people who answered of those texted, or `score`, the campaign's.
        arm: the arm's id.
        against: the earlier arm's id.
        difference: the arm's less the earlier one's, rounded to four decimal places: of response rates as a
            fraction of 1, of scores in their unit; None when one is not defined.
        interval: low and high end of the difference's interval (Newcombe 1998, method 10; of means Zou and
            Donner 2008), adjusted for the number of pairs as the p-value is (Bonferroni): together those of
            one measure hold in 95 of 100 experiments. None when one is not defined, where it says otherwise
            than the p-value, and as long as it is too early.
        p_value: two-sided, adjusted for the number of pairs (Bonferroni), to four significant figures. Where
            the analysis is `fixed`: Fisher's exact test of shares, a z test of means; else always valid
            (mSPRT, Johari et al. 2022). None when one is not defined, and as long as it is too early.
        verdict: what may be said: too early (the analysis is not due), too few people to tell, no difference
            shown (which does not mean that there is none), or they differ.
    """

    measure: Compared
    arm: str
    against: str
    difference: Fraction | None
    interval: Interval | None
    p_value: float | None
    verdict: Verdict


class AnalysisReport(Part, frozen=True):
    """The time of an experiment's verdict, and its method (`runner.report.comparison`).

    Attributes:
        method: `sequential`: at every look, by a test and intervals that hold however often one looks;
            `fixed`: once, of the people texted and the answers before the day that `due` names.
        due: the first day, in the campaign's time zone, on which the verdict may be taken; None for
            `sequential`, and as long as fewer than `per_arm` people of some arm have been texted.
        per_arm: people to text in each arm: the verdict is due on the seventh day after; None where a day was
            fixed, or nothing.
        is_due: whether the verdict may be taken: every launch was reconciled on the day or later. Always true
            for `sequential`.
        answered_later: people of the arms with an answer on the day that `due` names or later, which neither
            the verdict nor the arms' figures count; None for `sequential`, and as long as it is not due.
    """

    method: Literal["sequential", "fixed"]
    due: date | None
    per_arm: Count | None
    is_due: bool
    answered_later: Count | None = None


class ArmShare(Part, frozen=True):
    """The part of an arm in everybody assigned.

    Attributes:
        arm: the arm's id.
        people: people sent the arm's message.
        share: of the people sent any arm's.
        planned: the share that its weight gives it.
    """

    arm: str
    people: Count
    share: Rate | None
    planned: Rate


class SplitReport(Part, frozen=True):
    """The split of people among the arms, against the planned one (sample ratio mismatch).

    Attributes:
        arms: in the campaign's order.
        p_value: of the chi-squared test that the shares are the planned ones, to four significant figures;
            None with fewer than five people expected in some arm.
        is_as_planned: false for a p-value below 0.001: then something other than the lot has chosen, and
            differences of the arms mean little. None without a p-value.
    """

    arms: tuple[ArmShare, ...]
    p_value: float | None
    is_as_planned: bool | None


class ExperimentReport(Part, frozen=True):
    """The arms of the campaign's experiment, by person, after every message.

    Attributes:
        message: the id of the message that has the arms.
        arms: in the campaign's order, with the people and answers that the verdicts count: once a `fixed`
            analysis is due, those before its day.
        comparisons: every pair of arms, each arm with those before it: their response, then their score.
        analysis: the time of the verdicts, and the people that they count; None for a message without
            questions, and where not all answers were read.
        split: whether people were split as planned; None before anybody was.
    """

    message: str
    arms: tuple[GroupReport, ...]
    comparisons: tuple[PairComparison, ...] = ()
    analysis: AnalysisReport | None = None
    split: SplitReport | None = None


class Wave(Part, frozen=True):
    """One campaign of a series.

    Attributes:
        campaign: the campaign's name.
        title: its title.
        first_sent_at: when it was first sent; UTC, ISO 8601.
        texted: people who were texted.
        answered: of these, people who answered.
        response_rate: `answered` of `texted`.
        response_rate_interval: its 95 % interval.
        score: the campaign's score, in its unit; None without one.
        score_interval: its 95 % interval.
        scored: answers that the score rests on; None without a score.
    """

    campaign: str
    title: str
    first_sent_at: datetime
    texted: Count | None
    answered: Count | None
    response_rate: Rate | None
    response_rate_interval: Interval | None
    score: Fraction | None = None
    score_interval: Interval | None = None
    scored: Count | None = None


class WaveTest(Part, frozen=True):
    """A test that nothing differs over all waves, three or more: one test, however many there are.

    Attributes:
        measure: `response` or `score`.
        waves: how many waves it is of.
        statistic: of shares Pearson's chi-squared, else Cochran's Q; rounded to four decimal places.
        freedom: the degrees of freedom: one less than the waves.
        p_value: to four significant figures.
        verdict: too few people in some wave to tell, no difference shown, or they differ.
    """

    measure: Compared
    waves: Count
    statistic: Fraction
    freedom: Count
    p_value: float
    verdict: Verdict


class Change(Part, frozen=True):
    """The change since the last wave.

    Attributes:
        measure: `response` or `score`.
        against: the name of the campaign that was the last wave.
        difference: this one less the last, rounded to four decimal places: of response rates as a fraction of
            1, of scores in their unit.
        interval: low and high end of the difference's 95 % interval (Newcombe 1998, method 10; of means Zou
            and Donner 2008); None when one is not defined, and where it says otherwise than the p-value.
        p_value: two-sided, to four significant figures: Fisher's exact test of shares, a z test of means.
        verdict: too few people to tell, no difference shown (which does not mean that there is none), or they
            differ.
    """

    measure: Compared
    against: str
    difference: Fraction
    interval: Interval | None
    p_value: float | None
    verdict: Verdict


class SeriesReport(Part, frozen=True):
    """The campaigns that name the same series, or the waves of one campaign.

    Attributes:
        name: the series' name in the campaign files; of a campaign that names none, its own.
        waves: those that were sent, the earliest first: of the campaigns that the command was given, and of
            the project's others, as the ledger has them.
        changes: of this campaign against the wave before it; none for the first.
        tests: over all waves; none of fewer than three, as two have their change.
    """

    name: str
    waves: tuple[Wave, ...]
    changes: tuple[Change, ...] = ()
    tests: tuple[WaveTest, ...] = ()
