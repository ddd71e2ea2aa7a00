"""Groups of recipients: arms side by side, and breakdowns in which nobody can be made out."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.report.breakdowns import break_down
from runner.report.comparison import always_valid_reach, fix_deadline
from runner.report.comparison_model import AnalysisReport, ExperimentReport
from runner.report.experiment import describe_experiment
from runner.report.facts import (
    AnswerReading,
    ArmTally,
    CampaignOutline,
    Deadline,
    ExperimentOutline,
    GroupTally,
    MessageOutline,
    PooledOutline,
    QuestionOutline,
)
from runner.report.scores import wilson_interval
from tests.report.sample import replace

if TYPE_CHECKING:
    from runner.report.people_model import ColumnReport

NPS = QuestionOutline("nps", "0 to 10?", tuple(map(str, range(11))), "nps")
ASK = MessageOutline("ask", "tag", (NPS,), {"b": (NPS,), "a": (NPS,)})
QUESTIONS = (PooledOutline(NPS, ("ask",)),)
TEN, ZERO = AnswerReading("11", "10", Fraction(10)), AnswerReading("1", "0", Fraction(0))
CAMPAIGN = CampaignOutline((ASK,), QUESTIONS, 0, ExperimentOutline("ask", {"b": 1, "a": 1}))
TALLY = ArmTally(
    groups={
        "b": GroupTally(80, 20, 10, {0: {ZERO: 20}}, 90),
        "a": GroupTally(100, 60, 30, {0: {TEN: 40, ZERO: 20}}, 110),
    },
)


def describe(outline: CampaignOutline = CAMPAIGN, tally: ArmTally = TALLY) -> ExperimentReport:
    experiment = describe_experiment(outline, tally, is_read=True)
    assert experiment is not None
    return experiment


def test_arms_stand_side_by_side() -> None:
    """Each arm of the campaign has its response and scores, with the intervals that the verdicts use."""
    experiment = describe()
    first, second = experiment.arms
    assert (first.name, first.texted, first.answered, first.completed) == ("b", 80, 20, 10)
    assert (first.response_rate, second.response_rate) == (Fraction(1, 4), Fraction(3, 5))
    reach = always_valid_reach(80, 100, 80, 0.05)
    assert second.response_rate_interval == wilson_interval(60, 100, reach)
    assert [(score.tag, score.value, score.counted) for score in second.scores] == [
        ("nps", Fraction(100, 3), 60)
    ]
    response, score = experiment.comparisons
    assert (response.measure, response.arm, response.against) == ("response", "a", "b")
    assert (response.difference, response.verdict) == (Fraction(7, 20), "differs")
    # Twenty answers of an arm are too few, however far apart.
    assert (score.measure, score.difference, score.verdict) == ("score", Fraction(400, 3), "too_few")
    assert experiment.analysis == AnalysisReport("sequential", None, None, is_due=True)


def test_who_answers_after_the_day_is_told_of_a_verdict_that_was_taken() -> None:
    """A verdict of a day has the number of people whose answers came later; one that is not due has none."""
    day = date(2026, 11, 25)
    fixed = replace(CAMPAIGN, experiment=ExperimentOutline("ask", {"b": 1, "a": 1}, day))
    for deadline, later in (
        (Deadline(day, is_due=True, cutoff_us=1), 7),
        (Deadline(day, is_due=False), None),
    ):
        analysis = describe(fixed, replace(TALLY, answered_later=7, deadline=deadline)).analysis
        assert analysis is not None
        assert analysis.answered_later == later


def test_before_its_day_nothing_is_said() -> None:
    """As long as it is too early there are differences, and neither verdicts nor intervals."""
    fixed = ExperimentOutline("ask", {"b": 1, "a": 1}, date(2026, 11, 25))
    tally = replace(TALLY, deadline=Deadline(date(2026, 11, 25), is_due=False))
    experiment = describe(replace(CAMPAIGN, experiment=fixed), tally)
    assert {one.verdict for one in experiment.comparisons} == {"too_early"}
    assert {one.interval for one in experiment.comparisons} == {None}
    assert {arm.response_rate_interval for arm in experiment.arms} == {None}
    assert {score.interval for arm in experiment.arms for score in arm.scores} == {None}
    assert experiment.comparisons[0].difference == Fraction(7, 20)


@pytest.mark.parametrize(
    ("assigned", "weights", "p_value", "is_as_planned"),
    [
        ({"b": 90, "a": 110}, {"b": 1, "a": 1}, 0.1573, True),
        ({"b": 900, "a": 1100}, {"b": 1, "a": 1}, 7.744e-6, False),
        ({"b": 900, "a": 1100}, {"b": 9, "a": 11}, 1.0, True),
        # Nobody new gets into a closed arm.
        ({"b": 90, "a": 110, "c": 0}, {"b": 1, "a": 1, "c": 0}, 0.1573, True),
        ({"b": 4, "a": 4}, {"b": 1, "a": 1}, None, None),
    ],
)
def test_shares_of_arms_are_held_against_their_weights(
    assigned: dict[str, int],
    weights: dict[str, float],
    p_value: float | None,
    is_as_planned: bool | None,  # noqa: FBT001  a parameter of the test
) -> None:
    """A split that chance hardly makes is told; small numbers say nothing."""
    outline = replace(CAMPAIGN, experiment=ExperimentOutline("ask", weights))
    groups = {arm: GroupTally(people=people) for arm, people in assigned.items()}
    split = describe(outline, ArmTally(groups)).split
    assert split is not None
    assert (split.p_value, split.is_as_planned) == (
        None if p_value is None else pytest.approx(p_value, rel=1e-3),
        is_as_planned,
    )
    whole = sum(assigned.values())
    assert [one.share for one in split.arms] == [Fraction(count, whole) for count in assigned.values()]


def test_a_campaign_of_one_way_has_no_experiment() -> None:
    """Without arms there is nothing to compare."""
    assert describe_experiment(CampaignOutline((ASK,)), None, is_read=True) is None


@pytest.mark.parametrize(
    ("plan", "as_of", "due", "cutoff"),
    [
        # Everybody before the day, once a reconcile was on it or later.
        ({"at": date(2026, 11, 25)}, "2026-11-25T07:59:59Z", date(2026, 11, 25), None),
        (
            {"at": date(2026, 11, 25)},
            "2026-11-25T08:00:00Z",
            date(2026, 11, 25),
            "2026-11-25T08:00:00Z",
        ),
        (
            {"at": date(2026, 11, 25)},
            "2027-01-01T00:00:00Z",
            date(2026, 11, 25),
            "2026-11-25T08:00:00Z",
        ),
        ({"at": date(2026, 11, 25)}, None, date(2026, 11, 25), None),
        # The seventh day after the last arm had its fifty.
        ({"per_arm": 50}, "2026-11-28T07:00:00Z", date(2026, 11, 28), None),
        ({"per_arm": 50}, "2026-11-28T08:00:00Z", date(2026, 11, 28), "2026-11-28T08:00:00Z"),
        ({"per_arm": 81}, "2027-01-01T00:00:00Z", None, None),
    ],
)
def test_a_verdict_waits_for_its_day(
    plan: dict[str, Any], as_of: str | None, due: date | None, cutoff: str | None
) -> None:
    """Before the day, in the campaign's zone, it is too early; from then on what came later does not count."""
    sent = {
        "a": {date(2026, 11, 20): 50, date(2026, 11, 25): 30},
        "b": {date(2026, 11, 20): 40, date(2026, 11, 21): 40},
    }
    moment = None if as_of is None else datetime.fromisoformat(as_of)
    experiment = ExperimentOutline("ask", {}, **plan)
    found = fix_deadline(experiment, sent, moment, ZoneInfo("America/Los_Angeles"))
    start = None if cutoff is None else int(datetime.fromisoformat(cutoff).timestamp()) * 1_000_000
    assert found == Deadline(due, cutoff is not None, start)


def test_a_verdict_is_not_due_with_an_empty_arm() -> None:
    """As long as nobody in an arm has been sent to, it has no size."""
    sent: dict[str, dict[date, int]] = {"a": {date(2026, 11, 20): 100}, "b": {}}
    assert fix_deadline(ExperimentOutline("ask", {}, per_arm=1), sent, None, ZoneInfo("UTC")) == Deadline(
        None, is_due=False
    )


def group(texted: int, answered: int = 0) -> GroupTally:
    return GroupTally(texted, answered, 0, {0: {TEN: answered}})


def break_down_cities(groups: dict[str, GroupTally], least: int = 10) -> ColumnReport:
    return break_down(QUESTIONS, "city", groups, least, 0)


@pytest.mark.parametrize(
    ("sizes", "shown", "suppressed", "suppressed_texted"),
    [
        ({"a": 10, "b": 11}, ["a", "b"], 0, None),
        ({"a": 9, "b": 1, "c": 50}, ["c"], 2, 10),
        ({"a": 9, "b": 20, "c": 50}, ["c"], 2, 29),
        ({"a": 0, "b": 20, "c": 20}, ["c"], 2, 20),
        ({"a": 9}, [], 1, None),
        ({"a": 4, "b": 5}, [], 2, None),
        ({"a": 3, "b": 3, "c": 3, "d": 3, "e": 90}, ["e"], 4, 12),
        ({}, [], 0, None),
    ],
)
def test_small_groups_are_left_out(
    sizes: dict[str, int], shown: list[str], suppressed: int, suppressed_texted: int | None
) -> None:
    """Groups of fewer than ten are left out, and the next larger one if the total would give them away."""
    breakdown = break_down_cities({name: group(texted) for name, texted in sizes.items()})
    assert [one.name for one in breakdown.groups] == shown
    assert (breakdown.suppressed, breakdown.column, breakdown.least) == (suppressed, "city", 10)
    assert breakdown.suppressed_texted == suppressed_texted


@given(st.dictionaries(st.text(max_size=2), st.integers(0, 30), max_size=8), st.integers(1, 20))
def test_no_difference_gives_small_groups_away(sizes: dict[str, int], least: int) -> None:
    """The total less what is shown is nothing, or as many as a group that may be shown."""
    breakdown = break_down_cities({name: group(texted) for name, texted in sizes.items()}, least)
    assert all((one.texted or 0) >= least for one in breakdown.groups)
    rest = sum(sizes.values()) - sum(one.texted or 0 for one in breakdown.groups)
    assert len(breakdown.groups) + breakdown.suppressed == len(sizes)
    assert rest == 0 or rest >= least or not breakdown.groups
    assert breakdown.suppressed_texted in (None, rest)
    assert breakdown.suppressed_texted is None or breakdown.suppressed_texted >= least


def test_scores_of_few_answers_are_left_out() -> None:
    """A group may be large, and its score rest on the answers of two: how many they are is all that is said."""
    groups = {"Lyon": group(50, 2), "Metz": group(50, 8), "Nice": group(50), "Paris": group(50, 10)}
    breakdown = break_down_cities(groups)
    scores = [
        (score.value, score.interval is None, score.counted)
        for one in breakdown.groups
        for score in one.scores
    ]
    assert scores == [(Fraction(100), False, 10), (None, True, 2), (None, True, 8), (None, True, 0)]
    assert breakdown.everybody.scores[0].counted == 20


@pytest.mark.parametrize(
    ("groups", "scored"),
    [
        ({"Lyon": group(50, 2), "Paris": group(50, 10)}, []),
        ({"Lyon": group(50, 2), "Metz": group(50, 30), "Paris": group(50, 10)}, ["Metz"]),
        ({"Lyon": group(50), "Paris": group(50, 10)}, ["Paris"]),
        # Ten are left out as a group, of whom one has answered.
        ({"Lyon": group(10, 1), "Metz": group(5), "Nice": group(50, 30), "Paris": group(50, 10)}, ["Nice"]),
    ],
)
def test_no_difference_gives_scores_of_few_away(groups: dict[str, GroupTally], scored: list[str]) -> None:
    """The next larger score is left out as well if that of everybody would tell the answers of a few."""
    breakdown = break_down_cities(groups)
    assert [one.name for one in breakdown.groups if one.scores[0].value is not None] == scored


def test_people_in_the_audience_no_more_are_the_empty_group() -> None:
    """Who was sent to and has left the audience is of the group without a name, which is shown like others."""
    breakdown = break_down_cities({"": group(12, 3), "Paris": group(50)})
    assert [(one.name, one.texted, one.answered) for one in breakdown.groups] == [
        ("(empty)", 12, 3),
        ("Paris", 50, 0),
    ]


def test_a_phone_is_no_name_of_a_group() -> None:
    """A report has no phone number, whatever the column holds."""
    breakdown = break_down_cities({"+14155550101": group(12, 3), "Paris": group(50)})
    assert [one.name for one in breakdown.groups] == ["+14•••••••01", "Paris"]


def test_groups_are_sorted_by_what_they_are_compared_by() -> None:
    """By the campaign's score, or by their response, the highest first; those without one last."""
    groups = {
        "Lyon": GroupTally(50, 20, 0, {0: {TEN: 10, ZERO: 10}}),
        "Metz": GroupTally(50, 10, 0, {0: {TEN: 10}}),
        "Nice": GroupTally(50, 30, 0, {0: {ZERO: 30}}),
        "Pau": group(50),
    }
    assert [one.name for one in break_down_cities(groups).groups] == ["Metz", "Lyon", "Nice", "Pau"]
    by_response = break_down(QUESTIONS, "city", groups, 10)
    assert [one.name for one in by_response.groups] == ["Nice", "Lyon", "Metz", "Pau"]
    assert (by_response.everybody.texted, by_response.everybody.response_rate) == (200, Fraction(60, 200))
